"""Sorted candidate lists: the building blocks of the top-k kernels.

Rank order: larger score first, then larger seq. Scores are internal: larger is better (a ``min`` score comes negated), NaN is
"no candidate". Every loop has a NumPy twin with equal results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, inner


class RankedList(NamedTuple):
    """Room for a query's list in rank order, and for those that leave it; how many places are in use is counted by its user.

    ``score`` float64 (room,), ``seq`` int64 (room,), ``time`` int64 (room,): the members. ``left_score`` float64, ``left_seq`` int64
    (at least k,): members of the first k that one event takes away, in rank order.
    """

    score: F64
    seq: I64
    time: I64
    left_score: F64
    left_seq: I64


@inner
def place_of(scores: AnyArray, size: int, score: float) -> int:
    """Return where an arrival (newest of all) of ``score`` goes in a list of ``size``: before the first score <= it. O(log size)."""
    lo, hi = 0, size
    while lo < hi:
        mid = (lo + hi) >> 1
        if scores[mid] > score:
            lo = mid + 1
        else:
            hi = mid
    return lo


def _oldest_np(seqs: AnyArray, size: int) -> int:
    return int(np.argmin(seqs[:size])) if size else -1


@inner
def _oldest_nb(seqs: AnyArray, size: int) -> int:
    if size == 0:
        return -1
    least: Any = np.int64(NEVER)
    for i in range(size):
        least = min(least, seqs[i])
    place: Any = np.int64(0)
    for i in range(size):
        place += np.int64(i) * np.int64(seqs[i] == least)
    return int(place)


oldest = _oldest_nb if HAVE_NUMBA else _oldest_np
"""Place of the smallest seq (no two are equal) of the first ``size``, or -1 in an empty list. O(size), without a branch."""
