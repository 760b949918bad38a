"""Select the best of many rows that rank after the members of a list. NumPy twins give equal results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, AnyArray
from skyband.operators.jit import HAVE_NUMBA, inner
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order, sift_down

BLOCK = 64


class Below(NamedTuple):
    """The rows to select: those that rank after (``score``, ``row``), with a score of at least ``floor``."""

    score: float
    row: int
    floor: float


@inner
def _any_above(scores: AnyArray, begin: int, end: int, score: float) -> bool:
    block = scores[begin:end]
    hits: Any = np.int64(0)
    for j in range(end - begin):
        hits += np.int64(block[j] > score)
    return bool(hits > 0)


@inner
def _select_nb(
    scores: F64, ended_by: AnyArray, now: int, begin: int, end: int, base: int, below: Below, best: Heap, size: int, need: int
) -> int:
    deletes, worst, row, floor = len(ended_by) > 0, below.score, below.row, below.floor
    best_score = best.score
    e = end
    while e > begin:
        b = max(begin, e - BLOCK)
        if size == need and not _any_above(scores, b, e, best_score[0]):
            e = b
            continue
        for i in range(e - 1, b - 1, -1):
            score = scores[i]
            if not score >= floor or score > worst or (score == worst and i >= row):
                continue
            if size == need and not score > best_score[0]:
                continue
            if deletes and ended_by[i] < now:
                continue
            if size < need:
                size = heap_push(best, size, score, base + i)
            else:
                sift_down(best, size, score, base + i)
        e = b
    return size


def _select_np(
    scores: F64, ended_by: AnyArray, now: int, begin: int, end: int, base: int, below: Below, best: Heap, size: int, need: int
) -> int:
    some = scores[begin:end]
    i = np.arange(begin, end)
    keep = (some >= below.floor) & ((some < below.score) | ((some == below.score) & (i < below.row)))
    if len(ended_by):
        keep &= ended_by[begin:end] >= now
    score = np.concatenate([best.score[:size], some[keep]])
    place = np.concatenate([best.place[:size], base + i[keep]])
    first = np.lexsort((place, score))[::-1][:need]
    size = len(first)
    best.score[:size], best.place[:size] = score[first], place[first]
    return size


select = _select_nb if HAVE_NUMBA else _select_np
"""Gather the ``need`` best rows of ``scores`` [begin, end) that ``below`` allows into the heap ``best`` of ``size``: its new size.

``scores`` float64 (rows,). ``ended_by`` int64 (rows,), or empty without deletions: a row with ``ended_by`` < ``now`` is left out.
``best.place`` holds ``base`` + row. Call for newer rows first. O(rows) compares plus O(log need) for the few that enter.
"""


def _sorted_np(best: Heap, size: int) -> None:
    return None  # the NumPy selection is in rank order already


into_rank_order = heap_to_order if HAVE_NUMBA else _sorted_np
"""Turn the heap of a selection into rank order, best first. O(size log size)."""
