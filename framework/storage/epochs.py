"""The locks of sinks on object storage that this process holds, and their epochs. Uses the standard library only."""

from __future__ import annotations

import json
import time as clock
from contextlib import suppress
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.settings.spark import seconds
from skyband.framework.storage.location import Location

LEASE_VARIABLE: Final = "SKYBAND_LEASE"
"""Environment variable: seconds for which a lock on object storage stays valid after its last renewal."""
DEFAULT_LEASE: Final = "30"

EPOCHS: Final[dict[str, int]] = {}
"""Root of a sink -> the epoch of this process's lock (``lease``)."""


def epoch_of(root: object) -> int | None:
    """Return the epoch of this process's lock of the sink at ``root``, or None without a lock."""
    return EPOCHS.get(str(root))


def lease_lost(root: object) -> SkybandError:
    """Return the error SKY-E631: another run holds the lock of the sink now."""
    said = f"this run stood still for longer than its lease, and another one has taken over the sink {root}: nothing more is written"
    return SkybandError(
        "SKY-E631", said, hint=f"nothing is lost; where runs stand still for long, {LEASE_VARIABLE} gives them more seconds"
    )


def lock_holder(lock: Location) -> int | None:
    """Return the process id of the holder of a lock on object storage; None if it is free or was not renewed for two leases."""
    with suppress(FileNotFoundError, ValueError, KeyError, AttributeError):
        said = json.loads(lock.read_text())
        if not said.get("free") and clock.time() - lock.stat().st_mtime < 2 * seconds(LEASE_VARIABLE, DEFAULT_LEASE):
            return int(said["holder"].split()[1])
    return None
