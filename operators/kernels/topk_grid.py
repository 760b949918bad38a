"""Influence grid: which queries can a point of a cell reach? (paper 2, section 4.1; here no rows are kept in cells)

A uniform grid over the attributes' range. For every cell that rows are known to fall into, the list of queries whose cutoff its best
corner can
reach, and one byte "is there anything to do" per cell: an arrival costs its cell number and one look-up. Rows outside the range, with a
value that is not finite, or in a cell where nothing was seen before are *wild*: tested against all queries. (Anti-correlated data
leave most of the
cube's best corner empty; listing queries there would be most of the work.) Compiled only; without Numba the block is scored for every
query instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.kernels.jit import jit
from skyband.operators.kernels.topk_replay import grown

TILE = 512


@jit
def _cells(x: AnyArray, a: int, b: int, lo: AnyArray, scale: AnyArray, g: int, num: AnyArray, out: AnyArray) -> None:
    """Cell numbers of pool rows [a, b), at most TILE of them; g**d for a row outside the grid."""
    n = b - a
    s, o = num[:n], out[:n]
    gf, d = float(g), len(x)
    for t in range(d):
        col = x[t, a:b]
        bias, mul = lo[t], scale[t]
        if t == 0:
            for i in range(n):
                v = (col[i] - bias) * mul
                s[i] = np.floor(v) if 0.0 <= v < gf else np.nan
        else:
            for i in range(n):
                v = (col[i] - bias) * mul
                s[i] = s[i] * gf + (np.floor(v) if 0.0 <= v < gf else np.nan)
    cells = g**d
    for i in range(n):
        o[i] = np.int64(s[i]) if s[i] == s[i] else cells


@jit
def occupied(x: AnyArray, a: int, b: int, lo: AnyArray, scale: AnyArray, g: int, seen: AnyArray) -> None:
    """Mark the cells of pool rows [a, b) and all prefixes of their numbers in ``seen`` (levels one after the other, coarsest first)."""
    d = len(x)
    num, cell = np.empty(TILE, np.float64), np.empty(TILE, np.int64)
    top = 0
    for t in range(1, d):
        top += g**t
    for r in range(a, b, TILE):
        e = min(b, r + TILE)
        _cells(x, r, e, lo, scale, g, num, cell)
        for i in range(e - r):
            if cell[i] < g**d:
                seen[top + cell[i]] = 1
    base = top
    for t in range(d - 1, 0, -1):
        up = base - g**t
        for c in range(g ** (t + 1)):
            if seen[base + c] != 0:
                seen[up + c // g] = 1
        base = up


@jit
def _corners(lo: AnyArray, step: AnyArray, g: int, seen: AnyArray, count: int) -> tuple[AnyArray, AnyArray]:
    """Numbers of the occupied cells, and their upper (rows 0..d-1) and lower (d..2d-1) corners, widened like ``influence``'s."""
    d = len(lo)
    listed, corners = np.empty(count, np.int64), np.empty((2 * d, count), np.float64)
    m = 0
    for c in range(g**d):
        if seen[c] != 0:
            listed[m] = c
            rest = c
            for i in range(d - 1, -1, -1):
                o = rest % g
                rest //= g
                pad = 1e-9 * (abs(lo[i]) + abs(step[i]) * g)
                corners[i, m], corners[d + i, m] = lo[i] + (o + 1) * step[i] + pad, lo[i] + o * step[i] - pad
            m += 1
    return listed, corners


