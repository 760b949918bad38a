"""Finding a sub-batch's candidate pairs: partners newest first, against the staircase frozen at its start (docs/algorithms.md D2).

Blocks are the outer loop and arrivals the inner one, so that a block stays in the first-level cache while every arrival looks at it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit

SMALLEST, LARGEST, UNCOUNTED = 32, 1024, 64
"""Blocks double from the first size to the second; up to the third, scores are looked at without counting first."""


@jit
def grow_candidates(
    c_s: AnyArray, c_o: AnyArray, c_i: AnyArray, packed: AnyArray, size: int
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Copies with room for ``size``."""
    s, o, i, p = np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    m = len(c_s)
    s[:m], o[:m], i[:m], p[:m] = c_s, c_o, c_i, packed
    return s, o, i, p


@jit
def scan(
    count_a: Callable[..., int], score_a: Callable[..., None], count_b: Callable[..., int], score_b: Callable[..., None],
    fcols: AnyArray, icols: AnyArray, shift: int, t0: int, b: int, los: AnyArray, sides: AnyArray, xf: AnyArray, xi: AnyArray,
    ko: AnyArray, ku: AnyArray, k_lo: int, k_hi: int, intra: AnyArray, least: AnyArray, buf: AnyArray,
    c_s: AnyArray, c_o: AnyArray, c_i: AnyArray, packed: AnyArray, work: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, int]:  # fmt: skip
    """Fill ``intra`` and the candidate arrays (returned, they may have grown, with their number) and ``least``, the best score per arrival.

    Arrival i has seq t0 + i, attributes xf[i], xi[i], first alive partner los[i], and ``sides[i]``: 0 it is the pair's ``b``, 1 its ``a``,
    2 neither. Object j is at position j + shift. O(partners) compares per arrival.
    """
    m = 0
    for i in range(b):
        least[i] = np.nan
        row = intra[i]
        first = max(los[i] - t0, 0)
        for j in range(i if sides[i] == 2 else min(first, i)):
            row[j] = np.nan
        if sides[i] == 2 or first >= i:
            continue
        if sides[i] == 0:
            score_b(fcols, icols, t0 + first + shift, t0 + i + shift, xf[i], xi[i], row[first:i])
        else:
            score_a(fcols, icols, t0 + first + shift, t0 + i + shift, xf[i], xi[i], row[first:i])
        work[0] += i - first
        for j in range(first, i):
            if row[j] < least[i] or least[i] != least[i]:
                least[i] = row[j]
    hi, width, p = t0, SMALLEST, k_lo
    while hi > los[0]:
        lo = max(los[0], hi - width)
        while p < k_hi and ko[p] >= hi:
            p += 1
        limit = ku[p - 1] if p > k_lo else np.inf
        if limit != limit:
            break
        m0 = m
        for i in range(b):
            first = max(lo, los[i])
            if first >= hi:
                break
            side = sides[i]
            if side == 2:
                continue
            work[0] += hi - first
            if width > UNCOUNTED:
                if side == 0:
                    found = count_b(fcols, icols, first + shift, hi + shift, xf[i], xi[i], limit)
                else:
                    found = count_a(fcols, icols, first + shift, hi + shift, xf[i], xi[i], limit)
                if found == 0:
                    continue
            if side == 0:
                score_b(fcols, icols, first + shift, hi + shift, xf[i], xi[i], buf)
            else:
                score_a(fcols, icols, first + shift, hi + shift, xf[i], xi[i], buf)
            if m + hi - first > len(c_s):
                c_s, c_o, c_i, packed = grow_candidates(c_s, c_o, c_i, packed, 2 * len(c_s) + hi - first)
            at, u = p, limit
            for q in range(hi - first - 1, -1, -1):
                s = buf[q]
                if s <= u:
                    while at < k_hi and ko[at] > first + q:
                        at += 1
                    u = ku[at - 1] if at > k_lo else np.inf
                    if s <= u:
                        c_s[m], c_o[m], c_i[m] = s, first + q, i
                        packed[m] = ((t0 - first - q) << 28) | m
                        m += 1
                        if s < least[i] or least[i] != least[i]:
                            least[i] = s
        if m - m0 > 1:
            packed[m0:m].sort()
        hi = lo
        width = min(2 * width, LARGEST)
    work[1] += m
    return c_s, c_o, c_i, packed, m
