"""Q top-k queries of one form as their kernels read them: queries, lists and windows, and the scores of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, inner, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown, lower_bound, shift
from skyband.operators.single_rows.kernels.ranked_list import alive_from
from skyband.operators.single_rows.kernels.replay_state import Query
from skyband.operators.single_rows.kernels.score_programs import bound_boxes_by_steps, has_steps, score_rows_by_steps
from skyband.operators.single_rows.score_programs import ScoreProgram, program_scores
from skyband.operators.windows import UNBOUNDED

# The queries: a table for all of them, and a row of it for one.


REFILLS, ROWS_READ, TESTS, WILD, UNUSABLE, OUTSIDE = range(6)
"""Places of the work counters: refills of lists, rows read for them, (row, query) tests by the grid, rows outside the grid, rows without a
value, and those of the rows outside whose values are finite."""

COUNTERS = 8


class QueryTable(NamedTuple):
    """The queries, a row per query; nothing here ever changes. Scores are *internal*: larger is better, NaN is in no result.

    int64 (Q,): ``k`` how many items a result has; ``counts`` and ``micros`` the window, each ``UNBOUNDED`` for none; ``every``
    microseconds between boundaries, 0 for changes per event; ``list_size`` how many candidates a list is filled with at least; ``where``
    the bit of a row's flags that must be set, -1 for no predicate; ``column`` the first of a query's columns in ``Records``.

    ``program``: the function's steps, or none for weighted sums. float64 (Q, constants): ``weights``, the constants of each query; of
    weighted sums, a weight per attribute, negated for queries of the smallest scores. float64 (constants, Q): ``columns``, the same by
    constant. float64 (Q, d): ``low`` and ``high``, the closed constraint boxes, infinite for none. float64 (Q,): ``floor`` and
    ``ceiling``, the least and the largest score that may be in a result. bool (Q,): ``boxed``, whether there is a box.
    """

    k: I64
    counts: I64
    micros: I64
    every: I64
    list_size: I64
    where: I64
    column: I64
    weights: F64
    low: F64
    high: F64
    columns: F64
    floor: F64
    ceiling: F64
    boxed: AnyArray
    program: ScoreProgram


class TableQuery(NamedTuple):
    """One query of the table.

    ``base``: its number, k, window and boundaries; ``list_size``, ``where``, ``floor``, ``ceiling``, ``boxed``, ``program``: as in the
    table; ``weights`` float64 (constants,), ``low``, ``high`` float64 (d,).
    """

    base: Query
    list_size: int
    where: int
    floor: float
    ceiling: float
    boxed: bool
    weights: F64
    low: F64
    high: F64
    program: ScoreProgram


@jit
def query_of(table: QueryTable, query: int) -> TableQuery:
    """Return row ``query`` of the table."""
    base = Query(query, table.k[query], table.counts[query], table.micros[query], table.every[query], table.column[query])
    return TableQuery(
        base, table.list_size[query], table.where[query], table.floor[query], table.ceiling[query], table.boxed[query],
        table.weights[query], table.low[query], table.high[query], table.program,
    )  # fmt: skip


# The lists of all queries and keys, in one pool.


NO_SEQ = NEVER // 4
"""In place of the oldest seq of an empty list."""


class QueryLists(NamedTuple):
    """A list per query and key, in rank order, and what a replay of it goes on from.

    int64 (Q, keys): ``begin`` and ``room``, its place in the pool; ``size``, its members; ``limit``, how many it is filled with; ``cut``,
    the seq of its cutoff; ``full``, 1 if it holds all there is; ``oldest``, the least seq of the first k, ``NO_SEQ`` for none.
    float64 (Q, keys): ``cutoff``, the score from which on rows are on the list.

    The pool: ``score`` float64, ``seq`` and ``time`` int64 (room of all lists,). It moves when it grows; ``end``: how much is in use.
    """

    begin: I64
    room: I64
    size: I64
    limit: I64
    cutoff: F64
    cut: I64
    full: I64
    oldest: I64
    score: F64
    seq: I64
    time: I64
    end: int


@maker
def moved_list(lists: QueryLists, query: int, key: int, size: int, room: int) -> QueryLists:
    """Move a list of ``size`` to the pool's end, with ``room``; the pool may move, too. O(size), amortised."""
    score, seq, time, to = lists.score, lists.seq, lists.time, lists.end
    if to + room > len(score):
        more = 2 * (to + room)
        score, seq, time = grown(score, more), grown(seq, more), grown(time, more)
    begin = lists.begin[query, key]
    for i in range(size):
        score[to + i], seq[to + i], time[to + i] = score[begin + i], seq[begin + i], time[begin + i]
    lists.begin[query, key], lists.room[query, key] = to, room
    return QueryLists(
        lists.begin, lists.room, lists.size, lists.limit, lists.cutoff, lists.cut, lists.full, lists.oldest, score, seq, time, to + room
    )  # fmt: skip


