"""Find the thresholds that a row passes: an influence grid (paper 2, section 4.1) that makes a cell's list at its first row.

Thresholds never change, so a cell's list is final: the queries whose interval of scores, and box, some point of the cell can
reach. Making one costs about two dot products per query; after that a row of the cell is tested against its list only, and a row of a
cell that no query reaches costs one look-up. Rows outside the grid or with a value that is not finite are tested against all queries.
Compiled only; without Numba every row is scored for every query.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import inner, jit
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.single_rows.kernels.score_programs import bound_queries_by_steps, has_steps, score_queries_by_steps
from skyband.operators.single_rows.score_programs import ScoreProgram

TILE = 512
NOBODY, SOMEBODY, EVERYBODY, NEW, OUTSIDE = range(5)
"""Marks of cells: no query reaches it, it has a list, all queries are tested, no row fell into it yet; and the mark of all rows outside the
grid."""

ENTRIES, TESTS, WILD, FILLS, FULL = range(5)
"""Places in the grid's counters: entries of all lists, tests of rows, rows outside, lists made, whether there was no room for a list."""


class Thresholds(NamedTuple):
    """The thresholds, a row per query; nothing here ever changes.

    float64 (Q,): ``least`` and ``most``, the closed interval of scores that pass. float64 (Q, d), or (0, d) for no boxes: ``low`` and
    ``high``, closed boxes, infinite for none. ``program``: the function's steps, or none for weighted sums. float64 (constants, Q):
    ``columns``, the constants of the queries: weights by attribute, if scores are weighted sums. float64 (Q, constants + 2): ``packed``,
    constants, least and most score of each query side by side. bool (Q,): ``boxed``, whether there is a box. int64 (Q,): ``where``,
    the bit of a row's flags that must be set, -1 for no predicate.
    """

    least: F64
    most: F64
    low: F64
    high: F64
    columns: F64
    packed: F64
    boxed: AnyArray
    where: I64
    program: ScoreProgram


class InfluenceGrid(NamedTuple):
    """A grid of g cells an axis over d attributes, and its cells. g = 0: no grid, all rows are outside."""

    cells: int
    """g: cells an axis."""
    limit: int
    """How many entries all lists may have together."""
    low: F64
    """float64 (d,): where the first cell begins."""
    step: F64
    """float64 (d,): the width of a cell."""
    scale: F64
    """float64 (d,): cells per unit."""
    pad: F64
    """float64 (d,): by how much a cell is widened against the rounding of cell numbers."""
    begin: I64
    """int64 (g**d,): the place of a cell's list in ``entries``, int32: lists of queries one after the other, moved when they grow."""
    length: I64
    """int64 (g**d,): how many queries are in it."""
    marks: AnyArray
    """uint8 (g**d + 1,): see ``NOBODY``; the last is OUTSIDE."""
    counters: I64
    """int64 (5,): see ``ENTRIES``."""


class Passes(NamedTuple):
    """Buffers for passes in the order found: by row, then by query.

    ``query`` int32, ``row`` int64 of the block, ``score`` float64.
    """

    query: AnyArray
    row: I64
    score: F64


class _Tile(NamedTuple):
    """A stretch of up to TILE rows of the block, and how far the tests have come.

    ``number`` float64 (TILE,): space; ``cell`` int64 (TILE,): the rows' cells; ``hits`` int64 (TILE + 1,): the rows to look at, less the
    tile's first; ``point`` float64 (d,): the row at hand; ``at`` int64 (5,): see ``_BEGIN``.
    """

    number: F64
    cell: I64
    hits: I64
    point: F64
    at: I64


_BEGIN, _END, _HIT, _HITS, _FOUND = range(5)
"""Places of ``_Tile.at``: the tile's first row, the row behind it, the next hit, the number of hits, of passes found so far."""

_DONE, _ENTRIES, _ROOM = range(3)
"""Why tests stopped: the block's end, no room for a list, no room for passes."""


