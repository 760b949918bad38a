"""Top-k of many linear functions over one window: the driver that replays a block for every query and key.

Candidates come from an influence grid (``many_probe``) where there is one, else from scoring the block for each query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import jit
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.single_rows.kernels.emit import ChangeRows, change_rows
from skyband.operators.single_rows.kernels.expiry import alive_from
from skyband.operators.single_rows.kernels.heap import Heap
from skyband.operators.single_rows.kernels.ranked_list import RankedList, oldest
from skyband.operators.single_rows.kernels.replay import replay
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    CUT,
    DELETION,
    FULL,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACES,
    REFILL,
    ROW,
    SIZE,
    VISITS,
    Candidates,
    Progress,
    Records,
    Span,
    fitted,
    settle,
)
from skyband.operators.single_rows.kernels.select import Below
from skyband.operators.topk.kernels.many_lists import NO_SEQ, QueryLists, moved_list
from skyband.operators.topk.kernels.many_plain import replay_plain
from skyband.operators.topk.kernels.many_probe import BlockCandidates
from skyband.operators.topk.kernels.many_queries import REFILLS, ROWS_READ, LinearQuery, QueryTable, query_of
from skyband.operators.topk.kernels.many_refill import SearchSpace, Sought, look_again, refill_rows
from skyband.operators.topk.kernels.many_scores import corners_pay, find_corners, score_rows
from skyband.operators.topk.kernels.scan import gather
from skyband.operators.topk.kernels.window_pool import LEAF, WindowPool
from skyband.operators.windows import UNBOUNDED

CHUNK = 1024


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


@jit
def _space_for(block: Block, work: I64) -> _Space:
    """Space for a block's replays of lists of up to 64 members."""
    longest = 1
    for g in range(len(block.keys)):
        longest = max(longest, block.end[g] - block.begin[g])
    return _Space(
        Progress(np.zeros(PLACES, np.int64), np.zeros(2, np.float64)),
        Candidates(np.empty(longest, np.int64), np.empty(longest, np.float64)),
        SearchSpace(np.empty(CHUNK, np.float64), Heap(np.empty(64, np.float64), np.empty(64, np.int64)), work),
        np.empty(64, np.float64), np.empty(64, np.int64),
    )  # fmt: skip


@jit
def _space_for_lists(space: _Space, members: int) -> _Space:
    """Space for lists of so many members."""
    if members <= len(space.left_seq):
        return space
    search = space.search
    heap = Heap(grown(search.best.score, members), grown(search.best.place, members))
    return _Space(
        space.progress, space.candidates, SearchSpace(search.chunk, heap, search.work), grown(space.left_score, members),
        grown(space.left_seq, members),
    )  # fmt: skip


@jit
def _score_span(query: LinearQuery, pool: WindowPool, span: Span, cutoff: float, candidates: Candidates, chunk: F64) -> int:
    """The span's rows that reach the cutoff, and their number."""
    ahead, found, begin = pool.tail[span.key] - span.end, 0, span.begin
    while begin < span.end:
        place = begin + ahead
        row = place if place < pool.wrap else place - pool.wrap
        end = min(span.end, begin + CHUNK, begin + pool.wrap - row)
        score_rows(query, pool, row, row + end - begin, chunk)
        found += gather(chunk, 0, end - begin, begin, cutoff, candidates.row[found:], candidates.score[found:])
        begin = end
    return found


@jit
def _begin_replay(progress: Progress, query: LinearQuery, span: Span, deletion: int, lists: QueryLists) -> None:
    """Set ``progress`` up for a query's list of one key."""
    q, key = query.asked.number, span.key
    st = progress.places
    st[PENDING], st[ROW], st[DELETION], st[NEXT], st[VISITS] = 0, span.begin, deletion, 0, 0
    st[SIZE], st[LIMIT], st[BASE], st[FULL] = lists.size[q, key], lists.limit[q, key], query.list_size, lists.full[q, key]
    progress.cutoff[0], st[CUT], st[AT] = lists.cutoff[q, key], lists.cut[q, key], lists.oldest[q, key]


@jit
def _known_leaves(query: LinearQuery, pool: WindowPool, key: int, begin: int, end: int, cutoff: float) -> int:
    """The place before which the window's full leaves have corners: brought up to ``end`` where bounds below the cutoff pay in the rows
    before ``begin``."""
    known = (max(pool.leaves_end[key], pool.head[key]) + LEAF - 1) // LEAF * LEAF
    if corners_pay(query.weights, pool, known, begin, cutoff):
        while known + LEAF <= end:
            find_corners(pool, known if known < pool.wrap else known - pool.wrap)
            known += LEAF
            pool.leaves_end[key] = known
    return known


