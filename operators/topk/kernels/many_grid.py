"""Lazy influence grid: the queries that points of a cell can reach (paper 2, section 4.1, but without rows, and with cells on demand).

A uniform grid over the attributes' range, in three levels: coarse cells of two fine ones an axis, fine cells, and halves of fine cells.
A list of queries is made when the first row falls into its cell, from the list of the cell above, so an unused cell costs nothing. One
bit per fine cell says whether its rows need tests: most rows cost their cell's number and that bit. Rows outside the range
or with a value that is not finite are *wild*: tested against all queries (see ``many_probe``). Compiled only; without Numba the block is
scored for every query instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import inner
from skyband.operators.single_rows.kernels.score_programs import bound_queries_by_steps, has_steps
from skyband.operators.topk.kernels.many_queries import QueryTable

TILE = 512
UNKNOWN, NONE, ALL, NO_ROOM = -1, -2, -3, -4
"""Marks in place of a list: not looked at yet (or more lists than there may be), no query, all queries; and, never kept: ``entries`` must
grow before the list can be made."""

ENTRIES_USED, HALVES_USED, BOUNDS = range(3)
"""Places of the grid's counters: how much of ``CellLists.entries`` and of ``CellLists.halves`` is in use, and bounds computed so far."""

HEAD = 2
"""A list begins with its number of queries and its place in ``CellLists.halves``."""

MAX_ENTRIES = 8_000_000


class InfluenceGrid(NamedTuple):
    """A grid of g cells an axis over d attributes, and its cells."""

    cells: int
    """g: fine cells an axis."""
    low: F64
    """float64 (d,): where the first cell begins."""
    scale: F64
    """float64 (d,): cells per unit."""
    step: F64
    """float64 (d,): the width of a cell."""
    pad: F64
    """float64 (d,): by how much a cell is widened against the rounding of cell numbers."""
    bits: AnyArray
    """uint32 (g**d // 32 + 1,): a bit per fine cell and one for wild rows: whether a row in it needs a closer look."""
    coarse: AnyArray
    """int32 (((g + 1) // 2)**d,): a coarse cell's list in ``CellLists.entries``, or a mark."""
    fine: AnyArray
    """int32 (g**d,): a fine cell's list, or a mark."""
    counters: I64
    """int64 (3,): see ``ENTRIES_USED``."""


class CellLists(NamedTuple):
    """The lists of all cells: arrays that move when they grow."""

    entries: AnyArray
    """int32: lists one after the other, each [number of queries, place in ``halves`` or less than 0 for none, queries...]. A place less
    than 0 counts the rows still to come before halves are made."""
    halves: AnyArray
    """int32: 2**d places of lists (or marks) for every fine cell that is halved."""


class GridScratch(NamedTuple):
    """Scratch space for one box of the grid."""

    low: F64
    """float64 (d,): its lower corner."""
    high: F64
    """float64 (d,): its upper corner."""
    corner: I64
    """int64 (d,): its coarse cell's number on every axis."""
    least: F64
    """float64 (Q,): lower bounds of queries, which only programs have."""
    score: F64
    """float64 (Q,): upper bounds or scores of queries."""


@inner
def cell_numbers(columns: tuple[F64, ...], a: int, b: int, grid: InfluenceGrid, number: F64, out: AnyArray) -> None:
    """Write the fine cells of rows [a, b) of d float64 columns, at most TILE, to ``out`` int32; g**d for a wild row. ``number`` float64
    (TILE,) is space. O(d) per row, vectorised."""
    n = b - a
    s, o = number[:n], out[:n]
    g, d = float(grid.cells), len(columns)
    for t in range(d):
        column = columns[t][a:b]
        bias, scale = grid.low[t], grid.scale[t]
        if t == 0:
            for i in range(n):
                v = (column[i] - bias) * scale
                s[i] = np.floor(v) if 0.0 <= v < g else np.nan
        else:
            for i in range(n):
                v = (column[i] - bias) * scale
                s[i] = s[i] * g + (np.floor(v) if 0.0 <= v < g else np.nan)
    wild = float(grid.cells**d)
    for i in range(n):
        o[i] = np.int32(s[i] if s[i] == s[i] else wild)


@inner
def _bound_all(columns: F64, low: F64, high: F64, bound: F64) -> None:
    """Write the bounds of all weighted sums in the box [low, high] to ``bound`` (Q,).

    The operations are those of the score, each monotone: no score in the box is above its bound."""
    n = len(bound)
    for t in range(len(low)):
        w, a, b = columns[t], low[t], high[t]
        if t == 0:
            for q in range(n):
                u, v = w[q] * a, w[q] * b
                bound[q] = u if u > v else v
        else:
            for q in range(n):
                u, v = w[q] * a, w[q] * b
                bound[q] = bound[q] + (u if u > v else v)


@inner
def _boxes_meet(low: F64, high: F64, a: F64, b: F64) -> bool:
    """Return True if the closed boxes [low, high] and [a, b] have a point in common."""
    ok = True
    for t in range(len(a)):
        ok = ok and low[t] <= b[t] and a[t] <= high[t]
    return ok


