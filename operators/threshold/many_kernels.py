"""Thresholds of many linear functions: their lists, the grid that finds the thresholds that a row passes, and the replay of a block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, EXPIRY, F64, I64, NEVER, NULL, AnyArray
from skyband.operators.jit import inner, inner_inlined, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown, lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, change_rows, more_rows, put
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.single_rows.kernels.score_programs import bound_queries_by_steps, has_steps, score_queries_by_steps
from skyband.operators.single_rows.score_programs import ScoreProgram
from skyband.operators.windows import UNBOUNDED

# Lists: one first-in-first-out list per query and key that ever had a member, found by hashing.
#
# A *slot* is a row of ``ListTable.slots``: its query, key, step and clocks, and the position of its members in the pool. Its members
# are [AT + LO, AT + HI) in seq order; those before HEAD have left and wait to be reported at a boundary.


KEY, QUERY, STEP, DUE, SHOWN, NEWEST, DEAD, NEXT, AT, ROOM, LO, HI, HEAD = range(13)
COLUMNS = 13
SAVED = 7
"""The first columns are what a checkpoint holds."""


LISTS, LIVE, END = range(3)
"""Places of ``ListTable.totals``: lists, members of all lists, and how much of the pool is in use."""


class Members(NamedTuple):
    """The pool of all lists' members; it moves when it grows.

    ``score`` float64 (room,): internal scores. int64 (room,): ``seq``; ``time`` (empty for count windows); ``deleted``, the instant of
    deletion, ``NEVER`` for none (empty without deletions).
    """

    score: F64
    seq: I64
    time: I64
    deleted: I64


class ListTable(NamedTuple):
    """The slots of all lists, and how they are found.

    ``slots`` int64 (room, ``COLUMNS``), the first ``totals[LISTS]`` in use; ``hashed`` int64 (a power of two,): hash table of the slots'
    (key, query); ``totals`` int64 (3,). int64 (keys,): ``first``, the first slot of a key's chain, -1 for none; ``wake`` and ``leave``,
    the instant and the seq at which a list of the key changes by itself, not too late.
    """

    slots: I64
    hashed: I64
    totals: I64
    first: I64
    wake: I64
    leave: I64


@jit
def spot(table: AnyArray, ids: AnyArray, a: int, b: int) -> int:
    """Return the place of the pair (a, b) in a hash table of rows of ``ids``, or its free place. Pairs are not negative."""
    mask = len(table) - 1
    h = a * 1000003 + b  # no product here leaves int64: keys are below 2**32, seqs below 2**62
    h ^= h >> 15
    h = (h & 0xFFFFFFFF) * 0x5BD1E995
    p = (h ^ (h >> 29)) & mask
    while table[p] >= 0 and not (ids[table[p], 0] == a and ids[table[p], 1] == b):
        p = (p + 1) & mask
    return p


@jit
def hashed(ids: AnyArray, count: int, size: int) -> AnyArray:
    """Return a table of ``size`` places (a power of two, more than ``count``) with the first ``count`` rows of ``ids``."""
    table = np.full(size, -1, np.int64)
    for i in range(count):
        table[spot(table, ids, ids[i, 0], ids[i, 1])] = i
    return table


@jit
def chained(slots: AnyArray, count: int, first: AnyArray) -> None:
    """Link the slots of every key: ``first`` per key, then NEXT."""
    for s in range(count - 1, -1, -1):
        slots[s, NEXT] = first[slots[s, KEY]]
        first[slots[s, KEY]] = s


@jit
def grouped(groups: int, of: AnyArray, m: int) -> tuple[AnyArray, AnyArray]:
    """Sort of[:m] by counting, stably: return where each group starts (groups + 1), and the order."""
    start = np.zeros(groups + 2, np.int64)
    for i in range(m):
        start[of[i] + 2] += 1
    for g in range(groups):
        start[g + 2] += start[g + 1]
    order = np.empty(m, np.int64)
    for i in range(m):
        g = of[i] + 1
        order[start[g]] = i
        start[g] += 1
    return start[: groups + 1].copy(), order


@inner
def move_members(slot: I64, to: int, old: Members, new: Members) -> None:
    """Copy a slot's members from one pool to place ``to`` of another, or to the front of its room in the same one. O(members)."""
    begin, size = slot[AT] + slot[LO], slot[HI] - slot[LO]
    for i in range(size):
        new.score[to + i], new.seq[to + i] = old.score[begin + i], old.seq[begin + i]
        if len(old.time) > 0:
            new.time[to + i] = old.time[begin + i]
        if len(old.deleted) > 0:
            new.deleted[to + i] = old.deleted[begin + i]
    slot[HEAD] -= slot[LO]
    slot[AT], slot[LO], slot[HI] = to, 0, size


