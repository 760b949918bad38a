"""Find the candidates of all queries among a block's rows by a lazy influence grid: the queries that points of a cell can reach.

See paper 2, section 4.1, but without rows, and with cells on demand. A uniform grid over the attributes' range, in three levels: coarse
cells of two fine ones an axis, fine cells, and halves of fine cells. A list of queries is made when the first row falls into its cell, from
the list of the cell above, so an unused cell costs nothing. One bit per fine cell says whether its rows need tests: most rows cost their
cell's number and that bit. Rows outside the range or with a value that is not finite are *wild*: tested against all queries. Compiled only;
without Numba the block is scored for every query instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import inner, jit, maker
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.single_rows.kernels.score_programs import bound_queries_by_steps, has_steps, score_queries_by_steps
from skyband.operators.topk.kernels.many_tables import OUTSIDE, TESTS, UNUSABLE, WILD, QueryTable

# The grid.


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


# The probe: the candidates of all queries among a block's rows.


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
    """Buffers for candidates in the order found: by row.

    ``query`` int32, ``row`` int64, ``score`` float64.
    """

    query: AnyArray
    row: I64
    score: F64


class _Tile(NamedTuple):
    """A stretch of up to TILE rows of the block, and how far the search has come.

    ``begin`` int64 (1,): its first row; ``number`` float64 (TILE,): space; ``cell`` int32 (TILE,): the rows' cells; ``hits`` int32
    (TILE + 1,): the rows to look at, less ``begin``; ``point`` float64 (d,): the row at hand; ``score`` float64 (Q,): space; ``at`` int64
    (4,): see ``_HIT``.
    """

    begin: I64
    number: F64
    cell: AnyArray
    hits: AnyArray
    point: F64
    score: F64
    at: I64


_HIT, _HITS, _FOUND, _STAGE = range(4)
"""Places of ``_Tile.at``: the next hit, the number of hits, of candidates found so far, and what has been done for the next hit."""

_NEW, _LOOKED, _COUNTED, _PARTED = range(4)
"""Stages of a hit: nothing, its cell was looked at, it was counted as a visit, its part of the cell was looked at."""

_DONE, _CELL, _PART, _ROOM = range(4)
"""What a search stopped for: the tile's end, a cell or a part of one without list, no room for candidates."""


@inner
def _begin_tile(columns: tuple[F64, ...], begin: int, end: int, grid: InfluenceGrid, tile: _Tile) -> None:
    """Set ``tile`` up for rows [begin, end): those whose cell's bit is set are to be looked at."""
    cell, hits, bits = tile.cell, tile.hits, grid.bits
    cell_numbers(columns, begin, end, grid, tile.number, cell)
    found: Any = np.int64(0)
    for i in range(end - begin):
        c: Any = cell[i]
        hits[found] = i
        found += np.int64((bits[c >> 5] >> np.uint32(c & 31)) & np.uint32(1))
    tile.begin[0], tile.at[_HIT], tile.at[_HITS], tile.at[_STAGE] = begin, 0, found, _NEW


@inner
def _part_of(grid: InfluenceGrid, point: F64) -> int:
    """Return the part of its fine cell a point is in: a bit an axis, the first axis in the highest, 1 for the upper half."""
    part = 0
    for t in range(len(point)):
        v = (point[t] - grid.low[t]) * grid.scale[t]
        part = 2 * part + (1 if v - np.floor(v) >= 0.5 else 0)
    return part