@jit
def influence(
    weights: AnyArray,
    boxed: AnyArray,
    low: AnyArray,
    high: AnyArray,
    thr: AnyArray,
    lo: AnyArray,
    step: AnyArray,
    g: int,
    seen: AnyArray,
    limit: int,
) -> tuple[AnyArray, AnyArray, AnyArray, int]:
    """(start per cell, queries by cell, what to do per cell, number of entries) for cutoffs ``thr``; -1 entries if there are more than
    ``limit``.

    Cell o along axis i is [lo + o step, lo + (o + 1) step], widened a little against rounding. Cells are enumerated depth first,
    pruned by the
    best rest. The bound of a cell uses the score's order of operations, so it is never below a score in the cell.
    """
    nq, d = weights.shape
    cells = g**d
    entry_q, entry_c = np.empty(4096, np.int32), np.empty(4096, np.int32)
    m = 0
    tab = np.empty((d, g), np.float64)
    rest = np.zeros(d + 1, np.float64)
    at = np.zeros(d, np.int64)
    base = np.zeros(d, np.int64)
    for i in range(1, d):
        base[i] = base[i - 1] + g**i
    prefix, cell = np.zeros(d + 1, np.float64), np.zeros(d + 1, np.int64)
    count: Any = np.int64(0)
    for c in range(cells):
        count += np.int64(seen[base[d - 1] + c] != 0)
    visits = 0
    corners, listed, bounds = np.empty((2 * d, 0), np.float64), np.empty(0, np.int64), np.empty(TILE, np.float64)
    for q in range(nq):
        if visits > count * (q + 16) // 8 and not boxed[q]:
            if len(listed) == 0:
                listed, corners = _corners(lo, step, g, seen[base[d - 1] :], count)
            for c0 in range(0, count, TILE):
                c1 = min(count, c0 + TILE)
                s = bounds[: c1 - c0]
                for i in range(d):
                    w = weights[q, i]
                    col = corners[i, c0:c1] if w >= 0.0 else corners[d + i, c0:c1]
                    if i == 0:
                        for j in range(c1 - c0):
                            s[j] = w * col[j]
                    else:
                        for j in range(c1 - c0):
                            s[j] = s[j] + w * col[j]
                if m + TILE > len(entry_q):
                    if m > limit:
                        return np.empty(0, np.int64), entry_q, np.empty(0, np.uint8), -1
                    entry_q, entry_c = grown(entry_q, 2 * m + TILE), grown(entry_c, 2 * m + TILE)
                hits = np.int64(0)
                for j in range(c1 - c0):
                    hits += np.int64(s[j] >= thr[q])
                if hits > 0:
                    for j in range(c1 - c0):
                        if s[j] >= thr[q]:
                            entry_q[m], entry_c[m] = q, listed[c0 + j]
                            m += 1
            continue
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
            visits += 1
            o = at[level]
            if o == g:
                level -= 1
                continue
            v = tab[level, o]
            if v == -np.inf:
                continue
            p = prefix[level] + v if level > 0 else v
            c = cell[level] * g + o
            if seen[base[level] + c] == 0:
                continue
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
        if c == cells or seen[base[d - 1] + c] == 0:
            hot[c] = 2
    return start, lists, hot, m


@jit
def probe(
    weights: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, where: AnyArray, ceiling: AnyArray, thr: AnyArray,
    x: AnyArray, flags: AnyArray, a: int, b: int, lo: AnyArray, scale: AnyArray, g: int, shift: int,
    start: AnyArray, lists: AnyArray, hot: AnyArray, work: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray]:  # fmt: skip
    """Candidates of all queries among pool rows [a, b): (offsets per query, rows less ``shift``, scores), rows in order within a query."""
    nq, d = weights.shape
    cells = g**d
    ent_q, ent_r, ent_s = np.empty(4096, np.int32), np.empty(4096, np.int64), np.empty(4096, np.float64)
    m = 0
    num, cell = np.empty(TILE, np.float64), np.empty(TILE, np.int64)
    hits = np.empty(TILE + 1, np.int64)
    point = np.empty(d, np.float64)
    simple = not boxed.any() and len(flags) == 0 and not (ceiling < np.inf).any()
    for r0 in range(a, b, TILE):
        e = min(b, r0 + TILE)
        _cells(x, r0, e, lo, scale, g, num, cell)
        found: Any = np.int64(0)
        for i in range(e - r0):
            hits[found] = i
            found += np.int64(hot[cell[i]] != 0)
        for h in range(found):
            i = hits[h]
            r = r0 + i
            c = cell[i]
            bad = False
            for t in range(d):
                point[t] = x[t, r]
                bad = bad or point[t] != point[t]
            if hot[c] == 2:
                if bad:
                    work[4] += 1
                    continue
                work[3] += 1
                c = cells
            n0, n1 = start[c], start[c + 1]
            work[2] += n1 - n0
            if m + n1 - n0 > len(ent_q):
                size = 2 * (m + n1 - n0)
                ent_q, ent_r, ent_s = grown(ent_q, size), grown(ent_r, size), grown(ent_s, size)
            m0 = m
            for j in range(n0, n1):
                q = lists[j]
                y = weights[q, 0] * point[0]
                for t in range(1, d):
                    y = y + weights[q, t] * point[t]
                y = y + 0.0
                ent_q[m], ent_r[m], ent_s[m] = q, r - shift, y
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
                        ent_q[m], ent_r[m], ent_s[m] = q, r - shift, ent_s[j]
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