@maker
def make_room(slot: I64, more: int, members: Members, totals: I64) -> Members:
    """Let a slot take ``more`` members: to the front of its room if half of that is free, else to the pool's end. Amortised O(more)."""
    size, to = slot[HI] - slot[LO] + more, slot[AT]
    if slot[ROOM] < 2 * size:
        room, to = 2 * size + 2, totals[END]
        if to + room > len(members.score):
            longer = 2 * (to + room)
            members = Members(
                grown(members.score, longer), grown(members.seq, longer), grown(members.time, longer if len(members.time) > 0 else 0),
                grown(members.deleted, longer if len(members.deleted) > 0 else 0),
            )  # fmt: skip
        totals[END] = to + room
        slot[ROOM] = room
    move_members(slot, to, members, members)
    return members


@jit
def packed(slots: I64, members: Members, totals: I64) -> Members:
    """Return a pool without gaps. O(members + slots)."""
    size = totals[LIVE] + totals[LIVE] // 2 + totals[LISTS] + 1
    new = Members(
        np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size if len(members.time) > 0 else 0, np.int64),
        np.empty(size if len(members.deleted) > 0 else 0, np.int64),
    )  # fmt: skip
    end: Any = np.int64(0)
    for s in range(totals[LISTS]):
        slot = slots[s]
        move_members(slot, end, members, new)
        slot[ROOM] = slot[HI]
        end += slot[HI]
    totals[END] = end
    return new


@inner
def next_change(slot: I64, count: int, micros: int, members: Members) -> tuple[int, int]:
    """Return when a list changes by itself: the instant (expiry or boundary), and the seq whose arrival makes its oldest leave."""
    wake: Any = slot[DUE]
    leave: Any = np.int64(NEVER)
    if slot[HEAD] < slot[HI]:
        i = slot[AT] + slot[HEAD]
        if micros < UNBOUNDED:
            wake = min(wake, members.time[i] + micros)
        if count < UNBOUNDED:
            leave = members.seq[i] + count
    return wake, leave


@jit
def due_lists(block: Block, lists: ListTable, members: Members, counts: I64, micros: I64, until: int) -> tuple[I64, I64, int]:
    """Return (query, group) of the lists that change by themselves in this block, and their number; group by group.

    ``counts`` and ``micros`` int64 (Q,) are the queries' windows. A key's ``wake`` and ``leave`` become exact for all lists not
    returned.
    """
    of, at = np.empty(256, np.int64), np.empty(256, np.int64)
    slots, m = lists.slots, 0
    for g in range(len(block.keys)):
        key, last = block.keys[g], block.first_seq[g] + block.end[g] - block.begin[g]
        if lists.wake[key] >= until and lists.leave[key] >= last:
            continue
        lists.wake[key], lists.leave[key] = NEVER, NEVER
        s = lists.first[key]
        while s >= 0:
            q = slots[s, QUERY]
            wake, leave = next_change(slots[s], counts[q], micros[q], members)
            if wake < until or leave < last:
                if m == len(of):
                    of, at = grown(of, 2 * m), grown(at, 2 * m)
                of[m], at[m] = q, g
                m += 1
            else:
                lists.wake[key], lists.leave[key] = min(lists.wake[key], wake), min(lists.leave[key], leave)
            s = slots[s, NEXT]
    return of, at, m


class RowLog(NamedTuple):
    """The queries that each row passed, for deletions.

    ``rows`` int64 (room, 3): key, seq, and where its queries begin in ``queries``: those of row i are queries[rows[i, 2] : rows[i + 1, 2]].
    ``hashed`` int64 (a power of two,): hash table of the rows' (key, seq). ``queries`` int64 (room,). ``totals`` int64 (2,): rows and
    queries.
    """

    rows: I64
    hashed: I64
    queries: I64
    totals: I64