@inner
def _list_of(grid: InfluenceGrid, lists: CellLists, tile: _Tile, cell: int) -> tuple[int, int]:
    """Return what the current row, in fine cell ``cell``, still needs (``_CELL``, ``_PART``, or ``_DONE``), and its list: a place, NONE,
    or another number less than 0 for all queries."""
    entries, at, d = lists.entries, tile.at, len(tile.point)
    begin: Any = np.int64(grid.fine[cell])
    if begin == UNKNOWN and at[_STAGE] < _LOOKED:
        return _CELL, begin
    if begin < 0:
        return _DONE, begin
    if at[_STAGE] < _COUNTED:
        if entries[begin] > SHORT and d <= HALVED_UP_TO and entries[begin + 1] < 0:
            entries[begin + 1] -= 1
        at[_STAGE] = _COUNTED
    if entries[begin + 1] >= 0:
        part: Any = np.int64(lists.halves[entries[begin + 1] + _part_of(grid, tile.point)])
        if part != UNKNOWN:
            return _DONE, part
        if at[_STAGE] < _PARTED:
            return _PART, begin
    elif entries[begin + 1] < -VISITS:
        return _PART, begin
    return _DONE, begin


@inner
def _look_at_part(
    table: QueryTable, cutoffs: F64, grid: InfluenceGrid, lists: CellLists, cell: int, point: F64, scratch: GridScratch
) -> bool:  # fmt: skip
    """Make the list of the part of fine cell ``cell`` that ``point`` is in; False if ``lists.entries`` must grow first. ``halves`` has
    room."""
    entries, halves = lists.entries, lists.halves
    begin: Any = np.int64(grid.fine[cell])
    parts = 1 << len(point)
    if entries[begin + 1] < 0:
        used = grid.counters[HALVES_USED]
        halves[used : used + parts] = UNKNOWN
        grid.counters[HALVES_USED] = used + parts
        entries[begin + 1] = used
    part = _part_of(grid, point)
    at = look_at_half(table, cutoffs, grid, entries, cell, part, begin, scratch)
    if at == NO_ROOM:
        return False
    halves[entries[begin + 1] + part] = at
    return True


@maker
def _more_lists(grid: InfluenceGrid, lists: CellLists, queries: int, parts: int) -> CellLists:
    """Make room for one more list of all queries and for one more cell's parts."""
    entries, halves = lists.entries, lists.halves
    need = grid.counters[ENTRIES_USED] + HEAD + queries
    if need > len(entries):
        entries = grown(entries, 2 * need)
    need = grid.counters[HALVES_USED] + parts
    if need > len(halves):
        halves = grown(halves, 2 * need)
    return CellLists(entries, halves)


@inner
def _test_list(weights: F64, cutoffs: F64, entries: AnyArray, at: int, point: F64, row: int, found: _Found, m: int) -> int:
    """Test a row against the list at ``at``; append candidates to ``found`` from ``m`` on. Return their number."""
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


@inner
def _test_all(columns: F64, cutoffs: F64, point: F64, row: int, scores: F64, found: _Found, m: int) -> int:
    """Test a row against all queries, as ``_test_list`` does. ``scores`` float64 (Q,) is space."""
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


@inner
def _test_by_steps(
    table: QueryTable, cutoffs: F64, queries: AnyArray, point: F64, row: int, scores: F64, found: _Found, m: int
) -> int:  # fmt: skip
    """Test a row against ``queries`` (n,), or against all if it is empty, as ``_test_list`` does. ``scores`` float64 (Q,) is space."""
    query, rows, score = found.query, found.row, found.score
    n = len(queries) if len(queries) > 0 else len(cutoffs)
    score_queries_by_steps(table.program, table.columns, queries, point, scores[:n])
    for i in range(n):
        q = queries[i] if len(queries) > 0 else i
        query[m], rows[m], score[m] = q, row, scores[i]
        m += 1 if scores[i] >= cutoffs[q] else 0
    return m


@inner
def _usable(point: F64, work: I64) -> bool:
    """Return True if a wild row has a value for every attribute; counts it."""
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


@inner
def _allowed(table: QueryTable, point: F64, row: int, flags: I64, found: _Found, a: int, b: int) -> int:
    """Keep those of the row's candidates [a, b) that are in their query's box and predicate and not above its ceiling; return the end."""
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


