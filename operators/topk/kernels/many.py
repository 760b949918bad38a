"""Top-k of many functions of one form over one window: the driver that replays a block for every query and key.

Candidates come from an influence grid (``many_probe``) where there is one, else from scoring the block for each query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import inner, inner_inlined, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.single_rows.kernels.emit import ChangeRows, change_rows, more_rows
from skyband.operators.single_rows.kernels.heap import Heap
from skyband.operators.single_rows.kernels.list_moves import alive_from
from skyband.operators.single_rows.kernels.ranked_list import RankedList, oldest
from skyband.operators.single_rows.kernels.replay import next_capacity, replay_on
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    CUT,
    DELETION,
    DONE,
    FULL,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACES,
    ROOM,
    ROW,
    SIZE,
    VISITS,
    Candidates,
    Progress,
    Query,
    Records,
    Span,
    next_list_size,
    set_cutoff,
)
from skyband.operators.single_rows.kernels.select import Below
from skyband.operators.topk.kernels.many_lists import NO_SEQ, QueryLists, moved_list
from skyband.operators.topk.kernels.many_plain import replay_plain
from skyband.operators.topk.kernels.many_probe import BlockCandidates
from skyband.operators.topk.kernels.many_queries import REFILLS, ROWS_READ, QueryTable, TableQuery, query_of
from skyband.operators.topk.kernels.many_refill import RefillRequest, SearchSpace, refill_rows, rescan_candidates
from skyband.operators.topk.kernels.many_scores import corners_pay, find_corners, score_rows
from skyband.operators.topk.kernels.scan import gather
from skyband.operators.topk.kernels.window_pool import LEAF, WindowPool
from skyband.operators.windows import UNBOUNDED

CHUNK = 1024


class _Job(NamedTuple):
    """What all replays of a block share: the queries, the block, the window with its rows, their candidates, the records of the
    queries, and the instant before which to process events."""

    table: QueryTable
    block: Block
    pool: WindowPool
    candidates: BlockCandidates
    records: Records
    until: int


class _Space(NamedTuple):
    """Space that the replays of one block share.

    ``progress``: of the replay at hand, and the number of changes so far; ``candidates``: room for all rows of the longest span;
    ``search``: for refills, as long as the longest list; ``left_score`` float64, ``left_seq`` int64 (members of the longest list,).
    """

    progress: Progress
    candidates: Candidates
    search: SearchSpace
    left_score: F64
    left_seq: I64


@maker
def _space_for(block: Block, leaves: int, work: I64) -> _Space:
    """Return scratch space for a block's replays of lists of up to 64 members, over a window of ``leaves``."""
    longest = 1
    for g in range(len(block.keys)):
        longest = max(longest, block.end[g] - block.begin[g])
    return _Space(
        Progress(np.zeros(PLACES, np.int64), np.zeros(2, np.float64)),
        Candidates(np.empty(longest, np.int64), np.empty(longest, np.float64)),
        SearchSpace(
            np.empty(CHUNK, np.float64), Heap(np.empty(64, np.float64), np.empty(64, np.int64)), np.empty(leaves, np.float64),
            np.empty(leaves, np.int64), work,
        ),
        np.empty(64, np.float64), np.empty(64, np.int64),
    )  # fmt: skip


@maker
def _space_for_lists(space: _Space, members: int) -> _Space:
    """Return scratch space for lists of ``members`` members."""
    search = space.search
    heap = Heap(grown(search.best.score, members), grown(search.best.place, members))
    return _Space(
        space.progress, space.candidates, SearchSpace(search.chunk, heap, search.bound, search.leaf, search.work),
        grown(space.left_score, members), grown(space.left_seq, members),
    )  # fmt: skip


@jit(inline="always")
def _span_of(job: _Job, query: Query, group: int) -> Span:
    """Return the part of the block that a query's replay for one key goes over."""
    block = job.block
    timed = query.micros < UNBOUNDED or query.every > 0 or len(job.pool.ended_by) > 0
    return Span(
        block.keys[group], block.begin[group], block.end[group], block.first_seq[group], block.deletion_end[group], job.until, timed
    )  # fmt: skip


@inner
def _score_span(query: TableQuery, pool: WindowPool, span: Span, cutoff: float, candidates: Candidates, chunk: F64) -> int:
    """Return the span's rows that reach the cutoff, and their number."""
    ahead, found, begin = pool.tail[span.key] - span.end, 0, span.begin
    while begin < span.end:
        place = begin + ahead
        row = place if place < pool.wrap else place - pool.wrap
        end = min(span.end, begin + CHUNK, begin + pool.wrap - row)
        score_rows(query, pool, row, row + end - begin, chunk)
        found += gather(chunk, 0, end - begin, begin, cutoff, candidates.row[found:], candidates.score[found:])
        begin = end
    return found


