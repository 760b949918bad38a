"""Lazy influence grid: which queries can a point of a cell reach? (paper 2, section 4.1; no rows are kept, cells are looked at on demand)

A uniform grid over the attributes' range, in three levels: coarse cells of two fine ones an axis, fine cells, and halves of fine cells.
A list of queries is made when the first row falls into its cell, out of the list of the cell above, so a grid costs what it is used. One
bit per fine cell says whether a row in it needs a closer look: most rows cost their cell's number and that bit. Rows outside the range
or with a value that is not finite are *wild*: tested against all queries. Compiled only; without Numba the block is scored for every
query instead.

Arrays: ``bits`` uint32, a bit a fine cell and one for wild rows; ``coarse`` and ``fine`` int32, a cell's list or one of the marks below;
``halves`` int32, 2**d lists for every fine cell that has such; ``lists`` int32: [number of queries, place in ``halves`` or less than 0
for none (it is made at the VISITS-th row), queries...];
``fill`` int64: how much of ``lists`` and of ``halves`` is in use, and bounds computed so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.arrays import grown

TILE = 512
UNKNOWN, NONE, ALL = -1, -2, -3
LISTS, HALVES, BOUNDS = 0, 1, 2
HEAD = 2
SHORT, VISITS = 8, 4
HALVED_UP_TO = 8
MAX_ENTRIES = 8_000_000


@jit
def cell_numbers(
    cols: tuple[AnyArray, ...], a: int, b: int, lo: AnyArray, scale: AnyArray, g: int, num: AnyArray, out: AnyArray
) -> None:  # fmt: skip
    """Fine cells of rows [a, b), at most TILE of them; g**d for a wild row. O(d) per row, vectorised."""
    n = b - a
    s, o = num[:n], out[:n]
    gf, d = float(g), len(cols)
    for t in range(d):
        col = cols[t][a:b]
        bias, mul = lo[t], scale[t]
        if t == 0:
            for i in range(n):
                v = (col[i] - bias) * mul
                s[i] = np.floor(v) if 0.0 <= v < gf else np.nan
        else:
            for i in range(n):
                v = (col[i] - bias) * mul
                s[i] = s[i] * gf + (np.floor(v) if 0.0 <= v < gf else np.nan)
    wild = float(g**d)
    for i in range(n):
        o[i] = np.int32(s[i] if s[i] == s[i] else wild)


@jit
def _reach_all(wt: AnyArray, thr: AnyArray, a: AnyArray, b: AnyArray, s: AnyArray) -> int:
    """Bounds of all queries in the box [a, b] into ``s``; how many reach their cutoff. Same order of operations as the score, each
    monotone: no score in the box is above its bound."""
    n = len(s)
    for t in range(len(a)):
        w, low, high = wt[t], a[t], b[t]
        if t == 0:
            for q in range(n):
                u, v = w[q] * low, w[q] * high
                s[q] = u if u > v else v
        else:
            for q in range(n):
                u, v = w[q] * low, w[q] * high
                s[q] = s[q] + (u if u > v else v)
    c: Any = np.int64(0)
    for q in range(n):
        c += np.int64(not s[q] < thr[q])
    return int(c)


@jit
def _in_box(low: AnyArray, high: AnyArray, a: AnyArray, b: AnyArray) -> bool:
    ok = True
    for t in range(len(a)):
        ok = ok and low[t] <= b[t] and a[t] <= high[t]
    return ok


@jit
def _make(
    above: int, weights: AnyArray, wt: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, thr: AnyArray,
    a: AnyArray, b: AnyArray, s: AnyArray, lists: AnyArray, fill: AnyArray,
) -> tuple[int, AnyArray]:  # fmt: skip
    """Make the list of the box [a, b] out of the list at ``above`` (ALL: all queries): its place, NONE, ALL or, when there is no room,
    UNKNOWN; and ``lists``, which may have moved. O(d) per query above."""
    nq, d = weights.shape
    e = fill[LISTS]
    most = nq if above == ALL else lists[above]
    if e + HEAD + most > len(lists):
        if e > MAX_ENTRIES:
            return UNKNOWN, lists
        lists = grown(lists, 2 * (e + HEAD + most))
    fill[BOUNDS] += most
    c = e + HEAD
    if above == ALL:
        m = _reach_all(wt, thr, a, b, s)
        if m == 0:
            return NONE, lists
        if 2 * m > nq:
            return ALL, lists
        for q in range(nq):
            if not s[q] < thr[q] and (not boxed[q] or _in_box(low[q], high[q], a, b)):
                lists[c] = q
                c += 1
    else:
        for i in range(above + HEAD, above + HEAD + most):
            q = lists[i]
            u, v = weights[q, 0] * a[0], weights[q, 0] * b[0]
            y = u if u > v else v
            for t in range(1, d):
                u, v = weights[q, t] * a[t], weights[q, t] * b[t]
                y = y + (u if u > v else v)
            lists[c] = q
            c += 0 if y < thr[q] or (boxed[q] and not _in_box(low[q], high[q], a, b)) else 1
    m = c - e - HEAD
    if m == 0:
        return NONE, lists
    lists[e], lists[e + 1] = m, -1
    fill[LISTS] = c
    return int(e), lists


@jit
def _find(
    c: int, weights: AnyArray, wt: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, thr: AnyArray,
    lo: AnyArray, step: AnyArray, pad: AnyArray, g: int, a: AnyArray, b: AnyArray, corner: AnyArray, s: AnyArray,
    bits: AnyArray, coarse: AnyArray, fine: AnyArray, lists: AnyArray, fill: AnyArray,
) -> AnyArray:  # fmt: skip
    """Look at fine cell ``c`` and its neighbours in one coarse cell for the first time; returns ``lists``, which may have moved."""
    d = len(lo)
    half = (g + 1) // 2
    rest, up, unit = c, 0, 1
    for t in range(d - 1, -1, -1):
        corner[t] = rest % g // 2
        rest //= g
        up += unit * corner[t]
        unit *= half
        a[t], b[t] = lo[t] + 2 * corner[t] * step[t] - pad[t], lo[t] + (2 * corner[t] + 2) * step[t] + pad[t]
    if coarse[up] == UNKNOWN:
        at, lists = _make(ALL, weights, wt, boxed, low, high, thr, a, b, s, lists, fill)
        coarse[up] = at
    above: Any = np.int64(coarse[up])
    for h in range(1 << d):
        f, inside = 0, True
        for t in range(d):
            o = 2 * corner[t] + ((h >> (d - 1 - t)) & 1)
            inside = inside and o < g
            f = f * g + o
            a[t], b[t] = lo[t] + o * step[t] - pad[t], lo[t] + (o + 1) * step[t] + pad[t]
        if inside and fine[f] == UNKNOWN:
            if above >= 0 or above == ALL:
                at, lists = _make(above, weights, wt, boxed, low, high, thr, a, b, s, lists, fill)
                fine[f] = at
            else:
                fine[f] = above
            if fine[f] == NONE:
                bits[f >> 5] &= ~(np.uint32(1) << np.uint32(f & 31))
    return lists


@jit
def _find_half(
    at: int, c: int, h: int, weights: AnyArray, wt: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, thr: AnyArray,
    lo: AnyArray, step: AnyArray, pad: AnyArray, g: int, a: AnyArray, b: AnyArray, s: AnyArray, lists: AnyArray, fill: AnyArray,
) -> tuple[int, AnyArray]:  # fmt: skip
    """The list of part ``h`` (a bit an axis, the first axis in the highest: the upper half) of fine cell ``c``, whose list is ``at``."""
    rest = c
    for t in range(len(lo) - 1, -1, -1):
        o = rest % g + 0.5 * (h & 1)
        rest //= g
        h >>= 1
        a[t], b[t] = lo[t] + o * step[t] - pad[t], lo[t] + (o + 0.5) * step[t] + pad[t]
    return _make(at, weights, wt, boxed, low, high, thr, a, b, s, lists, fill)


@jit
def probe_lazy(
    weights: AnyArray, wt: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, where: AnyArray, ceiling: AnyArray, thr: AnyArray,
    cols: tuple[AnyArray, ...], rows: int, flags: AnyArray, lo: AnyArray, scale: AnyArray, step: AnyArray, pad: AnyArray, g: int,
    bits: AnyArray, coarse: AnyArray, fine: AnyArray, halves: AnyArray, lists: AnyArray, fill: AnyArray, work: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, AnyArray]:  # fmt: skip
    """Candidates of all queries among ``rows`` rows: (offsets per query, rows in order within a query, scores), and ``halves`` and
    ``lists``, which may have moved. ``wt`` is ``weights`` transposed."""
    nq, d = weights.shape
    cells = g**d
    ent_q, ent_r, ent_s = np.empty(4096, np.int32), np.empty(4096, np.int64), np.empty(4096, np.float64)
    m = 0
    num, cell = np.empty(TILE, np.float64), np.empty(TILE, np.int32)
    hits = np.empty(TILE + 1, np.int32)
    point, a, b, s = np.empty(d, np.float64), np.empty(d, np.float64), np.empty(d, np.float64), np.empty(nq, np.float64)
    corner, parts = np.empty(d, np.int64), 1 << d
    simple = not boxed.any() and len(flags) == 0 and not (ceiling < np.inf).any()
    for r0 in range(0, rows, TILE):
        e = min(rows, r0 + TILE)
        cell_numbers(cols, r0, e, lo, scale, g, num, cell)
        found: Any = np.int64(0)
        for i in range(e - r0):
            c: Any = cell[i]
            hits[found] = i
            found += np.int64((bits[c >> 5] >> np.uint32(c & 31)) & np.uint32(1))
        for j in range(found):
            c = np.int64(cell[hits[j]])
            r = r0 + hits[j]
            for t in range(d):
                point[t] = cols[t][r]
            at: Any = np.int64(UNKNOWN)
            if c < cells:
                if fine[c] == UNKNOWN:
                    lists = _find(
                        c, weights, wt, boxed, low, high, thr, lo, step, pad, g, a, b, corner, s, bits, coarse, fine, lists, fill
                    )  # fmt: skip
                at = np.int64(fine[c])
                if at == NONE:
                    continue
                if at >= 0 and lists[at] > SHORT and d <= HALVED_UP_TO and lists[at + 1] < 0:
                    lists[at + 1] -= 1
                if at >= 0 and (lists[at + 1] >= 0 or lists[at + 1] < -VISITS):
                    if lists[at + 1] < 0:
                        n0 = fill[HALVES]
                        if n0 + parts > len(halves):
                            halves = grown(halves, 2 * (n0 + parts))
                        halves[n0 : n0 + parts] = UNKNOWN
                        fill[HALVES] = n0 + parts
                        lists[at + 1] = n0
                    h = 0
                    for t in range(d):
                        v = (point[t] - lo[t]) * scale[t]
                        h = 2 * h + (1 if v - np.floor(v) >= 0.5 else 0)
                    part = lists[at + 1] + h
                    if halves[part] == UNKNOWN:
                        to, lists = _find_half(
                            at, c, h, weights, wt, boxed, low, high, thr, lo, step, pad, g, a, b, s, lists, fill
                        )  # fmt: skip
                        halves[part] = to
                    at = np.int64(halves[part]) if halves[part] != UNKNOWN else at
                    if at == NONE:
                        continue
            count: Any = np.int64(nq if at < 0 else lists[at])
            if m + count > len(ent_q):
                size = 2 * (m + count)
                ent_q, ent_r, ent_s = grown(ent_q, size), grown(ent_r, size), grown(ent_s, size)
            m0 = m
            if at < 0:  # a wild row, or a cell that more than half of the queries reach
                if c == cells:
                    bad, finite = False, True
                    for t in range(d):
                        bad = bad or point[t] != point[t]
                        finite = finite and abs(point[t]) < np.inf
                    if bad:
                        work[4] += 1
                        continue
                    work[3] += 1
                    work[5] += 1 if finite else 0
                for t in range(d):
                    w, v = wt[t], point[t]
                    if t == 0:
                        for q in range(nq):
                            s[q] = w[q] * v
                    else:
                        for q in range(nq):
                            s[q] = s[q] + w[q] * v
                work[2] += nq // 8
                for q in range(nq):
                    ent_q[m], ent_r[m], ent_s[m] = q, r, s[q] + 0.0
                    m += 1 if s[q] >= thr[q] else 0
            else:
                work[2] += count
                for i in range(at + HEAD, at + HEAD + count):
                    q = lists[i]
                    y = weights[q, 0] * point[0]
                    for t in range(1, d):
                        y = y + weights[q, t] * point[t]
                    y = y + 0.0
                    ent_q[m], ent_r[m], ent_s[m] = q, r, y
                    m += 1 if y >= thr[q] else 0
            if not simple:
                m1, m = m, m0
                for i in range(m0, m1):
                    q = ent_q[i]
                    ok = not ent_s[i] > ceiling[q] and (where[q] < 0 or (flags[r] >> where[q]) & 1 == 1)
                    if boxed[q]:
                        for t in range(d):
                            ok = ok and low[q, t] <= point[t] <= high[q, t]
                    if ok:
                        ent_q[m], ent_r[m], ent_s[m] = q, r, ent_s[i]
                        m += 1
    offset = np.zeros(nq + 2, np.int64)
    for i in range(m):
        offset[ent_q[i] + 2] += 1
    for q in range(nq):
        offset[q + 2] += offset[q + 1]
    at_row, at_score = np.empty(m, np.int64), np.empty(m, np.float64)
    for i in range(m):
        q = ent_q[i] + 1
        at_row[offset[q]], at_score[offset[q]] = ent_r[i], ent_s[i]
        offset[q] += 1
    return offset[: nq + 1].copy(), at_row, at_score, halves, lists


@jit
def forget(
    queries: AnyArray, weights: AnyArray, thr: AnyArray, lo: AnyArray, step: AnyArray, pad: AnyArray, g: int,
    bits: AnyArray, coarse: AnyArray, fine: AnyArray, fill: AnyArray,
) -> None:  # fmt: skip
    """Cutoffs of ``queries`` are lower now: every cell they reach is unknown again. Depth first, pruned by the best rest."""
    d = weights.shape[1]
    half = (g + 1) // 2
    tab, rest = np.empty((d, g), np.float64), np.zeros(d + 1, np.float64)
    at, cell, up = np.zeros(d, np.int64), np.zeros(d + 1, np.int64), np.zeros(d + 1, np.int64)
    prefix = np.zeros(d + 1, np.float64)
    for q in queries:
        for t in range(d - 1, -1, -1):
            best = -np.inf
            for o in range(g):
                u, v = weights[q, t] * (lo[t] + o * step[t] - pad[t]), weights[q, t] * (lo[t] + (o + 1) * step[t] + pad[t])
                tab[t, o] = u if u > v else v
                best = max(best, tab[t, o])
            rest[t] = rest[t + 1] + best
        level = 0
        at[0] = -1
        while level >= 0:
            at[level] += 1
            o = at[level]
            if o == g:
                level -= 1
                continue
            p = prefix[level] + tab[level, o]
            if p + rest[level + 1] + 1e-9 * (abs(p) + abs(rest[level + 1])) < thr[q]:
                continue
            c, u = cell[level] * g + o, up[level] * half + o // 2
            if level == d - 1:
                fill[BOUNDS] += 1
                fine[c] = coarse[u] = UNKNOWN
                bits[c >> 5] |= np.uint32(1) << np.uint32(c & 31)
                continue
            level += 1
            prefix[level], cell[level], up[level], at[level] = p, c, u, -1