@jit
def note_rows(of: I64, key: I64, seq: I64, log: RowLog) -> None:
    """Log that the object (key[i], seq[i]) passed query of[i]; equal objects are adjacent. The arrays have room."""
    count, end = log.totals[0], log.totals[1]
    for i in range(len(of)):
        if i == 0 or key[i] != key[i - 1] or seq[i] != seq[i - 1]:
            log.rows[count, 0], log.rows[count, 1], log.rows[count, 2] = key[i], seq[i], end
            log.hashed[spot(log.hashed, log.rows, key[i], seq[i])] = count
            count += 1
        log.queries[end] = of[i]
        end += 1
    log.rows[count, 2] = end
    log.totals[0], log.totals[1] = count, end


@jit
def deleted_from(block: Block, log: RowLog) -> tuple[I64, I64, int]:
    """Return (query, deletion) for every deletion of a logged row, in the order of deletions, and their number."""
    of, at = np.empty(256, np.int64), np.empty(256, np.int64)
    rows, m = log.rows, 0
    for g in range(len(block.keys)):
        for j in range(block.deletion_begin[g], block.deletion_end[g]):
            i = log.hashed[spot(log.hashed, rows, block.keys[g], block.deletion_seq[j])]
            if i < 0:
                continue
            for e in range(rows[i, 2], rows[i + 1, 2]):
                if m == len(of):
                    of, at = grown(of, 2 * m), grown(at, 2 * m)
                of[m], at[m] = log.queries[e], j
                m += 1
    return of, at, m


@inner
def _held(log: RowLog, row: int, lists: ListTable, members: Members) -> bool:
    """Return True if some list may still contain a logged row."""
    key, seq, slots = log.rows[row, 0], log.rows[row, 1], lists.slots
    for e in range(log.rows[row, 2], log.rows[row + 1, 2]):
        s = lists.hashed[spot(lists.hashed, slots, key, log.queries[e])]
        if s >= 0 and slots[s, LO] < slots[s, HI] and members.seq[slots[s, AT] + slots[s, LO]] <= seq:
            return True
    return False


@jit
def forget_rows(log: RowLog, lists: ListTable, members: Members) -> None:
    """Keep the logged rows that some list may still contain, in place; this invalidates the hash table. O(rows + queries)."""
    rows, queries, kept, end = log.rows, log.queries, 0, 0
    for i in range(log.totals[0]):
        key, seq, a, b = rows[i, 0], rows[i, 1], rows[i, 2], rows[i + 1, 2]
        if _held(log, i, lists, members):
            rows[kept, 0], rows[kept, 1], rows[kept, 2] = key, seq, end
            for e in range(a, b):
                queries[end + e - a] = queries[e]
            kept += 1
            end += b - a
    rows[kept, 2] = end
    log.totals[0], log.totals[1] = kept, end


# Find the thresholds that a row passes: an influence grid (paper 2, section 4.1) that makes a cell's list at its first row.
#
# Thresholds never change, so a cell's list is final: the queries whose interval of scores, and box, some point of the cell can
# reach. Making one costs about two dot products per query; after that a row of the cell is tested against its list only, and a row of a
# cell that no query reaches costs one look-up. Rows outside the grid or with a value that is not finite are tested against all queries.
# Compiled only; without Numba every row is scored for every query.


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


# Replay what a block does to the lists that it concerns, first in first out.
#
# Only lists that get a candidate, lose a member or reach a boundary are visited. A result set has no k, so nothing is ever refilled.


class Windows(NamedTuple):
    """The queries' windows, each ``UNBOUNDED`` for no such end, and boundaries.

    int64 (Q,): ``counts``, ``micros``, ``every`` microseconds (0: changes per event).
    """

    counts: I64
    micros: I64
    every: I64


class BlockEvents(NamedTuple):
    """The events of a block by query, ascending within one: query q's entries are those from begin[q] to begin[q + 1].

    int64 (Q + 1,): ``begin``, ``deletion_begin``, ``due_begin``. ``row`` int64 and ``score`` float64: the rows that pass;
    ``deletion`` int64: deletions of rows that passed; ``due`` int64: keys of the block at which its list changes by itself.
    """

    begin: I64
    row: I64
    score: F64
    deletion_begin: I64
    deletion: I64
    due_begin: I64
    due: I64


class _Query(NamedTuple):
    """One query: ``number``, the window's count ``newest`` and duration ``micros``, and boundaries ``every``, as in ``Windows``."""

    number: int
    newest: int
    micros: int
    every: int


class _Part(NamedTuple):
    """One key's part of a block: rows [``begin``, ``end``), the first with seq ``first_seq``. Events before ``until`` are taken; of the
    query's deletions those before ``deletions_end``."""

    key: int
    begin: int
    end: int
    first_seq: int
    deletions_end: int
    until: int