@jit
def _refill(query: LinearQuery, span: Span, pool: WindowPool, ranked: RankedList, space: _Space) -> int:
    """Fill a list that ran short up to its limit out of the window before the replay's row; returns how many candidates the rest of the
    span holds now that the cutoff is lower."""
    st, cutoff, asked, key = space.progress.places, space.progress.cutoff, query.asked, span.key
    ahead, size = pool.tail[key] - span.end, st[SIZE]
    arrived, end, need = st[ROW] + ahead, span.end + ahead, st[LIMIT] - st[SIZE]
    first_seq = span.first_seq - span.begin - ahead
    known = _known_leaves(query, pool, key, arrived, end, cutoff[0])
    sought = Sought(
        pool.head[key], arrived, first_seq, first_seq + arrived - asked.count, alive_from(st[AT], asked.micros), st[DELETION],
        Below(cutoff[0], st[CUT] - first_seq, query.floor), min(known, arrived // LEAF * LEAF), need,
    )  # fmt: skip
    got = refill_rows(query, pool, sought, ranked, size, space.search)
    st[SIZE] = size + got
    settle(space.progress, ranked, got < need, query.floor)
    st[NEXT] = 0
    space.search.work[REFILLS] += 1
    return int(look_again(query, pool, arrived, end, ahead, cutoff[0], pool.head[key], known, space.candidates, space.search))


@jit
def _list_at(lists: QueryLists, query: int, key: int, space: _Space) -> RankedList:
    """One list where it lies in the pool."""
    begin = lists.begin[query, key]
    end = begin + lists.room[query, key]
    return RankedList(lists.score[begin:end], lists.seq[begin:end], lists.time[begin:end], space.left_score, space.left_seq)


@jit
def _replay_list(
    query: LinearQuery, span: Span, block: Block, candidates: Candidates, found: int, pool: WindowPool, lists: QueryLists,
    records: Records, changes: ChangeRows, space: _Space,
) -> tuple[QueryLists, ChangeRows, _Space]:  # fmt: skip
    """Replay a span for one query, with as many refills of its list as it takes. ``lists``, ``changes`` and ``space`` may move."""
    q, key, k, st, work = query.asked.number, span.key, query.asked.k, space.progress.places, space.search.work
    read = work[ROWS_READ]
    while True:
        ranked = _list_at(lists, q, key, space)
        if span.timed:
            changes, stop = replay(query.asked, span, block, candidates, found, span.end, ranked, space.progress, records, changes)
            short = stop == REFILL
        else:
            changes, short = replay_plain(query.asked, span, block.time, candidates, found, ranked, space.progress, records, changes)
        if not short:
            break
        cost = (work[ROWS_READ] - read + (pool.tail[key] - pool.head[key]) // LEAF) // 64
        limit = max(st[SIZE] + 1, fitted(st[LIMIT], max(8 * k + 64, cost), st[VISITS], cost))
        st[LIMIT], st[VISITS], read = limit, 0, work[ROWS_READ]
        if 2 * limit + 2 > lists.room[q, key]:
            lists = moved_list(lists, q, key, st[SIZE], 2 * limit + 2)
        space = _space_for_lists(space, 2 * limit + 1)
        found, candidates = _refill(query, span, pool, _list_at(lists, q, key, space), space), space.candidates
    return lists, changes, space


@jit
def _end_replay(query: LinearQuery, span: Span, lists: QueryLists, records: Records, space: _Space) -> None:
    """Keep what the next block goes on from."""
    q, key, micros = query.asked.number, span.key, query.asked.micros
    st = space.progress.places
    size = st[SIZE]
    lists.size[q, key], lists.limit[q, key], lists.cutoff[q, key] = size, st[LIMIT], space.progress.cutoff[0]
    lists.cut[q, key], lists.full[q, key] = st[CUT], st[FULL]
    if not span.timed:
        lists.oldest[q, key] = st[AT]
        return
    ranked = _list_at(lists, q, key, space)
    o = oldest(ranked.seq, min(query.asked.k, size))
    lists.oldest[q, key] = ranked.seq[o] if o >= 0 else NO_SEQ
    expiry = ranked.time[o] + micros if o >= 0 and micros < UNBOUNDED else NEVER
    records.wake[q, key] = min(expiry, records.due[q, key])


@jit
def replay_queries(
    table: QueryTable, block: Block, pool: WindowPool, block_candidates: BlockCandidates, lists: QueryLists, records: Records, until: int,
    work: I64,
) -> tuple[ChangeRows, int, QueryLists]:  # fmt: skip
    """Replay a block, already in the window, for every query and key: change rows and their number, and the lists, whose pool may have
    moved.

    Events at instants before ``until`` are taken; ``work`` see ``REFILLS``. O(1) per query and key that nothing concerns, O(k) per
    change; without candidates also O(d) per row and query.
    """
    changes, space = change_rows(1024), _space_for(block, work)
    indexed, deletes = len(block_candidates.begin) > 0, len(pool.ended_by) > 0
    for q in range(len(table.k)):
        query = query_of(table, q)
        timed = query.asked.micros < UNBOUNDED or query.asked.every > 0 or deletes
        for g in range(len(block.keys)):
            span = Span(
                block.keys[g], block.begin[g], block.end[g], block.first_seq[g], block.deletion_end[g], until, timed
            )  # fmt: skip
            key, candidates = span.key, space.candidates
            if indexed:
                a, b = block_candidates.begin[q], block_candidates.begin[q + 1]
                found, candidates = b - a, Candidates(block_candidates.rows[a:b], block_candidates.scores[a:b])
            else:
                found = _score_span(query, pool, span, lists.cutoff[q, key], candidates, space.search.chunk)
            arriving = span.end - span.begin
            leaves = lists.oldest[q, key] + query.asked.count < span.first_seq + arriving
            deleted = block.deletion_begin[g] < span.deletions_end
            if found == 0 and not deleted and records.wake[q, key] >= until and not leaves:
                continue
            limit, members = lists.limit[q, key], lists.size[q, key]
            room = min(2 * limit, members + found) + 2 if lists.full[q, key] == 1 else 2 * limit + 2
            if room > lists.room[q, key]:
                lists = moved_list(lists, q, key, members, min(2 * room, 2 * limit + 2))
            space = _space_for_lists(space, 2 * limit + 1)
            _begin_replay(space.progress, query, span, block.deletion_begin[g], lists)
            lists, changes, space = _replay_list(query, span, block, candidates, found, pool, lists, records, changes, space)
            _end_replay(query, span, lists, records, space)
    return changes, space.progress.places[OUT], lists
