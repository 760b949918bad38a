"""What the kernels of one scoring function's top-k work on, besides what all top-k operators share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.single_rows.kernels.heap import Heap
from skyband.operators.single_rows.kernels.ranked_list import RankedList
from skyband.operators.single_rows.kernels.replay_state import Candidates, Query, Records, Span
from skyband.operators.windows import UNBOUNDED


class Queries(NamedTuple):
    """The queries of one scoring function, and the largest of them that the state can answer.

    int64 (queries,): ``k``; ``count`` and ``micros`` of the window (``UNBOUNDED``: none); ``every`` (0: per event); ``limit``, how many
    members a list is filled with, and ``limit_at_first``, at a block's beginning. ``floor`` float64 (queries,): no candidate has a
    smaller internal score. ``column`` int64 (queries + 1,): the queries' columns in ``Records``.

    ``keep_k``, ``keep_count``, ``keep_micros``: largest k and window.
    """

    k: I64
    count: I64  # type: ignore[assignment]  # a window's count, not the tuple's method
    micros: I64
    every: I64
    limit: I64
    limit_at_first: I64
    floor: F64
    column: I64
    keep_k: int
    keep_count: int
    keep_micros: int


class Keys(NamedTuple):
    """Every key's next seq, and where its candidates are in ``Members``: int64 (keys,) each.

    Key g has places ``start[g]`` .. + ``room[g]``, the first ``length[g]`` in use; members that have expired since the key's last rows are
    still there.
    """

    next_seq: I64
    start: I64
    length: I64
    room: I64


class Members(NamedTuple):
    """The candidates of many keys between blocks: float64 ``score``, int64 ``seq``, int64 ``time``, (room,) each.

    A key's skyband in rank order, with ``dominators`` int64 (room,), the number of newer objects that rank before; or with deletions all
    alive candidates in seq order, and ``dominators`` is empty.
    """

    score: F64
    seq: I64
    time: I64
    dominators: I64


class Ends(NamedTuple):
    """Which deletion of the block ends a row of the block (``row`` int64 (rows,)) or a member (``member`` int64 (members,)), or ``NEVER``.
    Without ``deletes`` both are empty, and the members are a skyband."""

    deletes: bool
    row: I64
    member: I64


class Source(NamedTuple):
    """What the lists of one key are filled from: the rows of the block in its ``span``, with internal ``scores`` float64 (rows,), NaN for
    no candidate, and places [``begin``, ``end``) of ``members``."""

    span: Span
    block: Block
    scores: F64
    members: Members
    begin: int
    end: int
    ends: Ends


class Scratch(NamedTuple):
    """Arrays that live through one call, and a counter.

    ``row`` int64, ``score`` float64, ``dominators`` int64: (rows of the largest key,) each. Room for changes: ``change_numbers`` int64
    (room, 8), ``change_score`` float64 (room,).
    """

    row: I64
    score: F64
    dominators: I64
    change_numbers: I64
    change_score: F64


class Task(NamedTuple):
    """What one call works on: the events of [``since``, ``until``). ``scores`` as in ``Source``, ``candidates`` is room for those of the
    largest key; the scan for them looks ``piece`` rows ahead at first."""

    queries: Queries
    block: Block
    scores: F64
    keys: Keys
    members: Members
    ends: Ends
    records: Records
    candidates: Candidates
    since: int
    until: int
    piece: int


class Lists(NamedTuple):
    """Room for one query's list and for the selections that fill it."""

    ranked: RankedList
    best: Heap


@inner
def query_of(queries: Queries, number: int) -> Query:
    """Return one of the queries."""
    return Query(
        number, queries.k[number], queries.count[number], queries.micros[number], queries.every[number], queries.column[number]
    )  # fmt: skip


@inner
def span_of(block: Block, group: int, query: Query, until: int) -> Span:
    """Return the part of the block that belongs to ``block.keys[group]``."""
    timed = query.micros < UNBOUNDED or query.every > 0 or block.deletion_begin[group] < block.deletion_end[group]
    return Span(
        block.keys[group], block.begin[group], block.end[group], block.first_seq[group], block.deletion_end[group], until, timed
    )  # fmt: skip


@maker
def new_lists(room: int) -> Lists:
    """Return lists with room for ``room`` members."""
    ranked = RankedList(
        np.empty(room, np.float64), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float64), np.empty(room, np.int64)
    )
    return Lists(ranked, Heap(np.empty(room, np.float64), np.empty(room, np.int64)))


@maker
def wider_lists(lists: Lists, room: int) -> Lists:
    """Return the same lists with room for ``room`` members."""
    a, b = lists.ranked, lists.best
    ranked = RankedList(
        grown(a.score, room), grown(a.seq, room), grown(a.time, room), grown(a.left_score, room), grown(a.left_seq, room)
    )  # fmt: skip
    return Lists(ranked, Heap(grown(b.score, room), grown(b.place, room)))


@inner
def source_of(task: Task, span: Span) -> Source:
    """Return what a key's lists are filled from."""
    begin = task.keys.start[span.key]
    return Source(span, task.block, task.scores, task.members, begin, begin + task.keys.length[span.key], task.ends)
