"""Ranges of positions, one after the other."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64


def ranges(start: I64, length: I64) -> I64:
    """Return start[0], start[0] + 1, ..., of each range one after the other."""
    before = np.cumsum(length) - length
    found: I64 = np.repeat(start - before, length) + np.arange(int(length.sum()))
    return found
