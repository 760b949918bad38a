"""Which of many thresholds does a row pass? An influence grid (paper 2, section 4.1) whose lists are made when a cell is first touched.

Thresholds never change, so a cell's list, once made, stands: the queries whose interval of scores, and box, some point of the cell can
reach. Making one costs about two dot products per query; after that a row of the cell is tested against its list only, and a row of a
cell that concerns nobody costs one look-up. Rows outside the grid or with a value that is not finite are tested against all queries.
Compiled only; without Numba every row is scored for every query.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.arrays import grown

TILE = 512
NOBODY, SOMEBODY, NEW, OUTSIDE = range(4)
ENTRIES, TESTS, WILD, FILLS, FULL = range(5)
"""Places in the grid's counters: entries of all lists, tests of rows, rows outside, lists made, whether there was no room for a list."""


@jit
def _cells(x: AnyArray, a: int, b: int, low: AnyArray, scale: AnyArray, g: int, num: AnyArray, out: AnyArray) -> None:
    """Cell numbers of rows [a, b), at most TILE of them; g**d for a row outside the grid."""
    n, gf = b - a, float(g)
    s, o = num[:n], out[:n]
    for i in range(n):
        s[i] = 0.0
    for t in range(len(x)):
        col, bias, mul = x[t, a:b], low[t], scale[t]
        for i in range(n):
            v = (col[i] - bias) * mul
            s[i] = s[i] * gf + (np.floor(v) if 0.0 <= v < gf else np.nan)
    cells = g ** len(x)
    for i in range(n):
        o[i] = np.int64(s[i]) if s[i] == s[i] else cells


@jit
def _inside(point: AnyArray, low: AnyArray, high: AnyArray) -> bool:
    """Whether a point lies in a closed box; a value that is not a number does where the box is unbounded on both sides."""
    ok = True
    for t in range(len(point)):
        v = point[t]
        ok = ok and (low[t] <= v <= high[t] or (v != v and low[t] == -np.inf and high[t] == np.inf))
    return ok


@jit
def _fill(
    c: int, g: int, low: AnyArray, step: AnyArray, wt: AnyArray, least: AnyArray, most: AnyArray, box_low: AnyArray,
    box_high: AnyArray, start: AnyArray, length: AnyArray, lists: AnyArray, state: AnyArray, up: AnyArray, dn: AnyArray, limit: int,
) -> AnyArray:  # fmt: skip
    """Make the list of cell ``c``: scores of its corners in the order of operations of a score, so that no score in it lies outside.

    The cell is widened a little against the rounding of cell numbers. Returns ``lists`` (which may have moved).
    """
    d, nq = wt.shape
    ok = np.ones(nq, np.bool_)
    rest = c
    at = np.empty(d, np.int64)
    for t in range(d - 1, -1, -1):
        at[t] = rest % g
        rest //= g
    for t in range(d):
        pad = 1e-9 * (abs(low[t]) + abs(step[t]) * g)
        a, b = low[t] + at[t] * step[t] - pad, low[t] + (at[t] + 1) * step[t] + pad
        for q in range(nq):
            w = wt[t, q]
            p, s = w * b, w * a
            p, s = max(p, s), min(p, s)
            up[q] = up[q] + p if t > 0 else p
            dn[q] = dn[q] + s if t > 0 else s
        if len(box_low) > 0:
            for q in range(nq):
                ok[q] = ok[q] and box_low[q, t] <= b and box_high[q, t] >= a
    n = state[ENTRIES]
    if n + nq > len(lists):
        if n + nq > limit:
            state[FULL] = 1
            return lists
        lists = grown(lists, 2 * (n + nq))
    start[c] = n
    for q in range(nq):
        lists[n] = q
        n += 1 if ok[q] and up[q] >= least[q] and dn[q] <= most[q] else 0
    length[c] = n - start[c]
    state[ENTRIES] = n
    state[FILLS] += 1
    return lists


