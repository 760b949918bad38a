"""How many of the random cases a run takes: all of them, or the share that ``SKYBAND_SEEDS`` names (``make quick``: a few)."""

from __future__ import annotations

import math
import os

SHARE = float(os.environ.get("SKYBAND_SEEDS", "1"))


def cases(number: int) -> int:
    """So many, or its share: at least one."""
    return max(1, round(number * SHARE))


def least(number: int) -> int:
    """Return the least count that a run must reach where one with all cases reaches ``number``: its share, rounded down."""
    return math.floor(number * SHARE)


def seeds(first: int, end: int) -> range:
    """first, ..., end - 1, or the first few of them."""
    return range(first, first + cases(end - first))