_FRONT, _HEAD, _COMING, _LAST, _DELETION, _OUT, _NEED = range(7)
"""Where a visit of a list stands: places in the pool of its first member, of the first that has not left, of the next to arrive, and of the
end; the next deletion; the next change to write, and how many changes need room."""

_NOTHING, _EXPIRES, _DELETED, _ARRIVES, _LEAVES = range(5)
"""Kinds of the next event: none, expiry by time, deletion, arrival, arrival that makes the oldest expire by count."""


@inner
def _group_of(ends: I64, row: int) -> int:
    """Return the first group whose end lies behind ``row``. O(log)."""
    lo, hi = 0, len(ends) - 1
    while lo < hi:
        mid = (lo + hi) >> 1
        if ends[mid] > row:
            hi = mid
        else:
            lo = mid + 1
    return lo


@inner
def _was_shown(i: int, members: Members, boundary: int, newest: int, query: _Query) -> bool:
    """Return True if member ``i`` was in the result as of ``boundary`` (NULL: nothing was shown yet), when ``newest`` was the last seq."""
    if boundary == NULL or members.seq[i] > newest or members.seq[i] <= newest - query.newest:
        return False
    in_time = query.micros >= UNBOUNDED or members.time[i] > boundary - query.micros
    return bool(in_time and (len(members.deleted) == 0 or members.deleted[i] > boundary))


@inner
def _write_boundary(query: _Query, slot: I64, members: Members, at: I64, newest: int, changes: ChangeRows, best: Heap) -> None:
    """Write the net change of the boundary that is due, with ``newest`` the last seq by then. O(changes), O(members) after deletions."""
    score, seq, deleted = members.score, members.seq, members.deleted
    due, was, until, head, coming, out = slot[DUE], slot[SHOWN], slot[NEWEST], at[_HEAD], at[_COMING], at[_OUT]
    event, pos, found = Event(slot[QUERY], slot[KEY], due, slot[STEP] + 1), 0, 0
    for i in range(at[_FRONT], coming if slot[DEAD] > was else head):  # members that left are in front, unless deleted
        if (i < head or deleted[i] < NEVER) and _was_shown(i, members, was, until, query):
            found = heap_push(best, found, score[i], i)
    heap_to_order(best, found)
    for i in range(found):
        cause = DELETE if len(deleted) > 0 and deleted[best.place[i]] <= due else EXPIRY
        out = put(changes, out, event, pos, -1, cause, seq[best.place[i]], best.score[i])
        pos += 1
    found, i = 0, coming
    while i > head and seq[i - 1] > until:  # new members are at the end
        i -= 1
        if len(deleted) == 0 or deleted[i] == NEVER:
            found = heap_push(best, found, score[i], i)
    heap_to_order(best, found)
    for i in range(found):
        out = put(changes, out, event, pos, 1, BOUNDARY, seq[best.place[i]], best.score[i])
        pos += 1
    slot[STEP] += 1 if pos > 0 else 0
    slot[DUE], slot[SHOWN], slot[NEWEST] = NEVER, due, newest
    at[_OUT] = out


@inner
def _next_moment(query: _Query, part: _Part, block: Block, deletions: I64, members: Members, at: I64) -> tuple[int, int, int]:
    """Return the next event of a list: what happens, its row and its instant."""
    head, coming, row, kind = at[_HEAD], at[_COMING], part.end, _ARRIVES
    expiry: Any = np.int64(NEVER)
    if coming < at[_LAST]:
        row = part.begin + (members.seq[coming] - part.first_seq)
    if head < coming:
        if query.micros < UNBOUNDED:
            expiry = members.time[head] + query.micros
        leaves = part.begin + (members.seq[head] + query.newest - part.first_seq)
        if leaves <= row and leaves < part.end:
            row, kind = leaves, _LEAVES
    now = block.time[row] if row < part.end else part.until
    if at[_DELETION] < part.deletions_end and block.deletion_row[deletions[at[_DELETION]]] <= row:
        kind, now = _DELETED, block.deletion_time[deletions[at[_DELETION]]]
    if expiry < now or (expiry == now and (kind == _DELETED or row < part.end)):
        return _EXPIRES, row, expiry
    if kind != _DELETED and row == part.end:
        kind = _NOTHING
    return kind, row, now


