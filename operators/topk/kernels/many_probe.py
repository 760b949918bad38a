"""Candidates of all queries among a block's rows, by the influence grid (``many_grid``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.topk.kernels.many_grid import (
    HALVES_USED,
    HEAD,
    NONE,
    TILE,
    UNKNOWN,
    CellLists,
    GridScratch,
    InfluenceGrid,
    cell_numbers,
    look_at_cell,
    look_at_half,
)
from skyband.operators.topk.kernels.many_queries import OUTSIDE, TESTS, UNUSABLE, WILD, QueryTable

SHORT, VISITS = 8, 4
"""A cell whose list is longer than SHORT is halved when the VISITS-th row falls into it,"""

HALVED_UP_TO = 8
"""... in up to so many dimensions."""


class BlockCandidates(NamedTuple):
    """Rows of a block that reach queries' cutoffs; query q's are those from ``begin[q]`` to ``begin[q + 1]``."""

    begin: I64
    """int64 (Q + 1,); empty: not known, the block is to be scored for every query."""
    rows: I64
    """int64: rows of the block, ascending within a query."""
    scores: F64
    """float64: their internal scores."""


class _Found(NamedTuple):
    """Candidates in the order they were found: by row. Longer than they are full."""

    query: AnyArray
    """int32."""
    row: I64
    """int64."""
    score: F64
    """float64."""


@jit
def _room_for(found: _Found, size: int) -> _Found:
    """Room for ``size`` candidates, and as many again when it has to move."""
    if size <= len(found.query):
        return found
    return _Found(grown(found.query, 2 * size), grown(found.row, 2 * size), grown(found.score, 2 * size))


@jit
def _rows_to_look_at(bits: AnyArray, cell: AnyArray, n: int, hits: AnyArray) -> int:
    """Those of the first ``n`` rows whose cell's bit is set, into ``hits`` int32; returns their number."""
    found: Any = np.int64(0)
    for i in range(n):
        c: Any = cell[i]
        hits[found] = i
        found += np.int64((bits[c >> 5] >> np.uint32(c & 31)) & np.uint32(1))
    return int(found)


@jit
def _list_of(
    table: QueryTable, cutoffs: F64, grid: InfluenceGrid, lists: CellLists, cell: int, point: F64, scratch: GridScratch
) -> tuple[int, CellLists]:  # fmt: skip
    """The list that a row at ``point`` in fine cell ``cell`` is tested against: its place, NONE, or less than 0 for all queries; and the
    lists, which may have moved. Made if there is none yet."""
    entries, halves = lists.entries, lists.halves
    d, parts = len(point), 1 << len(point)
    if grid.fine[cell] == UNKNOWN:
        entries = look_at_cell(table, cutoffs, grid, entries, cell, scratch)
    at: Any = np.int64(grid.fine[cell])
    if at < 0:
        return at, CellLists(entries, halves)
    if entries[at] > SHORT and d <= HALVED_UP_TO and entries[at + 1] < 0:
        entries[at + 1] -= 1
    if entries[at + 1] >= 0 or entries[at + 1] < -VISITS:
        if entries[at + 1] < 0:
            used = grid.counters[HALVES_USED]
            if used + parts > len(halves):
                halves = grown(halves, 2 * (used + parts))
            halves[used : used + parts] = UNKNOWN
            grid.counters[HALVES_USED] = used + parts
            entries[at + 1] = used
        half = 0
        for t in range(d):
            v = (point[t] - grid.low[t]) * grid.scale[t]
            half = 2 * half + (1 if v - np.floor(v) >= 0.5 else 0)
        part = entries[at + 1] + half
        if halves[part] == UNKNOWN:
            to, entries = look_at_half(table, cutoffs, grid, entries, cell, half, at, scratch)
            halves[part] = to
        at = np.int64(halves[part]) if halves[part] != UNKNOWN else at
    return at, CellLists(entries, halves)


@jit
def _test_list(weights: F64, cutoffs: F64, entries: AnyArray, at: int, point: F64, row: int, found: _Found, m: int) -> int:
    """Test a row against the list at ``at``; candidates go to ``found`` from ``m`` on, which has room. Returns their number."""
    query, rows, score = found.query, found.row, found.score
    for i in range(at + HEAD, at + HEAD + entries[at]):
        q = entries[i]
        y = weights[q, 0] * point[0]
        for t in range(1, len(point)):
            y = y + weights[q, t] * point[t]
        y = y + 0.0
        query[m], rows[m], score[m] = q, row, y
        m += 1 if y >= cutoffs[q] else 0
    return m


