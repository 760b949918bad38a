"""Passes over a column of scores in blocks of 64 rows: count the hits of a block first, then build a word with a bit for each hit.

Taking the lowest bit out of the word costs per hit, not per row: no branch depends on a single row's score.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import HAVE_NUMBA, inner, jit
from skyband.operators.single_rows.kernels.arrays import shift
from skyband.operators.single_rows.kernels.select import BLOCK

_SEQUENCE = 0x03F79D71B4CB0A89
_PLACES = np.zeros(64, np.int64)
for _i in range(64):
    _PLACES[((_SEQUENCE << _i) & 0xFFFFFFFFFFFFFFFF) >> 58] = _i


@jit
def lowest(word: int) -> int:
    """Return the place of the lowest bit of a uint64 that is not 0, by a de Bruijn sequence."""
    bit: Any = word & (~word + np.uint64(1))
    place: int = _PLACES[np.int64((bit * np.uint64(_SEQUENCE)) >> np.uint64(58))]
    return place


@inner
def _gather_nb(
    scores: AnyArray, begin: int, end: int, first_row: int, cutoff: float, found_rows: AnyArray, found_scores: AnyArray
) -> int:  # fmt: skip
    found = 0
    start = begin
    while start < end:
        stop = min(end, start + BLOCK)
        block = scores[start:stop]
        hits: Any = np.int64(0)
        for i in range(stop - start):
            hits += np.int64(block[i] >= cutoff)
        if hits > 0:
            word: Any = np.uint64(0)
            for i in range(stop - start):
                word |= np.uint64(block[i] >= cutoff) << np.uint64(i)
            while word != np.uint64(0):
                i = lowest(word)
                word &= word - np.uint64(1)
                found_rows[found], found_scores[found] = first_row + start + i, block[i]
                found += 1
        start = stop
    return found


def _gather_np(
    scores: AnyArray, begin: int, end: int, first_row: int, cutoff: float, found_rows: AnyArray, found_scores: AnyArray
) -> int:  # fmt: skip
    hits = begin + np.flatnonzero(scores[begin:end] >= cutoff)
    found_rows[: len(hits)] = first_row + hits
    found_scores[: len(hits)] = scores[hits]
    return len(hits)


gather = _gather_nb if HAVE_NUMBA else _gather_np
"""Find the i in [begin, end) with scores[i] >= cutoff: write rows (first_row + i) and scores, in order; return their number."""


@inner
def _band_nb(
    scores: AnyArray, begin: int, end: int, best: AnyArray, k: int, band_rows: AnyArray, band_scores: AnyArray, dominators: AnyArray
) -> int:  # fmt: skip
    size, found = 0, 0  # of ``best``, and of the band
    worst = -np.inf  # the k-th best score so far
    stop = end
    while stop > begin:
        rows = min(stop - begin, BLOCK)
        block = scores[stop - rows : stop]
        hits: Any = np.int64(0)
        if size == k:
            for i in range(rows):
                hits += np.int64(block[i] > worst)
        else:
            for i in range(rows):
                hits += np.int64(block[i] >= worst)
        if hits > 0:
            word: Any = np.uint64(0)  # newest first: the last row is the lowest bit
            for i in range(rows):
                word |= np.uint64(block[i] >= worst) << np.uint64(rows - 1 - i)
            while word != np.uint64(0):
                age = lowest(word)
                word &= word - np.uint64(1)
                score = block[rows - 1 - age]
                if size == k and score <= worst:
                    continue
                place, high = 0, size  # of those in ``best``, how many dominate the row
                while place < high:
                    middle = (place + high) >> 1
                    if best[middle] >= score:
                        place = middle + 1
                    else:
                        high = middle
                if size < k:
                    shift(best, place, size, 1)
                    size += 1
                else:
                    shift(best, place, k - 1, 1)
                best[place] = score
                if size == k:
                    worst = best[k - 1]
                band_rows[found], band_scores[found], dominators[found] = stop - 1 - age, score, place
                found += 1
        stop -= rows
    return found


def _band_np(
    scores: AnyArray, begin: int, end: int, best: AnyArray, k: int, band_rows: AnyArray, band_scores: AnyArray, dominators: AnyArray
) -> int:  # fmt: skip
    size, found = 0, 0
    for stop in range(end, begin, -1024):
        start = max(begin, stop - 1024)
        block = scores[start:stop]
        hits = np.flatnonzero(block > best[k - 1] if size == k else block >= -np.inf)[::-1]
        for i, score in zip(hits.tolist(), block[hits].tolist(), strict=True):
            place = size - int(np.searchsorted(best[:size][::-1], score))
            if place < k:
                size = min(k, size + 1)
                best[place + 1 : size] = best[place : size - 1].copy()
                best[place] = score
                band_rows[found], band_scores[found], dominators[found] = start + i, score, place
                found += 1
    return found


band = _band_nb if HAVE_NUMBA else _band_np
"""Find the rows of [begin, end) that fewer than k newer ones dominate: write row, score and number of dominators, newest first; return
their number.

A dominator is newer and has at least the same score. ``best`` float64 (k,) is scratch: the best scores of the rows visited, descending.
"""
