"""Decide when the log of a Delta table gets a checkpoint: often enough that commits stay cheap.

Every commit reads the log since the last checkpoint, 0.1 to 0.2 ms per commit in it. Writing a checkpoint takes about as long per file that
it names [measured, delta-rs 1.6.6: with a checkpoint every 20 instead of 100 commits, a commit of a small table takes 5 instead of 12 ms,
checkpoints included]. The sum is least with as many commits between two checkpoints as the square root of the files they name.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from skyband.framework.tables.writing import upkeep

LEAST: Final = 20
"""The least number of commits between two checkpoints."""


class Checkpoint(NamedTuple):
    """A checkpoint of a log: its ``version`` and its number of actions."""

    version: int
    actions: int


def last(table: Path) -> Checkpoint:
    """Return the newest checkpoint of the log in the directory ``table``; an empty one if there is none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads((table / "_delta_log" / "_last_checkpoint").read_text())
        return Checkpoint(int(content["version"]), int(content["size"]))
    return Checkpoint(0, 0)


def due(version: int, before: Checkpoint) -> bool:
    """Return True if a table at ``version`` needs a checkpoint, given the one ``before``."""
    return version - before.version >= min(upkeep.CHECKPOINT_INTERVAL, max(LEAST, math.isqrt(before.actions)))