@inner_inlined
def _find_candidates(job: _Job, query: TableQuery, group: int, lists: QueryLists, space: _Space) -> int:
    """Return how many candidates a query has in one key's part of the block, or -1 if nothing happens to its list."""
    q, block, known = query.base.number, job.block, job.candidates.begin
    span = _span_of(job, query.base, group)
    if len(known) > 0:
        found = known[q + 1] - known[q]
    else:
        found = _score_span(query, job.pool, span, lists.cutoff[q, span.key], space.candidates, space.search.chunk)
    leaves = lists.oldest[q, span.key] + query.base.count < span.first_seq + (span.end - span.begin)
    if found > 0 or leaves or block.deletion_begin[group] < span.deletions_end or job.records.wake[q, span.key] < job.until:
        return int(found)
    return -1


@inner_inlined
def _room_for(query: int, key: int, found: int, lists: QueryLists) -> int:
    """Return the room a list must have, or 0 if it has it."""
    limit, size = lists.limit[query, key], lists.size[query, key]
    room = min(2 * limit, size + found) + 2 if lists.full[query, key] == 1 else 2 * limit + 2
    return min(2 * room, 2 * limit + 2) if room > lists.room[query, key] else 0


@inner_inlined
def _begin_replay(job: _Job, query: TableQuery, group: int, lists: QueryLists, progress: Progress) -> None:
    """Set ``progress`` up for a query's list of one key."""
    q, key, st = query.base.number, job.block.keys[group], progress.places
    st[PENDING], st[ROW], st[DELETION], st[NEXT], st[VISITS] = 0, job.block.begin[group], job.block.deletion_begin[group], 0, 0
    st[SIZE], st[LIMIT], st[BASE], st[FULL] = lists.size[q, key], lists.limit[q, key], query.list_size, lists.full[q, key]
    progress.cutoff[0], st[CUT], st[AT] = lists.cutoff[q, key], lists.cut[q, key], lists.oldest[q, key]


@jit(inline="always")
def _list_at(lists: QueryLists, query: int, key: int, space: _Space) -> RankedList:
    """Return a view of one list in the pool."""
    begin = lists.begin[query, key]
    end = begin + lists.room[query, key]
    return RankedList(lists.score[begin:end], lists.seq[begin:end], lists.time[begin:end], space.left_score, space.left_seq)


@jit(inline="always")
def _candidates_of(job: _Job, query: int, refilled: bool, space: _Space) -> Candidates:
    """Return a query's candidates in the only key's part of the block, or those last found by scores."""
    known = job.candidates.begin
    if len(known) == 0 or refilled:
        return space.candidates
    return Candidates(job.candidates.rows[known[query] : known[query + 1]], job.candidates.scores[known[query] : known[query + 1]])


@inner_inlined
def _replay_list(
    job: _Job, query: TableQuery, group: int, found: int, refilled: bool, lists: QueryLists, space: _Space, changes: ChangeRows
) -> int:  # fmt: skip
    """Go on with the replay of a query's list of one key; return why it stopped."""
    q, span, progress, records = query.base.number, _span_of(job, query.base, group), space.progress, job.records
    ranked, candidates = _list_at(lists, q, span.key, space), _candidates_of(job, q, refilled, space)
    if span.timed:
        return int(replay_on(query.base, span, job.block, candidates, found, span.end, ranked, progress, records, changes))
    return int(replay_plain(query.base, span, job.block.time, candidates, found, ranked, progress, records.step[q], changes))


@inner
def _next_limit(k: int, read: int, progress: Progress) -> int:
    """Return the size to refill a short list to: larger if refills, which read ``read`` rows and leaves, are too frequent."""
    st, cost = progress.places, read // 64
    limit = max(st[SIZE] + 1, next_list_size(st[LIMIT], max(8 * k + 64, cost), st[VISITS], cost))
    st[LIMIT], st[VISITS] = limit, 0
    return int(limit)


@inner
def _known_leaves(query: TableQuery, pool: WindowPool, key: int, begin: int, end: int, cutoff: float, space: F64) -> int:
    """Return the place before which full leaves have corners. Compute corners up to ``end`` if bounds pay in the rows before ``begin``.
    ``space`` float64 (at least 1,) is scratch space."""
    known = (max(pool.leaves_end[key], pool.head[key]) + LEAF - 1) // LEAF * LEAF
    if corners_pay(query, pool, known, begin, cutoff, space):
        while known + LEAF <= end:
            find_corners(pool, known if known < pool.wrap else known - pool.wrap)
            known += LEAF
            pool.leaves_end[key] = known
    return int(known)