@inner
def _test_hits(
    table: QueryTable, cutoffs: F64, columns: tuple[F64, ...], flags: I64, simple: bool, grid: InfluenceGrid, lists: CellLists,
    tile: _Tile, found: _Found, work: I64,
) -> int:  # fmt: skip
    """Test the tile's hits from the next one on; return why it stopped. ``simple``: no query has a box, predicate or ceiling."""
    at, point, queries = tile.at, tile.point, len(cutoffs)
    cells, m = grid.cells ** len(point), at[_FOUND]
    while at[_HIT] < at[_HITS]:
        if m + queries > len(found.query):
            return _ROOM
        i = tile.hits[at[_HIT]]
        cell: Any = np.int64(tile.cell[i])
        row = tile.begin[0] + i
        for t in range(len(point)):
            point[t] = columns[t][row]
        begin: Any = np.int64(UNKNOWN)
        if cell < cells:
            stop, begin = _list_of(grid, lists, tile, cell)
            if stop != _DONE:
                return stop
        at[_HIT] += 1
        at[_STAGE] = _NEW
        if begin == NONE or (cell == cells and not _usable(point, work)):
            continue
        work[TESTS] += lists.entries[begin] if begin >= 0 else queries // 8
        if has_steps(table.program):
            listed = lists.entries[begin + HEAD : begin + HEAD + lists.entries[begin]] if begin >= 0 else lists.entries[:0]
            m = _test_by_steps(table, cutoffs, listed, point, row, tile.score, found, m)
        elif begin >= 0:
            m = _test_list(table.weights, cutoffs, lists.entries, begin, point, row, found, m)
        else:  # a wild row, or a cell that more than half of the queries reach
            m = _test_all(table.columns, cutoffs, point, row, tile.score, found, m)
        if not simple:
            m = _allowed(table, point, row, flags, found, at[_FOUND], m)
        at[_FOUND] = m
    return _DONE


@maker
def _by_query(found: _Found, m: int, queries: int) -> BlockCandidates:
    """Return the first ``m`` sorted by query, rows in order within one. O(m + Q)."""
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
    """Find the candidates of all queries among ``rows`` rows; return them and the cells' lists, which may have moved.

    ``cutoffs`` float64 (Q,); ``columns`` d float64 (rows,); ``flags`` int64 (rows,) or empty; ``work`` see ``REFILLS``. O(1) per row in a
    cell that no query reaches, O(d) per row and query of its cell's list.
    """
    queries, d = table.low.shape
    room = 4096 + queries
    found = _Found(np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.float64))
    scratch = GridScratch(
        np.empty(d, np.float64), np.empty(d, np.float64), np.empty(d, np.int64), np.empty(queries, np.float64),
        np.empty(queries, np.float64),
    )  # fmt: skip
    tile = _Tile(
        np.zeros(1, np.int64), np.empty(TILE, np.float64), np.empty(TILE, np.int32), np.empty(TILE + 1, np.int32),
        np.empty(d, np.float64), scratch.score, np.zeros(4, np.int64),
    )  # fmt: skip
    simple = not table.boxed.any() and len(flags) == 0 and not (table.ceiling < np.inf).any()
    for begin in range(0, rows, TILE):
        _begin_tile(columns, begin, min(rows, begin + TILE), grid, tile)
        while True:
            stop = _test_hits(table, cutoffs, columns, flags, simple, grid, lists, tile, found, work)
            if stop == _DONE:
                break
            if stop == _ROOM:
                room = 2 * (tile.at[_FOUND] + queries)
                found = _Found(grown(found.query, room), grown(found.row, room), grown(found.score, room))
                continue
            cell: Any = np.int64(tile.cell[tile.hits[tile.at[_HIT]]])
            if stop == _CELL:
                looked = look_at_cell(table, cutoffs, grid, lists.entries, cell, scratch)
            else:
                looked = grid.counters[HALVES_USED] + (1 << d) <= len(lists.halves)
                looked = looked and _look_at_part(table, cutoffs, grid, lists, cell, tile.point, scratch)
            if looked:
                tile.at[_STAGE] = _LOOKED if stop == _CELL else _PARTED
            else:
                lists = _more_lists(grid, lists, queries, 1 << d)
    return _by_query(found, tile.at[_FOUND], queries), lists