class _Scratch(NamedTuple):
    """For one cell: ``low`` and ``high`` float64 (d,), its corners; ``least`` and ``most`` float64 (Q,), the scores it can reach.

    ``all`` int32 (0,): stands for all queries.
    """

    low: F64
    high: F64
    least: F64
    most: F64
    all: AnyArray


@inner
def _cell_numbers(x: F64, a: int, b: int, grid: InfluenceGrid, number: F64, out: I64) -> None:
    """Write the cells of rows [a, b) of ``x`` (d, rows), at most TILE, to ``out``; g**d for a row outside. O(d) per row, vectorised."""
    n, g = b - a, float(grid.cells)
    s, o = number[:n], out[:n]
    for i in range(n):
        s[i] = 0.0
    for t in range(len(x)):
        column, bias, scale = x[t, a:b], grid.low[t], grid.scale[t]
        for i in range(n):
            v = (column[i] - bias) * scale
            s[i] = s[i] * g + (np.floor(v) if 0.0 <= v < g else np.nan)
    outside = len(grid.marks) - 1
    for i in range(n):
        o[i] = np.int64(s[i]) if s[i] == s[i] else outside


@inner
def _next_tile(x: F64, grid: InfluenceGrid, tile: _Tile) -> None:
    """Move ``tile`` on to the next rows of ``x``: its hits are the rows whose cell some query may reach."""
    cell, hits, marks, begin = tile.cell, tile.hits, grid.marks, tile.at[_END]
    end = min(x.shape[1], begin + TILE)
    _cell_numbers(x, begin, end, grid, tile.number, cell)
    found: Any = np.int64(0)
    for i in range(end - begin):
        hits[found] = i
        found += np.int64(marks[cell[i]] != NOBODY)
    tile.at[_BEGIN], tile.at[_END], tile.at[_HIT], tile.at[_HITS] = begin, end, 0, found


@inner
def _reach_of(columns: F64, scratch: _Scratch) -> None:
    """Compute bounds of all weighted sums in the cell from its corners, in a score's order of operations, so that rounding keeps them."""
    least, most = scratch.least, scratch.most
    for t in range(len(columns)):
        w, a, b = columns[t], scratch.low[t], scratch.high[t]
        for q in range(len(w)):
            u, v = w[q] * b, w[q] * a
            u, v = max(u, v), min(u, v)
            most[q] = most[q] + u if t > 0 else u
            least[q] = least[q] + v if t > 0 else v


@inner
def _boxes_meet(low: F64, high: F64, a: F64, b: F64) -> bool:
    """Return True if the closed boxes [low, high] and [a, b] have a point in common."""
    ok = True
    for t in range(len(a)):
        ok = ok and low[t] <= b[t] and high[t] >= a[t]
    return ok


@inner
def _make_list(table: Thresholds, grid: InfluenceGrid, entries: AnyArray, cell: int, scratch: _Scratch) -> None:
    """Make the list of ``cell``, which ``entries`` has room for, and mark the cell. O(d Q).

    A cell in which some query may lack a score has no list, so that rows without score are counted.
    """
    g, a, b, rest, counters = grid.cells, scratch.low, scratch.high, cell, grid.counters
    for t in range(len(a) - 1, -1, -1):
        o = rest % g
        rest //= g
        a[t], b[t] = grid.low[t] + o * grid.step[t] - grid.pad[t], grid.low[t] + (o + 1) * grid.step[t] + grid.pad[t]
    least, most, begin = scratch.least, scratch.most, counters[ENTRIES]
    counters[FILLS] += 1
    if has_steps(table.program):
        bound_queries_by_steps(table.program, table.columns, scratch.all, a, b, least, most)
        unknown: Any = np.int64(0)
        for q in range(len(least)):
            unknown += np.int64(not most[q] - least[q] < np.inf)
        if unknown > 0:
            grid.marks[cell] = EVERYBODY
            return
    else:
        _reach_of(table.columns, scratch)
    end = begin
    for q in range(len(least)):
        entries[end] = q
        ok = most[q] >= table.least[q] and least[q] <= table.most[q]
        end += 1 if ok and (not table.boxed[q] or _boxes_meet(table.low[q], table.high[q], a, b)) else 0
    grid.begin[cell], grid.length[cell], grid.marks[cell] = begin, end - begin, SOMEBODY if end > begin else NOBODY
    counters[ENTRIES] = end


