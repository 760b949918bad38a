"""Replaying a sub-batch for one query with a cap per object: which events change its result, and the change rows they write.

Visited are arrivals with a candidate that reaches the last pair taken, expiries of taken pairs, and boundaries. A pair behind the last one
taken is never come to, and one that was passed over leaves without a trace, so nothing else can change the result. What is visited is
walked again: one change at the front can let others in and out all the way down.
"""

from __future__ import annotations

from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.capped.kernels.tables import Buffers
from skyband.operators.pair_rows.capped.kernels.walk import collect, collect_stored, walk
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.changes import Event, difference, ensure_capacity
from skyband.operators.pair_rows.kernels.lists import copy_pairs, oldest, ranks_before
from skyband.operators.pair_rows.kernels.replay import arrived_by, next_moment, report, write_boundary
from skyband.operators.pair_rows.kernels.sub_batch import ChangeBuffer, group_by_arrival
from skyband.operators.pair_rows.kernels.tables import ChangeRows, History, Lists, Pairs, Progress, Queries, Skyband, Sources, part


@inner
def fill_lists(
    limits: Limits, queries: Queries, history: History, upto: int, instant: int, skyband: Skyband, lists: Lists, buffers: Buffers
) -> None:
    """Fill every query's result as of ``instant`` from the skyband; the objects before seq ``upto`` have arrived."""
    for query in range(len(queries.k)):
        first_alive = alive_from(history, upto, instant, queries.window_count[query], queries.window_micros[query])
        count = collect_stored(buffers.pool, queries.worst[query], first_alive, skyband)
        best = part(lists.best, queries.list_start[query], queries.k[query])
        lists.length[query] = walk(buffers.pool, count, queries.k[query], limits.cap, history.first_stored, buffers.marks, best)


@inner
def has_room(best: Pairs, length: int, cap: int, score: float, older: int, newer: int) -> bool:
    """Return True if the older object of a pair is in fewer than ``cap`` of the taken pairs that rank before it."""
    count = 0
    for i in range(length):
        if best.older[i] == older or best.newer[i] >> 1 == older:
            if not ranks_before(best.score[i], best.older[i], best.newer[i], score, older, newer):
                break
            count += 1
    return count < cap


@inner
def enters(best: Pairs, length: int, cap: int, bar: float, first_alive: int, i: int, sources: Sources) -> bool:
    """Return True if a pair of arrival i with score <= ``bar`` can be taken; if not, all of them are passed over. O(its candidates k)."""
    batch, candidates = sources.batch, sources.candidates
    row, newer = batch.scores[i], batch.newer[i]
    for j in range(max(first_alive - batch.first_seq, 0), i):
        if row[j] <= bar and has_room(best, length, cap, row[j], batch.first_seq + j, newer):
            return True
    for at in range(batch.start[i], batch.start[i + 1]):
        c = candidates.grouped[at]
        score, older = candidates.score[c], candidates.older[c]
        if score <= bar and older >= first_alive and has_room(best, length, cap, score, older, newer):
            return True
    return False


@inner
def replay(
    query: int, key: int, arrived: int, limits: Limits, queries: Queries, history: History, sources: Sources, lists: Lists,
    buffers: Buffers, progress: Progress, rows: ChangeRows, written: int,
) -> tuple[int, int, bool]:  # fmt: skip
    """Process the events of a sub-batch, as ``pair_rows.kernels.replay.replay``; a visited event costs O(skyband + candidates)."""
    k, every = queries.k[query], queries.every[query]
    count, micros = queries.window_count[query], queries.window_micros[query]
    worst, start = queries.worst[query], queries.list_start[query]
    best, before = part(lists.best, start, k), part(lists.before, start, k)
    length = lists.length[query]
    batch, first_stored = sources.batch, history.first_stored
    done = False
    while written + 2 * k <= len(rows.score):
        first_out = oldest(best.older, length)
        bar = worst if length < k else best.score[k - 1]
        moment = next_moment(batch, history, arrived, bar, first_out, count, micros)
        next_in, at = moment.next_in, moment.at
        if every > 0 and progress.due[query, key] < at:
            written = write_boundary(query, key, queries, batch.first_seq + batch.size, history, best, length, progress, rows, written)
            continue
        if next_in == batch.size and not moment.expires:
            done = True
            break
        arrived = arrived_by(batch, history, arrived, moment)
        arriving = -1 if moment.expires else batch.first_seq + next_in
        first_alive = alive_from(history, batch.first_seq + arrived, at, count, micros)
        if arriving >= 0 and first_alive <= first_out and not enters(best, length, limits.cap, bar, first_alive, next_in, sources):
            continue
        length_before = length
        copy_pairs(best, length, before)
        length = walk(
            buffers.pool, collect(buffers.pool, worst, first_alive, arrived, sources), k, limits.cap, first_stored, buffers.marks, best
        )
        event = Event(query, key, at, progress.step[query, key] + 1, first_alive, arriving, False, -1)
        end = difference(rows, written, event, before, length_before, best, length)
        written = report(query, key, every, at, written, end, progress)
    lists.length[query] = length
    return arrived, written, done


@maker
def replay_queries(
    key: int,
    limits: Limits,
    queries: Queries,
    history: History,
    sources: Sources,
    lists: Lists,
    buffers: Buffers,
    progress: Progress,
    changes: ChangeBuffer,
) -> ChangeBuffer:
    """Replay the sub-batch for every query."""
    rows, written = changes.rows, changes.written
    group_by_arrival(sources.batch, sources.candidates)
    for query in range(len(queries.k)):
        arrived, done = 0, False
        while not done:
            rows = ensure_capacity(rows, written, 2 * queries.k[query])
            arrived, written, done = replay(
                query, key, arrived, limits, queries, history, sources, lists, buffers, progress, rows, written
            )  # fmt: skip
    return ChangeBuffer(rows, written)
