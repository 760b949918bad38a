"""Which sinks on object storage this process holds the lock of, and under which number. Standard library only."""

from __future__ import annotations

import json
import time as clock
from contextlib import suppress
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.settings.spark import seconds

LEASE_VARIABLE: Final = "SKYBAND_LEASE"
"""Seconds for which a lock on object storage is its holder's after it was last written."""
DEFAULT_LEASE: Final = "30"

EPOCHS: Final[dict[str, int]] = {}
"""Root of a sink -> the epoch under which this process holds it (``lease``)."""


def epoch_of(root: object) -> int | None:
    """The epoch under which this process holds the sink at ``root``; None if it does not hold it, or the sink needs none."""
    return EPOCHS.get(str(root))


def lease_lost(root: object) -> SkybandError:
    """SKY-E631: the lock of the sink is another run's now."""
    said = f"this run stood still for longer than its lease, and another one has taken over the sink {root}: nothing more is written"
    return SkybandError(
        "SKY-E631", said, hint=f"nothing is lost; where runs stand still for long, {LEASE_VARIABLE} gives them more seconds"
    )


def lock_holder(lock: Path) -> int | None:
    """The process that has the lock on object storage, wherever that is; None if nobody has it, or has written it for two leases."""
    with suppress(FileNotFoundError, ValueError, KeyError, AttributeError):
        said = json.loads(lock.read_text())
        if not said.get("free") and clock.time() - lock.stat().st_mtime < 2 * seconds(LEASE_VARIABLE, DEFAULT_LEASE):
            return int(said["holder"].split()[1])
    return None
