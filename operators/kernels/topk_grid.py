"""Influence grid: which queries can a point of a cell reach? (paper 2, section 4.1; here no rows are kept in cells)

A uniform grid over the attributes' range. For every cell the list of queries whose cutoff its best corner can reach, and one byte "is the
list non-empty" per cell: an arrival costs its cell number and one look-up. Rows outside the range or with a value that is not finite go
to the *wild* cell, whose list is all queries. Compiled only; without Numba the block is scored for every query instead.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.kernels.jit import jit
from skyband.operators.kernels.topk_replay import grown

TILE = 512


@jit
def influence(
    weights: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, thr: AnyArray, lo: AnyArray, step: AnyArray, g: int, limit: int
) -> tuple[AnyArray, AnyArray, AnyArray, int]:
    """(start per cell, queries by cell, non-empty flags, number of entries) for cutoffs ``thr``; -1 entries if there are more than ``limit``.

    Cell o along axis i is [lo + o step, lo + (o + 1) step], widened a little against rounding. Cells are enumerated depth first, pruned by the
    best rest. The bound of a cell uses the score's order of operations, so it is never below a score in the cell.
    """
    nq, d = weights.shape
    cells = g**d
    entry_q, entry_c = np.empty(4096, np.int32), np.empty(4096, np.int32)
    m = 0
    tab = np.empty((d, g), np.float64)
    rest = np.zeros(d + 1, np.float64)
    at = np.zeros(d, np.int64)
    prefix, cell = np.zeros(d + 1, np.float64), np.zeros(d + 1, np.int64)
    for q in range(nq):
        for i in range(d - 1, -1, -1):
            w = weights[q, i]
            pad = 1e-9 * (abs(lo[i]) + abs(step[i]) * g)
            best = -np.inf
            for o in range(g):
                a, b = lo[i] + o * step[i] - pad, lo[i] + (o + 1) * step[i] + pad
                if boxed[q]:
                    a, b = max(a, low[q, i]), min(b, high[q, i])
                tab[i, o] = (w * b if w >= 0.0 else w * a) if a <= b else -np.inf
                best = max(best, tab[i, o])
            rest[i] = rest[i + 1] + best
        level = 0
        at[0] = -1
        while level >= 0:
            at[level] += 1
            o = at[level]
            if o == g:
                level -= 1
                continue
            v = tab[level, o]
            if v == -np.inf:
                continue
            p = prefix[level] + v if level > 0 else v
            c = cell[level] * g + o
            if level == d - 1:
                if not p < thr[q]:
                    if m == len(entry_q):
                        if m > limit:
                            return np.empty(0, np.int64), entry_q, np.empty(0, np.uint8), -1
                        entry_q, entry_c = grown(entry_q, 2 * m), grown(entry_c, 2 * m)
                    entry_q[m], entry_c[m] = q, c
                    m += 1
                continue
            bound = p + rest[level + 1]
            if bound + 1e-9 * (abs(p) + abs(rest[level + 1])) < thr[q]:
                continue
            level += 1
            prefix[level], cell[level], at[level] = p, c, -1
    start = np.zeros(cells + 3, np.int64)
    for e in range(m):
        start[entry_c[e] + 2] += 1
    start[cells + 2] = nq
    for c in range(cells + 2):
        start[c + 1] += start[c]
    lists = np.empty(m + nq, np.int32)
    for e in range(m):
        c = entry_c[e] + 1
        lists[start[c]] = entry_q[e]
        start[c] += 1
    for q in range(nq):
        lists[m + q] = q
    start[cells + 1] = m + nq
    hot = np.zeros(cells + 1, np.uint8)
    for c in range(cells + 1):
        hot[c] = 1 if start[c + 1] > start[c] else 0
    return start, lists, hot, m


@jit
def probe(
    weights: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, where: AnyArray, ceiling: AnyArray, thr: AnyArray,
    x: AnyArray, flags: AnyArray, a: int, b: int, lo: AnyArray, scale: AnyArray, g: int,
    start: AnyArray, lists: AnyArray, hot: AnyArray, work: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray]:  # fmt: skip
    """Candidates of all queries among pool rows [a, b): (offsets per query, rows, scores), rows in order within a query."""
    nq, d = weights.shape
    cells = g**d
    ent_q, ent_r, ent_s = np.empty(4096, np.int32), np.empty(4096, np.int64), np.empty(4096, np.float64)
    m = 0
    num = np.empty(TILE, np.float64)
    gf = float(g)
    point = np.empty(d, np.float64)
    simple = not boxed.any() and len(flags) == 0 and not (ceiling < np.inf).any()
    for r0 in range(a, b, TILE):
        e = min(b, r0 + TILE)
        s = num[: e - r0]
        col = x[0, r0:e]
        bias, mul = lo[0], scale[0]
        for i in range(e - r0):
            v = (col[i] - bias) * mul
            s[i] = np.floor(v) if 0.0 <= v < gf else np.nan
        for t in range(1, d):
            col = x[t, r0:e]
            bias, mul = lo[t], scale[t]
            for i in range(e - r0):
                v = (col[i] - bias) * mul
                s[i] = s[i] * gf + (np.floor(v) if 0.0 <= v < gf else np.nan)
        for i in range(e - r0):
            v = s[i]
            c = np.int64(v) if v == v else cells
            if hot[c] == 0:
                continue
            r = r0 + i
            work[3] += 1 if c == cells else 0
            n0, n1 = start[c], start[c + 1]
            work[2] += n1 - n0
            if m + n1 - n0 > len(ent_q):
                size = 2 * (m + n1 - n0)
                ent_q, ent_r, ent_s = grown(ent_q, size), grown(ent_r, size), grown(ent_s, size)
            for t in range(d):
                point[t] = x[t, r]
            m0 = m
            for j in range(n0, n1):
                q = lists[j]
                y = weights[q, 0] * point[0]
                for t in range(1, d):
                    y = y + weights[q, t] * point[t]
                y = y + 0.0
                ent_q[m], ent_r[m], ent_s[m] = q, r, y
                m += 1 if y >= thr[q] else 0
            if not simple:
                m1, m = m, m0
                for j in range(m0, m1):
                    q = ent_q[j]
                    ok = not ent_s[j] > ceiling[q] and (where[q] < 0 or (flags[r] >> where[q]) & 1 == 1)
                    if boxed[q]:
                        for t in range(d):
                            ok = ok and low[q, t] <= point[t] <= high[q, t]
                    if ok:
                        ent_q[m], ent_r[m], ent_s[m] = q, r, ent_s[j]
                        m += 1
    offset = np.zeros(nq + 2, np.int64)
    for j in range(m):
        offset[ent_q[j] + 2] += 1
    for q in range(nq):
        offset[q + 2] += offset[q + 1]
    rows, scores = np.empty(m, np.int64), np.empty(m, np.float64)
    for j in range(m):
        q = ent_q[j] + 1
        rows[offset[q]], scores[offset[q]] = ent_r[j], ent_s[j]
        offset[q] += 1
    return offset[: nq + 1].copy(), rows, scores