@inner
def _make_list(table: QueryTable, cutoffs: F64, entries: AnyArray, counters: I64, above: int, scratch: GridScratch) -> int:
    """Make the list of the box in ``scratch`` out of the list at ``above`` (ALL: all queries): its place or a mark. O(d) per query."""
    queries, d = len(table.k), len(scratch.low)
    begin = counters[ENTRIES_USED]
    most = queries if above == ALL else entries[above]
    if begin + HEAD + most > len(entries):
        return UNKNOWN if begin > MAX_ENTRIES else NO_ROOM
    counters[BOUNDS] += most
    a, b = scratch.low, scratch.high
    end = begin + HEAD
    if above == ALL:
        bound = scratch.score
        if has_steps(table.program):
            bound_queries_by_steps(table.program, table.columns, entries[:0], a, b, scratch.least, bound)
        else:
            _bound_all(table.columns, a, b, bound)
        reached: Any = np.int64(0)
        for q in range(queries):
            reached += np.int64(not bound[q] < cutoffs[q])
        if reached == 0:
            return NONE
        if 2 * reached > queries:
            return ALL
        for q in range(queries):
            if not bound[q] < cutoffs[q] and (not table.boxed[q] or _boxes_meet(table.low[q], table.high[q], a, b)):
                entries[end] = q
                end += 1
    elif has_steps(table.program):
        listed, bound = entries[above + HEAD : above + HEAD + most], scratch.score[:most]
        bound_queries_by_steps(table.program, table.columns, listed, a, b, scratch.least[:most], bound)
        for i in range(most):
            q = listed[i]
            entries[end] = q
            end += 0 if bound[i] < cutoffs[q] or (table.boxed[q] and not _boxes_meet(table.low[q], table.high[q], a, b)) else 1
    else:
        weights = table.weights
        for i in range(above + HEAD, above + HEAD + most):
            q = entries[i]
            u, v = weights[q, 0] * a[0], weights[q, 0] * b[0]
            y = u if u > v else v
            for t in range(1, d):
                u, v = weights[q, t] * a[t], weights[q, t] * b[t]
                y = y + (u if u > v else v)
            entries[end] = q
            end += 0 if y < cutoffs[q] or (table.boxed[q] and not _boxes_meet(table.low[q], table.high[q], a, b)) else 1
    size = end - begin - HEAD
    if size == 0:
        return NONE
    entries[begin], entries[begin + 1] = size, -1
    counters[ENTRIES_USED] = end
    return int(begin)


@inner
def look_at_cell(table: QueryTable, cutoffs: F64, grid: InfluenceGrid, entries: AnyArray, cell: int, scratch: GridScratch) -> bool:
    """Make the lists of fine cell ``cell`` and its neighbours in one coarse cell that have none; False if ``entries`` must grow first."""
    g, low, step, pad = grid.cells, grid.low, grid.step, grid.pad
    a, b, corner = scratch.low, scratch.high, scratch.corner
    d = len(low)
    half = (g + 1) // 2
    rest, up, unit = cell, 0, 1
    for t in range(d - 1, -1, -1):
        corner[t] = rest % g // 2
        rest //= g
        up += unit * corner[t]
        unit *= half
        a[t], b[t] = low[t] + 2 * corner[t] * step[t] - pad[t], low[t] + (2 * corner[t] + 2) * step[t] + pad[t]
    if grid.coarse[up] == UNKNOWN:
        at = _make_list(table, cutoffs, entries, grid.counters, ALL, scratch)
        if at == NO_ROOM:
            return False
        grid.coarse[up] = at
    above: Any = np.int64(grid.coarse[up])
    for h in range(1 << d):
        f, inside = 0, True
        for t in range(d):
            o = 2 * corner[t] + ((h >> (d - 1 - t)) & 1)
            inside = inside and o < g
            f = f * g + o
            a[t], b[t] = low[t] + o * step[t] - pad[t], low[t] + (o + 1) * step[t] + pad[t]
        if inside and grid.fine[f] == UNKNOWN:
            if above >= 0 or above == ALL:
                at = _make_list(table, cutoffs, entries, grid.counters, above, scratch)
                if at == NO_ROOM:
                    return False
                grid.fine[f] = at
            else:
                grid.fine[f] = above
            if grid.fine[f] == NONE:
                grid.bits[f >> 5] &= ~(np.uint32(1) << np.uint32(f & 31))
    return True


@inner
def look_at_half(
    table: QueryTable, cutoffs: F64, grid: InfluenceGrid, entries: AnyArray, cell: int, half: int, at: int, scratch: GridScratch
) -> int:  # fmt: skip
    """Make the list of part ``half`` (a bit an axis, the first axis in the highest: the upper half) of fine cell ``cell``, whose list is
    at ``at``: as ``_make_list``."""
    g, low, step, pad = grid.cells, grid.low, grid.step, grid.pad
    for t in range(len(low) - 1, -1, -1):
        o = cell % g + 0.5 * (half & 1)
        cell //= g
        half >>= 1
        scratch.low[t], scratch.high[t] = low[t] + o * step[t] - pad[t], low[t] + (o + 0.5) * step[t] + pad[t]
    return int(_make_list(table, cutoffs, entries, grid.counters, at, scratch))