@inner
def _mark_due(slot: I64, now: int, every: int) -> None:
    """Note that the next boundary has changes to report."""
    if slot[DUE] == NEVER:
        slot[DUE] = -((-now) // every) * every


@inner
def _delete(query: _Query, slot: I64, block: Block, deletion: int, members: Members, at: I64, changes: ChangeRows) -> None:
    """Let a deletion take a member, if it is one; one that has left already only has another cause at the boundary. O(log members)."""
    target, now = block.deletion_seq[deletion], block.deletion_time[deletion]
    i = lower_bound(members.seq, at[_FRONT], at[_COMING], target)
    if i == at[_COMING] or members.seq[i] != target or members.deleted[i] < NEVER:
        return
    members.deleted[i] = slot[DEAD] = now
    if i < at[_HEAD]:
        return
    if query.every > 0:
        _mark_due(slot, now, query.every)
        return
    slot[STEP] += 1
    event = Event(query.number, slot[KEY], now, slot[STEP])
    at[_OUT] = put(changes, at[_OUT], event, 0, -1, DELETE, members.seq[i], members.score[i])


@inner
def _write_event(slot: I64, now: int, left: int, came: bool, members: Members, at: I64, changes: ChangeRows, best: Heap) -> None:
    """Write the members that left from place ``left`` on, in rank order, and the one that came. O(changes log changes)."""
    found, out = 0, at[_OUT]
    for i in range(left, at[_HEAD]):
        if len(members.deleted) == 0 or members.deleted[i] == NEVER:
            found = heap_push(best, found, members.score[i], i)
    heap_to_order(best, found)
    slot[STEP] += 1
    event = Event(slot[QUERY], slot[KEY], now, slot[STEP])
    for i in range(found):
        out = put(changes, out, event, i, -1, EXPIRY, members.seq[best.place[i]], best.score[i])
    if came:
        last = at[_COMING] - 1
        out = put(changes, out, event, found, 1, ARRIVAL, members.seq[last], members.score[last])
    at[_OUT] = out


@inner_inlined
def _visit(
    query: _Query, part: _Part, block: Block, deletions: I64, slot: I64, members: Members, at: I64, changes: ChangeRows, best: Heap
) -> bool:
    """Take a list's events from ``at`` on. False if there must first be room for ``at[_NEED]`` more changes. O(changes)."""
    every, deletes, room = query.every, len(members.deleted) > 0, len(changes.score)
    while True:
        while deletes and at[_HEAD] < at[_COMING] and members.deleted[at[_HEAD]] < NEVER:
            at[_HEAD] += 1
        kind, row, now = _next_moment(query, part, block, deletions, members, at)
        if kind == _NOTHING and (every == 0 or slot[DUE] >= part.until):
            return True
        if every > 0 and slot[DUE] < now:
            at[_NEED] = 2 * (at[_LAST] - at[_FRONT]) + 8
            if at[_OUT] + at[_NEED] > room:
                return False
            newest = part.first_seq + (lower_bound(block.time, part.begin, part.end, slot[DUE] + 1) - part.begin) - 1
            _write_boundary(query, slot, members, at, newest, changes, best)
            at[_FRONT] = max(at[_FRONT], min(at[_HEAD], at[_COMING]))
            continue
        left, came = at[_HEAD], False
        head, coming = left, at[_COMING]
        if kind == _EXPIRES:
            while head < coming and members.time[head] + query.micros <= now:
                head += 1
        elif kind != _DELETED:
            head += 1 if kind == _LEAVES else 0
            came = coming < at[_LAST] and part.begin + (members.seq[coming] - part.first_seq) == row
        at[_NEED] = head - left + 8
        if at[_OUT] + at[_NEED] > room:
            return False
        at[_HEAD], at[_COMING] = head, coming + (1 if came else 0)
        if kind == _DELETED:
            _delete(query, slot, block, deletions[at[_DELETION]], members, at, changes)
            at[_DELETION] += 1
        elif every > 0:
            _mark_due(slot, now, every)
        else:
            _write_event(slot, now, left, came, members, at, changes, best)


@inner_inlined
def _slot_of(lists: ListTable, key: int, query: int, new: bool) -> int:
    """Return the slot of a query's list of a key; if there is none, a ``new`` one or -1."""
    slots, place = lists.slots, spot(lists.hashed, lists.slots, key, query)
    if lists.hashed[place] >= 0 or not new:
        return int(lists.hashed[place])
    s = lists.totals[LISTS]
    lists.totals[LISTS] += 1
    lists.hashed[place] = s
    slot = slots[s]
    slot[:] = 0
    slot[KEY], slot[QUERY], slot[DUE], slot[SHOWN], slot[NEWEST], slot[DEAD] = key, query, NEVER, NULL, -1, NULL
    slot[NEXT] = lists.first[key]
    lists.first[key] = s
    return int(s)


@inner_inlined
def _begin_visit(
    part: _Part, block: Block, events: BlockEvents, first: int, last: int, deletion: int, slot: I64, members: Members, at: I64
) -> None:
    """Put the rows that entries [``first``, ``last``) of ``events`` name behind a slot's members, which has room, and set ``at`` up."""
    begin = slot[AT]
    at[_FRONT], at[_HEAD], at[_COMING], at[_DELETION] = begin + slot[LO], begin + slot[HEAD], begin + slot[HI], deletion
    end = at[_COMING]
    for i in range(first, last):
        row = events.row[i]
        members.score[end], members.seq[end] = events.score[i], part.first_seq + (row - part.begin)
        if len(members.time) > 0:
            members.time[end] = block.time[row]
        if len(members.deleted) > 0:
            members.deleted[end] = NEVER
        end += 1
    at[_LAST] = end


@inner_inlined
def _end_visit(query: _Query, lists: ListTable, slot: I64, members: Members, at: I64) -> None:
    """Remove the members whose leaving has been reported, and note when the list changes next."""
    begin, front, key = slot[AT], at[_FRONT], slot[KEY]
    if query.every == 0:
        front = at[_HEAD]
    else:
        while front < at[_HEAD] and not _was_shown(front, members, slot[SHOWN], slot[NEWEST], query):
            front += 1
    lists.totals[LIVE] -= front - (begin + slot[LO])
    slot[LO], slot[HEAD], slot[HI] = front - begin, at[_HEAD] - begin, at[_LAST] - begin
    wake, leave = next_change(slot, query.newest, query.micros, members)
    lists.wake[key], lists.leave[key] = min(lists.wake[key], wake), min(lists.leave[key], leave)


@jit
def replay_lists(
    windows: Windows, block: Block, events: BlockEvents, lists: ListTable, members: Members, until: int
) -> tuple[ChangeRows, int, Members]:  # fmt: skip
    """Replay a block for every list it concerns: change rows and their number, and the pool, which may have moved.

    ``lists`` has room for a slot per candidate. O(changes) plus O(log) per visited list.
    """
    changes, at = change_rows(1024), np.zeros(7, np.int64)
    best = Heap(np.empty(64, np.float64), np.empty(64, np.int64))
    groups = len(block.keys)
    for q in range(len(windows.counts)):
        query = _Query(q, windows.counts[q], windows.micros[q], windows.every[q])
        last, deletions_end, u = events.begin[q], events.deletion_begin[q], events.due_begin[q]
        end, deletions, dues = events.begin[q + 1], events.deletion_begin[q + 1], events.due_begin[q + 1]
        while last < end or deletions_end < deletions or u < dues:
            g = _group_of(block.end, events.row[last]) if last < end else groups
            if deletions_end < deletions:
                g = min(g, _group_of(block.deletion_end, events.deletion[deletions_end]))
            if u < dues:
                g = min(g, events.due[u])
                u += 1 if events.due[u] == g else 0
            first, deletion = last, deletions_end
            while last < end and events.row[last] < block.end[g]:
                last += 1
            while deletions_end < deletions and events.deletion[deletions_end] < block.deletion_end[g]:
                deletions_end += 1
            s = _slot_of(lists, block.keys[g], q, last > first)
            if s < 0:
                continue
            slot = lists.slots[s]
            if slot[HI] + (last - first) > slot[ROOM]:
                members = make_room(slot, last - first, members, lists.totals)
            part = _Part(block.keys[g], block.begin[g], block.end[g], block.first_seq[g], deletions_end, until)
            _begin_visit(part, block, events, first, last, deletion, slot, members, at)
            lists.totals[LIVE] += last - first
            if len(best.score) < at[_LAST] - at[_FRONT]:
                room = 2 * (at[_LAST] - at[_FRONT])
                best = Heap(np.empty(room, np.float64), np.empty(room, np.int64))
            while not _visit(query, part, block, events.deletion, slot, members, at, changes, best):
                changes = more_rows(changes, 2 * len(changes.score) + at[_NEED])
            _end_visit(query, lists, slot, members, at)
    return changes, at[_OUT], members