@inner_inlined
def _refill(job: _Job, query: TableQuery, group: int, lists: QueryLists, space: _Space) -> int:
    """Fill a list that ran short up to its limit out of the window before the replay's row; return how many candidates the rest of the
    span holds now that the cutoff is lower."""
    st, cutoff, base, pool, search = space.progress.places, space.progress.cutoff, query.base, job.pool, space.search
    span = _span_of(job, base, group)
    key, ahead, size = span.key, pool.tail[span.key] - span.end, st[SIZE]
    ranked = _list_at(lists, base.number, key, space)
    arrived, end, need = st[ROW] + ahead, span.end + ahead, st[LIMIT] - size
    first_seq = span.first_seq - span.begin - ahead
    known = _known_leaves(query, pool, key, arrived, end, cutoff[0], search.chunk)
    request = RefillRequest(
        pool.head[key], arrived, first_seq, first_seq + arrived - base.count, alive_from(st[AT], base.micros), st[DELETION],
        Below(cutoff[0], st[CUT] - first_seq, query.floor), min(known, arrived // LEAF * LEAF), need,
    )  # fmt: skip
    got = refill_rows(query, pool, request, ranked, size, search)
    st[SIZE] = size + got
    set_cutoff(space.progress, ranked, got < need, query.floor)
    st[NEXT] = 0
    search.work[REFILLS] += 1
    return int(rescan_candidates(query, pool, arrived, end, ahead, cutoff[0], pool.head[key], known, space.candidates, search))


@inner_inlined
def _end_replay(job: _Job, query: TableQuery, group: int, lists: QueryLists, space: _Space) -> None:
    """Keep what the next block goes on from."""
    q, key, micros, st = query.base.number, job.block.keys[group], query.base.micros, space.progress.places
    size = st[SIZE]
    lists.size[q, key], lists.limit[q, key], lists.cutoff[q, key] = size, st[LIMIT], space.progress.cutoff[0]
    lists.cut[q, key], lists.full[q, key] = st[CUT], st[FULL]
    if not _span_of(job, query.base, group).timed:
        lists.oldest[q, key] = st[AT]
        return
    ranked = _list_at(lists, q, key, space)
    o = oldest(ranked.seq, min(query.base.k, size))
    lists.oldest[q, key] = ranked.seq[o] if o >= 0 else NO_SEQ
    expiry = ranked.time[o] + micros if o >= 0 and micros < UNBOUNDED else NEVER
    job.records.wake[q, key] = min(expiry, job.records.due[q, key])


@jit
def replay_queries(
    table: QueryTable, block: Block, pool: WindowPool, candidates: BlockCandidates, lists: QueryLists, records: Records, until: int,
    work: I64,
) -> tuple[ChangeRows, int, QueryLists]:  # fmt: skip
    """Replay a block, already in the window, for every query and key. Return change rows, their number, and the lists (the pool may move).

    Process events before ``until``; ``work``: see ``REFILLS``. O(1) per query and key without an event, O(k) per
    change; without candidates also O(d) per row and query.
    """
    changes, space = change_rows(1024), _space_for(block, pool.leaf_low.shape[1], work)
    job = _Job(table, block, pool, candidates, records, until)
    for q in range(len(table.k)):
        query = query_of(table, q)
        k = table.k[q]
        for group in range(len(block.keys)):
            key = block.keys[group]
            found = _find_candidates(job, query, group, lists, space)
            if found < 0:
                continue
            room = _room_for(q, key, found, lists)
            if room > 0:
                lists = moved_list(lists, q, key, lists.size[q, key], room)
            if 2 * lists.limit[q, key] >= len(space.left_seq):
                space = _space_for_lists(space, 2 * lists.limit[q, key] + 1)
            _begin_replay(job, query, group, lists, space.progress)
            refilled, read = False, work[ROWS_READ]
            while True:
                stop = _replay_list(job, query, group, found, refilled, lists, space, changes)
                if stop == DONE:
                    break
                if stop == ROOM:
                    changes = more_rows(changes, next_capacity(changes, k))
                    continue
                limit = _next_limit(k, work[ROWS_READ] - read + (pool.tail[key] - pool.head[key]) // LEAF, space.progress)
                if 2 * limit + 2 > lists.room[q, key]:
                    lists = moved_list(lists, q, key, space.progress.places[SIZE], 2 * limit + 2)
                if 2 * limit >= len(space.left_seq):
                    space = _space_for_lists(space, 2 * limit + 1)
                refilled, read = True, work[ROWS_READ]
                found = _refill(job, query, group, lists, space)
            _end_replay(job, query, group, lists, space)
    return changes, space.progress.places[OUT], lists