@inner
def _inside(point: F64, low: F64, high: F64) -> bool:
    """Return True if a point lies in a closed box; a value that is not a number does where the box is unbounded on both sides."""
    ok = True
    for t in range(len(point)):
        v = point[t]
        ok = ok and (low[t] <= v <= high[t] or (v != v and low[t] == -np.inf and high[t] == np.inf))
    return ok


@inner
def _admits(table: Thresholds, query: int, point: F64, row: int, flags: I64) -> bool:
    """Return True if a row satisfies a query's predicate and lies in its box."""
    where = table.where[query]
    if where >= 0 and (flags[row] >> where) & 1 == 0:
        return False
    return not table.boxed[query] or _inside(point, table.low[query], table.high[query])


@inner
def _test_list(packed: F64, queries: AnyArray, point: F64, row: int, found: Passes, m: int) -> int:
    """Test a row's weighted sums against a list; append passes to ``found`` from ``m`` on. Return their number."""
    d, query, rows, score = len(point), found.query, found.row, found.score
    for i in range(len(queries)):
        q = queries[i]
        y = packed[q, 0] * point[0]
        for t in range(1, d):
            y = y + packed[q, t] * point[t]
        y = y + 0.0
        query[m], rows[m], score[m] = q, row, y
        m += 1 if packed[q, d] <= y <= packed[q, d + 1] else 0
    return m


@inner
def _test_list_by_steps(table: Thresholds, queries: AnyArray, point: F64, row: int, scores: F64, found: Passes, m: int) -> int:
    """Test a row against a list, as ``_test_list``. ``scores`` (Q,) is space."""
    query, rows, score = found.query, found.row, found.score
    score_queries_by_steps(table.program, table.columns, queries, point, scores[: len(queries)])
    for i in range(len(queries)):
        q, y = queries[i], scores[i]
        query[m], rows[m], score[m] = q, row, y
        m += 1 if table.least[q] <= y <= table.most[q] else 0
    return m


@inner
def _score_all(columns: F64, point: F64, scores: F64) -> None:
    """Compute a row's weighted sums for all queries."""
    for t in range(len(point)):
        w, v = columns[t], point[t]
        if t == 0:
            for q in range(len(scores)):
                scores[q] = w[q] * v
        else:
            for q in range(len(scores)):
                scores[q] = scores[q] + w[q] * v


@inner
def _test_all(
    table: Thresholds, point: F64, row: int, flags: I64, unusable: I64, scratch: _Scratch, found: Passes, m: int
) -> int:  # fmt: skip
    """Test a row against all queries, as ``_test_list``; count those that only lack its score."""
    query, rows, score, scores = found.query, found.row, found.score, scratch.most
    if has_steps(table.program):
        score_queries_by_steps(table.program, table.columns, scratch.all, point, scores)
    else:
        _score_all(table.columns, point, scores)
    n = len(scores)
    missing: Any = np.int64(0)
    for q in range(n):
        missing += np.int64(scores[q] != scores[q])
    if missing > 0:
        for q in range(n):
            if scores[q] != scores[q] and _admits(table, q, point, row, flags):
                unusable[q] += 1
    if missing < n:
        for q in range(n):
            query[m], rows[m], score[m] = q, row, scores[q] + 0.0
            m += 1 if table.least[q] <= scores[q] <= table.most[q] else 0
    return m


