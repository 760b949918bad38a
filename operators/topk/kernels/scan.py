"""Passes over a column of scores that look at 64 rows at a time: a compare and count first, then a word with a bit for each hit.

Taking the hits out of the word by their lowest bit costs per hit, not per row: no branch depends on a single row's score.
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
    """Place of the lowest bit of a uint64 that is not 0, by a de Bruijn sequence."""
    bit: Any = word & (~word + np.uint64(1))
    place: int = _PLACES[np.int64((bit * np.uint64(_SEQUENCE)) >> np.uint64(58))]
    return place


@inner
def _gather_nb(sc: AnyArray, lo: int, hi: int, base: int, thr: float, rows: AnyArray, scores: AnyArray) -> int:
    c = 0
    i = lo
    while i < hi:
        e = min(hi, i + BLOCK)
        b = sc[i:e]
        hits: Any = np.int64(0)
        for j in range(e - i):
            hits += np.int64(b[j] >= thr)
        if hits > 0:
            word: Any = np.uint64(0)
            for j in range(e - i):
                word |= np.uint64(b[j] >= thr) << np.uint64(j)
            while word != np.uint64(0):
                j = lowest(word)
                word &= word - np.uint64(1)
                rows[c], scores[c] = base + i + j, b[j]
                c += 1
        i = e
    return c


def _gather_np(sc: AnyArray, lo: int, hi: int, base: int, thr: float, rows: AnyArray, scores: AnyArray) -> int:
    hit = lo + np.flatnonzero(sc[lo:hi] >= thr)
    rows[: len(hit)] = base + hit
    scores[: len(hit)] = sc[hit]
    return len(hit)


gather = _gather_nb if HAVE_NUMBA else _gather_np
"""Rows (base + i) and scores of the i in [lo, hi) with sc[i] >= thr, in order; returns their number."""


@inner
def _band_nb(sc: AnyArray, lo: int, hi: int, best: AnyArray, k: int, row: AnyArray, score: AnyArray, count: AnyArray) -> int:
    c, m = 0, 0
    worst = -np.inf
    e = hi
    while e > lo:
        n = min(e - lo, BLOCK)
        b = sc[e - n : e]
        hits: Any = np.int64(0)
        if c == k:
            for j in range(n):
                hits += np.int64(b[j] > worst)
        else:
            for j in range(n):
                hits += np.int64(b[j] >= worst)
        if hits > 0:
            word: Any = np.uint64(0)  # newest first: the last row is the lowest bit
            for j in range(n):
                word |= np.uint64(b[j] >= worst) << np.uint64(n - 1 - j)
            while word != np.uint64(0):
                j = lowest(word)
                word &= word - np.uint64(1)
                s = b[n - 1 - j]
                if c == k and s <= worst:
                    continue
                p, q = 0, c
                while p < q:
                    mid = (p + q) >> 1
                    if best[mid] >= s:
                        p = mid + 1
                    else:
                        q = mid
                if c < k:
                    shift(best, p, c, 1)
                    c += 1
                else:
                    shift(best, p, k - 1, 1)
                best[p] = s
                if c == k:
                    worst = best[k - 1]
                row[m], score[m], count[m] = e - 1 - j, s, p
                m += 1
        e -= n
    return m


def _band_np(sc: AnyArray, lo: int, hi: int, best: AnyArray, k: int, row: AnyArray, score: AnyArray, count: AnyArray) -> int:
    c, m = 0, 0
    for e in range(hi, lo, -1024):
        b = max(lo, e - 1024)
        s = sc[b:e]
        some = np.flatnonzero(s > best[k - 1] if c == k else s >= -np.inf)[::-1]
        for i, x in zip(some.tolist(), s[some].tolist(), strict=True):
            p = c - int(np.searchsorted(best[:c][::-1], x))
            if p < k:
                c = min(k, c + 1)
                best[p + 1 : c] = best[p : c - 1].copy()
                best[p] = x
                row[m], score[m], count[m] = b + i, x, p
                m += 1
    return m


band = _band_nb if HAVE_NUMBA else _band_np
"""The rows of [lo, hi) with fewer than k dominators among them, newest first: row, score, number of dominators. Returns how many.

``best`` (k) is scratch: the best scores of newer rows in rank order; where a row goes is how many dominate it.
"""