# The window of a bucket's keys in one pool of columns: every key owns a slab, appends at its end and drops at its head.
#
# Rows are named by *places*: place p of a key lies at row p of the columns, or at p - ``wrap`` from ``wrap`` on. A bucket of one key has a
# ring of that length, a multiple of LEAF, so that no leaf is divided; slabs of many keys never get there (``NO_RING``).


LEAF = 128
"""Rows that share the corners of a box."""

NO_RING = 2**62
"""A place no key reaches: the slabs of many keys do not wrap."""


class WindowPool(NamedTuple):
    """Columns with a place per row, and where every key's rows are.

    ``values`` float64 (d, rows). int64 (rows,), empty where not needed: ``time``, for time windows; ``flags``, a bit per predicate;
    ``ended_by``, for deletions: the number of the block's deletion that takes the row, -1 if one took it before, ``NEVER`` if none did.
    ``leaf_low`` and ``leaf_high`` float64 (d, leaves): corners of the box around rows [LEAF * i, LEAF * (i + 1)). ``wrap``: the ring's
    length, ``NO_RING`` for slabs.

    int64 (keys,): ``begin`` and ``room``, the slab (0 for a ring); ``head`` and ``tail``: the window has places [head, tail), the last of
    them has the last seq; ``leaves_end``: whole leaves of the window before this place have corners.
    """

    values: F64
    time: I64
    flags: I64
    ended_by: I64
    leaf_low: F64
    leaf_high: F64
    wrap: int
    begin: I64
    room: I64
    head: I64
    tail: I64
    leaves_end: I64


@jit(_nrt=False)
def first_place_from(pool: WindowPool, begin: int, end: int, instant: int) -> int:
    """Return the first place in [begin, end) of time >= ``instant``. O(log)."""
    time, wrap = pool.time, pool.wrap
    while begin < end:
        mid = (begin + end) >> 1
        if time[mid if mid < wrap else mid - wrap] < instant:
            begin = mid + 1
        else:
            end = mid
    return begin


@jit
def plan_slabs(block: Block, pool: WindowPool, count: int, micros: int, until: int, end: int, target: I64) -> int:
    """Drop what has expired before ``until`` and choose where each key's rows go: ``target`` int64 (keys of the block,), the begin of
    another slab or -1 to stay. ``end`` is the end of all slabs; return the new one."""
    begin, room, head, tail = pool.begin, pool.room, pool.head, pool.tail
    for g in range(len(block.keys)):
        key, new = block.keys[g], block.end[g] - block.begin[g]
        first = max(head[key], tail[key] - count)
        if micros < UNBOUNDED:
            first = lower_bound(pool.time, first, tail[key], alive_from(until - 1, micros))
        head[key] = first
        need = tail[key] - first + new
        if tail[key] + new <= begin[key] + room[key]:
            target[g] = -1
        elif 4 * need <= 3 * room[key]:
            target[g] = begin[key]
        else:
            target[g] = end
            room[key] = 3 * need
            end += room[key]
    return end


@jit
def append_rows(block: Block, pool: WindowPool, target: I64, columns: tuple[F64, ...], flags: I64) -> None:
    """Move slabs as planned and append the block's rows; the pool has room. Corners of moved slabs become void.

    ``columns`` d float64 (rows of the block,); ``flags`` int64 (rows of the block,), or empty.
    """
    values, time, all_flags, ended_by = pool.values, pool.time, pool.flags, pool.ended_by
    for g in range(len(block.keys)):
        key, to = block.keys[g], target[g]
        if to >= 0:
            a, b = pool.head[key], pool.tail[key]
            for t in range(len(values)):
                shift(values[t], a, b, to - a)
            if len(time):
                shift(time, a, b, to - a)
            if len(all_flags):
                shift(all_flags, a, b, to - a)
            if len(ended_by):
                shift(ended_by, a, b, to - a)
            pool.begin[key], pool.head[key], pool.tail[key] = to, to, to + b - a
            pool.leaves_end[key] = to
        lo, hi, at = block.begin[g], block.end[g], pool.tail[key]
        end = at + hi - lo
        for t in range(len(values)):
            values[t, at:end] = columns[t][lo:hi]
        if len(time):
            time[at:end] = block.time[lo:hi]
        if len(all_flags):
            all_flags[at:end] = flags[lo:hi]
        if len(ended_by):
            ended_by[at:end] = NEVER
        pool.tail[key] = end


# Scores of window rows for one query, and bounds of the scores in a leaf.


SAMPLE = 16


@inner
def _weighted_sums(weights: F64, values: F64, begin: int, end: int, out: F64) -> None:
    """Write the weighted sums of rows [begin, end) of ``values`` (d, rows) to ``out``."""
    n = end - begin
    o, column = out[:n], values[0, begin:end]
    for i in range(n):
        o[i] = weights[0] * column[i]
    for t in range(1, len(weights)):
        column = values[t, begin:end]
        for i in range(n):
            o[i] = o[i] + weights[t] * column[i]
    for i in range(n):
        o[i] = o[i] + 0.0


