"""Forget the lists of cells that queries reach since their cutoffs are lower (see ``many_grid``)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, jit, maker
from skyband.operators.single_rows.kernels.score_programs import bound_boxes_by_steps, has_steps
from skyband.operators.single_rows.score_programs import TILE
from skyband.operators.topk.kernels.many_grid import BOUNDS, UNKNOWN, InfluenceGrid
from skyband.operators.topk.kernels.many_queries import QueryTable


@maker
def _forget_sums(queries: I64, weights: F64, cutoffs: F64, grid: InfluenceGrid) -> None:
    """As ``forget``, for weighted sums: axis by axis, pruned by the best rest."""
    g, low, step, pad = grid.cells, grid.low, grid.step, grid.pad
    d = weights.shape[1]
    half = (g + 1) // 2
    part, rest = np.empty((d, g), np.float64), np.zeros(d + 1, np.float64)
    at, cell, up = np.zeros(d, np.int64), np.zeros(d + 1, np.int64), np.zeros(d + 1, np.int64)
    prefix = np.zeros(d + 1, np.float64)
    for q in queries:
        for t in range(d - 1, -1, -1):
            best = -np.inf
            for o in range(g):
                u, v = weights[q, t] * (low[t] + o * step[t] - pad[t]), weights[q, t] * (low[t] + (o + 1) * step[t] + pad[t])
                part[t, o] = u if u > v else v
                best = max(best, part[t, o])
            rest[t] = rest[t + 1] + best
        level = 0
        at[0] = -1
        while level >= 0:
            at[level] += 1
            o = at[level]
            if o == g:
                level -= 1
                continue
            p = prefix[level] + part[level, o]
            if p + rest[level + 1] + 1e-9 * (abs(p) + abs(rest[level + 1])) < cutoffs[q]:
                continue
            c, u = cell[level] * g + o, up[level] * half + o // 2
            if level == d - 1:
                grid.counters[BOUNDS] += 1
                grid.fine[c] = grid.coarse[u] = UNKNOWN
                grid.bits[c >> 5] |= np.uint32(1) << np.uint32(c & 31)
                continue
            level += 1
            prefix[level], cell[level], up[level], at[level] = p, c, u, -1


@inner
def _forget_coarse(corner: I64, grid: InfluenceGrid) -> None:
    """Mark the coarse cell at ``corner`` int64 (d,) and its fine cells unknown."""
    g, d = grid.cells, len(corner)
    half, up = (g + 1) // 2, 0
    for t in range(d):
        up = up * half + corner[t]
    grid.coarse[up] = UNKNOWN
    for h in range(1 << d):
        cell, inside = 0, True
        for t in range(d):
            o = 2 * corner[t] + ((h >> (d - 1 - t)) & 1)
            inside = inside and o < g
            cell = cell * g + o
        if inside:
            grid.fine[cell] = UNKNOWN
            grid.bits[cell >> 5] |= np.uint32(1) << np.uint32(cell & 31)


@inner
def _halve(boxes: I64, at: int, box: I64) -> None:
    """Write the two halves of ``box`` (2 d,), cut across its longest axis, to rows ``at`` and ``at`` + 1 of ``boxes``."""
    d, longest = len(box) // 2, 0
    for t in range(d):
        if box[d + t] - box[t] > box[d + longest] - box[longest]:
            longest = t
    for t in range(2 * d):
        boxes[at, t] = boxes[at + 1, t] = box[t]
    boxes[at, d + longest] = boxes[at + 1, longest] = (box[longest] + box[d + longest]) // 2


@maker
def _forget_by_steps(queries: I64, table: QueryTable, cutoffs: F64, grid: InfluenceGrid) -> None:
    """As ``forget``, for a program: boxes of coarse cells are halved as long as the query reaches them."""
    low, step, pad = grid.low, grid.step, grid.pad
    d, half = len(low), (grid.cells + 1) // 2
    boxes, some = np.empty((half**d + 2, 2 * d), np.int64), np.empty((TILE, 2 * d), np.int64)
    least, most, bound = np.empty((d, TILE), np.float64), np.empty((d, TILE), np.float64), np.empty(TILE, np.float64)
    for q in queries:
        boxes[0, :d], boxes[0, d:] = 0, half
        left = 1
        while left > 0:
            n = min(TILE, left)
            left -= n
            for i in range(n):
                for t in range(d):
                    a, b = boxes[left + i, t], boxes[left + i, d + t]
                    some[i, t], some[i, d + t] = a, b
                    least[t, i], most[t, i] = low[t] + 2 * a * step[t] - pad[t], low[t] + 2 * b * step[t] + pad[t]
            grid.counters[BOUNDS] += n
            bound_boxes_by_steps(table.program, table.weights[q], least, most, 0, n, bound)
            for i in range(n):
                if bound[i] < cutoffs[q]:
                    continue
                cells = 1
                for t in range(d):
                    cells *= some[i, d + t] - some[i, t]
                if cells == 1:
                    _forget_coarse(some[i, :d], grid)
                else:
                    _halve(boxes, left, some[i])
                    left += 2


@jit
def forget(queries: I64, table: QueryTable, cutoffs: F64, grid: InfluenceGrid) -> None:
    """Mark every cell unknown that ``queries`` int64, whose cutoffs are lower now, reach. O(cells that one of them reaches) each."""
    if has_steps(table.program):
        _forget_by_steps(queries, table, cutoffs, grid)
    else:
        _forget_sums(queries, table.weights, cutoffs, grid)