@jit
def probe(
    pack: AnyArray, wt: AnyArray, least: AnyArray, most: AnyArray, boxed: AnyArray, box_low: AnyArray, box_high: AnyArray, where: AnyArray,
    x: AnyArray, flags: AnyArray, low: AnyArray, step: AnyArray, g: int, start: AnyArray, length: AnyArray, hot: AnyArray,
    lists: AnyArray, state: AnyArray, limit: int, unusable: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray, int, AnyArray]:  # fmt: skip
    """(query, row, score) of every row that passes, rows ascending, their number, and the lists (which may have moved).

    ``pack`` (Q, d + 2): weights, least and most score of each query side by side; ``wt`` (d, Q) the weights by attribute. g = 0: there is
    no grid, all rows are tested against all queries. ``unusable`` counts per query the rows without a score that satisfy its predicate.
    """
    d, rows = x.shape
    nq = len(least)
    cells = g**d if g > 0 else 0
    size: Any = 4096
    ent_q, ent_r, ent_s = np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.float64)
    m = 0
    num, cell, hits = np.empty(TILE, np.float64), np.full(TILE, cells, np.int64), np.empty(TILE + 1, np.int64)
    point, up, dn = np.empty(d, np.float64), np.empty(nq, np.float64), np.empty(nq, np.float64)
    scale = 1.0 / step
    plain = len(box_low) == 0 and len(flags) == 0
    for r0 in range(0, rows, TILE):
        e = min(rows, r0 + TILE)
        if g > 0:
            _cells(x, r0, e, low, scale, g, num, cell)
        found: Any = np.int64(0)
        for i in range(e - r0):
            hits[found] = i
            found += np.int64(hot[cell[i]] != NOBODY)
        for h in range(found):
            r = r0 + hits[h]
            c = cell[hits[h]]
            if hot[c] == NEW and state[FULL] == 0:
                lists = _fill(
                    c, g, low, step, wt, least, most, box_low, box_high, start, length, lists, state, up, dn, limit
                )  # fmt: skip
                if state[FULL] == 0:
                    hot[c] = SOMEBODY if length[c] > 0 else NOBODY
            if hot[c] == NOBODY:
                continue
            for t in range(d):
                point[t] = x[t, r]
            if m + nq > len(ent_q):
                size = 2 * (m + nq)
                ent_q, ent_r, ent_s = grown(ent_q, size), grown(ent_r, size), grown(ent_s, size)
            m0 = m
            if hot[c] == SOMEBODY:
                state[TESTS] += length[c]
                for j in range(start[c], start[c] + length[c]):
                    q = lists[j]
                    y = pack[q, 0] * point[0]
                    for t in range(1, d):
                        y = y + pack[q, t] * point[t]
                    y = y + 0.0
                    ent_q[m], ent_r[m], ent_s[m] = q, r, y
                    m += 1 if pack[q, d] <= y <= pack[q, d + 1] else 0
            else:
                state[WILD] += 1
                v = point[0]
                for q in range(nq):
                    up[q] = wt[0, q] * v
                for t in range(1, d):
                    v = point[t]
                    for q in range(nq):
                        up[q] = up[q] + wt[t, q] * v
                bad: Any = np.int64(0)
                for q in range(nq):
                    bad += np.int64(up[q] != up[q])
                if bad > 0:
                    for q in range(nq):
                        usable = up[q] == up[q] or (where[q] >= 0 and (flags[r] >> where[q]) & 1 == 0)
                        if not usable and (not boxed[q] or _inside(point, box_low[q], box_high[q])):
                            unusable[q] += 1
                if bad < nq:
                    for q in range(nq):
                        ent_q[m], ent_r[m], ent_s[m] = q, r, up[q] + 0.0
                        m += 1 if least[q] <= up[q] <= most[q] else 0
            if not plain:
                m1, m = m, m0
                for j in range(m0, m1):
                    q = ent_q[j]
                    if (where[q] < 0 or (flags[r] >> where[q]) & 1 == 1) and (not boxed[q] or _inside(point, box_low[q], box_high[q])):
                        ent_q[m], ent_r[m], ent_s[m] = q, r, ent_s[j]
                        m += 1
    return ent_q, ent_r, ent_s, m, lists