@jit
def _test_all(columns: F64, cutoffs: F64, point: F64, row: int, scores: F64, found: _Found, m: int) -> int:
    """As ``_test_list``, for all queries. ``scores`` float64 (Q,) is space."""
    query, rows, score = found.query, found.row, found.score
    n = len(cutoffs)
    for t in range(len(point)):
        w, v = columns[t], point[t]
        if t == 0:
            for q in range(n):
                scores[q] = w[q] * v
        else:
            for q in range(n):
                scores[q] = scores[q] + w[q] * v
    for q in range(n):
        query[m], rows[m], score[m] = q, row, scores[q] + 0.0
        m += 1 if scores[q] >= cutoffs[q] else 0
    return m


@jit
def _usable(point: F64, work: I64) -> bool:
    """Whether a wild row has a value for every attribute; counts it."""
    missing, finite = False, True
    for t in range(len(point)):
        missing = missing or point[t] != point[t]
        finite = finite and abs(point[t]) < np.inf
    if missing:
        work[UNUSABLE] += 1
        return False
    work[WILD] += 1
    work[OUTSIDE] += 1 if finite else 0
    return True


@jit
def _allowed(table: QueryTable, point: F64, row: int, flags: I64, found: _Found, a: int, b: int) -> int:
    """Keep those of the row's candidates [a, b) that are in their query's box and predicate and not above its ceiling; returns the end."""
    query, rows, score = found.query, found.row, found.score
    m = a
    for i in range(a, b):
        q = query[i]
        ok = not score[i] > table.ceiling[q] and (table.where[q] < 0 or (flags[row] >> table.where[q]) & 1 == 1)
        if table.boxed[q]:
            for t in range(len(point)):
                ok = ok and table.low[q, t] <= point[t] <= table.high[q, t]
        if ok:
            query[m], rows[m], score[m] = q, row, score[i]
            m += 1
    return m


@jit
def _by_query(found: _Found, m: int, queries: int) -> BlockCandidates:
    """The first ``m`` sorted by query, rows in order within one. O(m + Q)."""
    begin = np.zeros(queries + 2, np.int64)
    for i in range(m):
        begin[found.query[i] + 2] += 1
    for q in range(queries):
        begin[q + 2] += begin[q + 1]
    rows, scores = np.empty(m, np.int64), np.empty(m, np.float64)
    for i in range(m):
        q = found.query[i] + 1
        rows[begin[q]], scores[begin[q]] = found.row[i], found.score[i]
        begin[q] += 1
    return BlockCandidates(begin[: queries + 1].copy(), rows, scores)


@jit
def probe_grid(
    table: QueryTable, cutoffs: F64, columns: tuple[F64, ...], rows: int, flags: I64, grid: InfluenceGrid, lists: CellLists, work: I64
) -> tuple[BlockCandidates, CellLists]:  # fmt: skip
    """Candidates of all queries among ``rows`` rows, and the lists of cells, which may have moved.

    ``cutoffs`` float64 (Q,); ``columns`` d float64 (rows,); ``flags`` int64 (rows,) or empty; ``work`` see ``REFILLS``. O(1) per row in a
    cell that no query reaches, O(d) per row and query of its cell's list.
    """
    queries, d = table.weights.shape
    cells = grid.cells**d
    found = _Found(np.empty(4096, np.int32), np.empty(4096, np.int64), np.empty(4096, np.float64))
    m: Any = 0
    number, cell, hits = np.empty(TILE, np.float64), np.empty(TILE, np.int32), np.empty(TILE + 1, np.int32)
    point = np.empty(d, np.float64)
    scratch = GridScratch(np.empty(d, np.float64), np.empty(d, np.float64), np.empty(d, np.int64), np.empty(queries, np.float64))
    simple = not table.boxed.any() and len(flags) == 0 and not (table.ceiling < np.inf).any()
    for begin in range(0, rows, TILE):
        end = min(rows, begin + TILE)
        cell_numbers(columns, begin, end, grid, number, cell)
        for j in range(_rows_to_look_at(grid.bits, cell, end - begin, hits)):
            c: Any = np.int64(cell[hits[j]])
            row = begin + hits[j]
            for t in range(d):
                point[t] = columns[t][row]
            at: Any = np.int64(UNKNOWN)
            if c < cells:
                at, lists = _list_of(table, cutoffs, grid, lists, c, point, scratch)
                if at == NONE:
                    continue
            elif not _usable(point, work):
                continue
            before = m
            if at >= 0:
                work[TESTS] += lists.entries[at]
                found = _room_for(found, m + lists.entries[at])
                m = _test_list(table.weights, cutoffs, lists.entries, at, point, row, found, m)
            else:  # a wild row, or a cell that more than half of the queries reach
                work[TESTS] += queries // 8
                found = _room_for(found, m + queries)
                m = _test_all(table.columns, cutoffs, point, row, scratch.score, found, m)
            if not simple:
                m = _allowed(table, point, row, flags, found, before, m)
    return _by_query(found, m, queries), lists