@inner
def _admitted(table: Thresholds, point: F64, row: int, flags: I64, found: Passes, a: int, b: int) -> int:
    """Keep those of the row's passes [a, b) whose query admits it; return the end."""
    query, score, m = found.query, found.score, a
    for i in range(a, b):
        if _admits(table, query[i], point, row, flags):
            query[m], score[m] = query[i], score[i]
            m += 1
    return m


@inner
def _test_rows(
    table: Thresholds, x: F64, flags: I64, grid: InfluenceGrid, entries: AnyArray, unusable: I64, tile: _Tile, scratch: _Scratch,
    found: Passes,
) -> int:  # fmt: skip
    """Test the rows of ``x`` from the tile's next hit on; return why it stopped."""
    at, point, marks, counters, queries = tile.at, tile.point, grid.marks, grid.counters, len(table.least)
    simple, m = len(table.low) == 0 and len(flags) == 0, at[_FOUND]
    while True:
        if at[_HIT] == at[_HITS]:
            if at[_END] == x.shape[1]:
                return _DONE
            _next_tile(x, grid, tile)
            continue
        if m + queries > len(found.query):
            return _ROOM
        i = tile.hits[at[_HIT]]
        cell, row = tile.cell[i], at[_BEGIN] + i
        if marks[cell] == NEW and counters[FULL] == 0:
            if counters[ENTRIES] + queries > len(entries):
                return _ENTRIES
            _make_list(table, grid, entries, cell, scratch)
        at[_HIT] += 1
        if marks[cell] == NOBODY:
            continue
        for t in range(len(point)):
            point[t] = x[t, row]
        if marks[cell] == SOMEBODY:
            begin, length = grid.begin[cell], grid.length[cell]
            counters[TESTS] += length
            if has_steps(table.program):
                m = _test_list_by_steps(table, entries[begin : begin + length], point, row, scratch.most, found, m)
            else:
                m = _test_list(table.packed, entries[begin : begin + length], point, row, found, m)
        else:
            counters[WILD] += 0 if marks[cell] == EVERYBODY else 1
            counters[TESTS] += queries if marks[cell] == EVERYBODY else 0
            m = _test_all(table, point, row, flags, unusable, scratch, found, m)
        if not simple:
            m = _admitted(table, point, row, flags, found, at[_FOUND], m)
        at[_FOUND] = m


@jit
def find_passes(
    table: Thresholds, x: F64, flags: I64, grid: InfluenceGrid, entries: AnyArray, unusable: I64
) -> tuple[Passes, int, AnyArray]:  # fmt: skip
    """Return which queries pass which rows of ``x`` (d, rows): passes and their number, and the lists' ``entries``, which may have moved.

    ``flags`` int64 (rows,) or empty; ``unusable`` int64 (Q,) counts the rows without a score that a query admits. O(1) per row in a cell
    that no query reaches, O(d) per row and query of its cell's list, O(d Q) per row outside and per cell first touched.
    """
    d, queries = len(x), len(table.least)
    room = 4096 + queries
    found = Passes(np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.float64))
    tile = _Tile(
        np.empty(TILE, np.float64), np.empty(TILE, np.int64), np.empty(TILE + 1, np.int64), np.empty(d, np.float64), np.zeros(5, np.int64)
    )  # fmt: skip
    scratch = _Scratch(
        np.empty(d, np.float64), np.empty(d, np.float64), np.empty(queries, np.float64), np.empty(queries, np.float64),
        np.empty(0, np.int32),
    )  # fmt: skip
    while True:
        stop = _test_rows(table, x, flags, grid, entries, unusable, tile, scratch, found)
        if stop == _DONE:
            return found, tile.at[_FOUND], entries
        if stop == _ROOM:
            room = 2 * (tile.at[_FOUND] + queries)
            found = Passes(grown(found.query, room), grown(found.row, room), grown(found.score, room))
            continue
        need = grid.counters[ENTRIES] + queries
        if need > grid.limit:
            grid.counters[FULL] = 1
        else:
            entries = grown(entries, 2 * need)
