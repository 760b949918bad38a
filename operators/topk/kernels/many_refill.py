"""Searching the window of one key: refilling a list that ran short, and looking again at the rest of a block with a lower cutoff.

Rows are named by *places*: place p of a key lies at row ``p`` of the columns, or at ``p - wrap`` if p >= ``wrap`` (a ring; a multiple of
LEAF, so that no leaf is torn apart). Leaves whose corners are known are visited best first, so that drifting data cost a few leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit
from skyband.operators.single_rows.kernels.heap import Heap
from skyband.operators.single_rows.kernels.select import Below, into_rank_order, select
from skyband.operators.topk.kernels.scan import gather
from skyband.operators.topk.kernels.window_pool import LEAF, leaf_bound, leaf_bounds, score_rows

SAMPLE = 16


@jit
def first_from(tm: AnyArray, a: int, b: int, wrap: int, t: int) -> int:
    """First place in [a, b) of time >= t. O(log)."""
    while a < b:
        mid = (a + b) >> 1
        if tm[mid if mid < wrap else mid - wrap] < t:
            a = mid + 1
        else:
            b = mid
    return a


@jit
def corners_pay(w: AnyArray, x: AnyArray, zlo: AnyArray, zhi: AnyArray, a: int, b: int, wrap: int, thr: float) -> bool:
    """Whether, of a few full leaves in [a, b), a good part lies below the cutoff, so that bounds would leave leaves out. Looks at
    SAMPLE leaves, and leaves their corners behind."""
    first, last = (a + LEAF - 1) // LEAF, b // LEAF
    if last - first < 2 * SAMPLE:
        return True
    below = 0
    for i in range(SAMPLE):
        p = (first + i * (last - first) // SAMPLE) * LEAF
        p = p if p < wrap else p - wrap
        leaf_bounds(x, p, zlo, zhi, p // LEAF)
        below += 1 if leaf_bound(w, zlo, zhi, p // LEAF) < thr else 0
    return 8 * below > SAMPLE


@jit
def _select_any(
    sc: AnyArray, dead: AnyArray, deletes: bool, now: int, n: int, base: int, thr: float, cut: int, floor: float,
    wa: AnyArray, wi: AnyArray, c: int, need: int,
) -> int:  # fmt: skip
    """``select`` over rows [0, n) when newer rows may have been looked at before or not. ``cut``: a place less ``base``."""
    if c == need:
        hits: Any = np.int64(0)
        for i in range(n):
            hits += np.int64(sc[i] >= wa[0])
        if hits == 0:
            return c
    for i in range(n - 1, -1, -1):
        s = sc[i]
        if not s >= floor or s > thr or (s == thr and i >= cut) or (deletes and dead[i] < now):
            continue
        if c < need:
            j = c
            c += 1
            while j > 0:
                p = (j - 1) >> 1
                if wa[p] < s or (wa[p] == s and wi[p] < base + i):
                    break
                wa[j], wi[j] = wa[p], wi[p]
                j = p
        elif s > wa[0] or (s == wa[0] and base + i > wi[0]):
            j = 0
            while True:
                p = 2 * j + 1
                if p >= c:
                    break
                if p + 1 < c and (wa[p + 1] < wa[p] or (wa[p + 1] == wa[p] and wi[p + 1] < wi[p])):
                    p += 1
                if s < wa[p] or (s == wa[p] and base + i < wi[p]):
                    break
                wa[j], wi[j] = wa[p], wi[p]
                j = p
        else:
            continue
        wa[j], wi[j] = s, base + i
    return c


@jit
def _sink(key: AnyArray, leaf: AnyArray, i: int, n: int) -> None:
    k, v = key[i], leaf[i]
    while True:
        j = 2 * i + 1
        if j >= n:
            break
        if j + 1 < n and key[j + 1] > key[j]:
            j += 1
        if not key[j] > k:
            break
        key[i], leaf[i] = key[j], leaf[j]
        i = j
    key[i], leaf[i] = k, v


@jit
def _best_first(
    w: AnyArray, x: AnyArray, box: bool, low: AnyArray, high: AnyArray, where: int, flags: AnyArray, dead: AnyArray, ceiling: float,
    first: int, last: int, wrap: int, now: int, thr: float, cut: int, floor: float, wa: AnyArray, wi: AnyArray, c: int, need: int,
    chunk: AnyArray, zlo: AnyArray, zhi: AnyArray, work: AnyArray,
) -> int:  # fmt: skip
    """Leaves [first, last), all with corners, by falling bound until none can hold one of the ``need`` best."""
    n = last - first
    key, leaf = np.empty(n, np.float64), np.empty(n, np.int64)
    m = 0
    for i in range(n):
        p = (first + i) * LEAF
        bound = leaf_bound(w, zlo, zhi, (p if p < wrap else p - wrap) // LEAF)
        if not bound < floor and not (c == need and bound < wa[0]):
            key[m], leaf[m] = bound if bound == bound else np.inf, first + i
            m += 1
    for i in range(m // 2 - 1, -1, -1):
        _sink(key, leaf, i, m)
    while m > 0 and not (c == need and key[0] < wa[0]):
        p = leaf[0] * LEAF
        b = p if p < wrap else p - wrap
        work[1] += LEAF
        score_rows(w, x, b, b + LEAF, box, low, high, where, flags, ceiling, chunk)
        if len(dead):
            c = _select_any(chunk, dead[b : b + LEAF], True, now, LEAF, p, thr, cut - p, floor, wa, wi, c, need)
        else:
            c = _select_any(chunk, dead, False, now, LEAF, p, thr, cut - p, floor, wa, wi, c, need)
        m -= 1
        key[0], leaf[0] = key[m], leaf[m]
        _sink(key, leaf, 0, m)
    return c


@jit
def refill_rows(
    w: AnyArray, x: AnyArray, tm: AnyArray, box: bool, low: AnyArray, high: AnyArray, where: int, flags: AnyArray, dead: AnyArray,
    ceiling: float,
    first: int, arrived: int, wrap: int, base_seq: int, now: int, min_seq: int, min_time: int, thr: float, cut: int, floor: float,
    hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, need: int, wa: AnyArray, wi: AnyArray, chunk: AnyArray,
    zlo: AnyArray, zhi: AnyArray, leaf_hi: int, work: AnyArray,
) -> int:  # fmt: skip
    """Append to a list the ``need`` best alive rows of places [first, arrived) that rank after (thr, seq ``cut``). Returns how many there
    were.

    Place p has seq base_seq + p. Full leaves before ``leaf_hi`` have corners. O(leaves + rows not left out).
    """
    a = max(first, min(arrived, min_seq - base_seq))
    if len(tm):
        a = first_from(tm, a, arrived, wrap, min_time)
    c, e, cut_place = 0, arrived, cut - base_seq
    known_lo, known_hi = (a + LEAF - 1) // LEAF, leaf_hi // LEAF
    while e > a:
        leaf = (e - 1) // LEAF
        if HAVE_NUMBA and known_lo <= leaf < known_hi and e == leaf * LEAF + LEAF:
            c = _best_first(
                w, x, box, low, high, where, flags, dead, ceiling, known_lo, leaf + 1, wrap, now, thr, cut_place, floor, wa, wi, c, need,
                chunk, zlo, zhi, work,
            )  # fmt: skip
            e = known_lo * LEAF
            continue
        b = max(a, leaf * LEAF)
        p = b if b < wrap else b - wrap
        n = e - b
        work[1] += n
        score_rows(w, x, p, p + n, box, low, high, where, flags, ceiling, chunk)
        if not HAVE_NUMBA or known_lo >= known_hi:  # newest first throughout
            if len(dead):
                c = select(chunk, dead[p : p + n], now, 0, n, b, Below(thr, cut_place - b, floor), Heap(wa, wi), c, need)
            else:
                c = select(chunk, dead, now, 0, n, b, Below(thr, cut_place - b, floor), Heap(wa, wi), c, need)
        elif len(dead):
            c = _select_any(chunk, dead[p : p + n], True, now, n, b, thr, cut_place - b, floor, wa, wi, c, need)
        else:
            c = _select_any(chunk, dead, False, now, n, b, thr, cut_place - b, floor, wa, wi, c, need)
        e = b
    into_rank_order(Heap(wa, wi), c)
    for i in range(c):
        p = wi[i] if wi[i] < wrap else wi[i] - wrap
        hs[m + i], hq[m + i], ht[m + i] = wa[i], base_seq + wi[i], tm[p] if len(tm) else 0
    return c


@jit
def look_again(
    w: AnyArray, x: AnyArray, box: bool, low: AnyArray, high: AnyArray, where: int, flags: AnyArray, ceiling: float,
    a: int, b: int, up: int, wrap: int, thr: float, rows: AnyArray, scores: AnyArray, chunk: AnyArray,
    zlo: AnyArray, zhi: AnyArray, leaf_lo: int, leaf_hi: int, work: AnyArray,
) -> int:  # fmt: skip
    """Candidates of one query in places [a, b): rows (places less ``up``) and scores; returns their number."""
    found = 0
    while a < b:
        e = min(b, a // LEAF * LEAF + LEAF)
        p = a if a < wrap else a - wrap
        if not (e - a == LEAF and a >= leaf_lo and e <= leaf_hi and leaf_bound(w, zlo, zhi, p // LEAF) < thr):
            work[1] += e - a
            score_rows(w, x, p, p + e - a, box, low, high, where, flags, ceiling, chunk)
            found += gather(chunk, 0, e - a, a - up, thr, rows[found:], scores[found:])
        a = e
    return found
