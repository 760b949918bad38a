"""When the log of a Delta table gets a checkpoint: often enough for the next commits to be cheap.

Every commit reads the log since the last checkpoint, a tenth of a millisecond or two for each commit in it, and writing a checkpoint takes
about as long for each file that it names [measured, delta-rs 1.6.6: with one for every 20 commits instead of 100 a commit of a small table
takes 5 instead of 12 ms, checkpoints and all]. The sum of both is least where there are as many commits between two checkpoints as the
square root of what they name.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from skyband.framework.tables.writing import upkeep

LEAST: Final = 20
"""Commits between two checkpoints, at the least."""


class Checkpoint(NamedTuple):
    """A checkpoint of a log: the ``version`` it is of, and the number of actions that it holds."""

    version: int
    actions: int


def last(table: Path) -> Checkpoint:
    """The newest checkpoint of the log in the directory ``table``; before there is one, that of nothing."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads((table / "_delta_log" / "_last_checkpoint").read_text())
        return Checkpoint(int(said["version"]), int(said["size"]))
    return Checkpoint(0, 0)


def due(version: int, before: Checkpoint) -> bool:
    """Whether a table of ``version`` is to get a checkpoint, after the one ``before``."""
    return version - before.version >= min(upkeep.CHECKPOINT_INTERVAL, max(LEAST, math.isqrt(before.actions)))