@jit(_nrt=False)
def _score_rows_nb(query: TableQuery, pool: WindowPool, begin: int, end: int, out: F64) -> None:
    n = end - begin
    o, values, ceiling = out[:n], pool.values, query.ceiling
    if has_steps(query.program):
        score_rows_by_steps(query.program, query.weights, values, begin, end, out)
    else:
        _weighted_sums(query.weights, values, begin, end, out)
    if ceiling < np.inf:
        for i in range(n):
            if o[i] > ceiling:
                o[i] = np.nan
    if query.boxed:
        for t in range(len(values)):
            column = values[t, begin:end]
            low, high = query.low[t], query.high[t]
            for i in range(n):
                if not low <= column[i] <= high:
                    o[i] = np.nan
    where = query.where
    if where >= 0:
        flags = pool.flags[begin:end]
        for i in range(n):
            if (flags[i] >> where) & 1 == 0:
                o[i] = np.nan


def _score_rows_np(query: TableQuery, pool: WindowPool, begin: int, end: int, out: F64) -> None:
    o, weights, values = out[: end - begin], query.weights, pool.values
    with np.errstate(all="ignore"):
        if query.program.result >= 0:
            o[:] = program_scores(query.program, [*values[:, begin:end], *weights])
        else:
            np.multiply(values[0, begin:end], weights[0], out=o)
            for t in range(1, len(weights)):
                o += weights[t] * values[t, begin:end]
            o += 0.0
        o[o > query.ceiling] = np.nan
        if query.boxed:
            for t in range(len(values)):
                column = values[t, begin:end]
                o[~((query.low[t] <= column) & (column <= query.high[t]))] = np.nan
        if query.where >= 0:
            o[(pool.flags[begin:end] >> query.where) & 1 == 0] = np.nan


score_rows = _score_rows_nb if HAVE_NUMBA else _score_rows_np
"""out[: end - begin] = internal scores of the pool's rows [begin, end) for one query; NaN outside its box, its predicate or above its
ceiling. ``out`` float64. O(d) per row, vectorised."""


@jit(_nrt=False)
def find_corners(pool: WindowPool, row: int) -> None:
    """Store the corners of the leaf of LEAF rows from ``row`` (NaN left out; an attribute that is always NaN gets (inf, -inf))."""
    leaf = row // LEAF
    for t in range(len(pool.values)):
        column = pool.values[t, row : row + LEAF]
        low, high = np.inf, -np.inf
        for i in range(LEAF):
            v = column[i]
            low = v if v < low else low
            high = v if v > high else high
        pool.leaf_low[t, leaf], pool.leaf_high[t, leaf] = low, high


@inner
def bound_leaves(query: TableQuery, pool: WindowPool, begin: int, end: int, out: F64) -> None:
    """Write upper bounds of the scores in leaves [begin, end), which have corners, to ``out``; NaN where nothing is known.

    The operations are those of the score, each monotone, so rounding keeps them bounds.
    """
    if has_steps(query.program):
        bound_boxes_by_steps(query.program, query.weights, pool.leaf_low, pool.leaf_high, begin, end, out)
    else:
        for leaf in range(begin, end):
            out[leaf - begin] = _bound_of_sums(query.weights, pool.leaf_low, pool.leaf_high, leaf)


@inner
def _bound_of_sums(weights: F64, leaf_low: F64, leaf_high: F64, leaf: int) -> float:
    """Return an upper bound of the leaf's weighted sums."""
    bound: float = weights[0] * leaf_high[0, leaf] if weights[0] >= 0.0 else weights[0] * leaf_low[0, leaf]
    for t in range(1, len(weights)):
        bound = bound + (weights[t] * leaf_high[t, leaf] if weights[t] >= 0.0 else weights[t] * leaf_low[t, leaf])
    return bound


@inner
def corners_pay(query: TableQuery, pool: WindowPool, begin: int, end: int, cutoff: float, space: F64) -> bool:
    """Return True if many of a few full leaves in places [begin, end) are below the cutoff, so that bounds would exclude leaves.
    Looks at SAMPLE leaves, and leaves their corners behind. ``space`` float64 (at least 1,) is scratch space."""
    if not HAVE_NUMBA and has_steps(query.program):
        return False
    first, last = (begin + LEAF - 1) // LEAF, end // LEAF
    if last - first < 2 * SAMPLE:
        return True
    below = 0
    for i in range(SAMPLE):
        place = (first + i * (last - first) // SAMPLE) * LEAF
        row = place if place < pool.wrap else place - pool.wrap
        find_corners(pool, row)
        bound_leaves(query, pool, row // LEAF, row // LEAF + 1, space)
        below += 1 if space[0] < cutoff else 0
    return 8 * below > SAMPLE
