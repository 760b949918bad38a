"""One pass that turns a state and a sub-batch's candidates into the next state and its staircase, under a cap per object.

See docs/algorithms Theorem D. As the pass of Theorem C, older objects are visited from the newest on, so that what was kept
before and ranks before a pair also ends no earlier. A pair stays unless that is enough of its objects' pairs, or of pairs that share few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, jit, maker
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.changes import Event, difference, ensure_capacity
from skyband.operators.pair_rows.kernels.lists import copy_pairs, oldest, ranks_before
from skyband.operators.pair_rows.kernels.replay import arrived_by, next_moment, report, write_boundary
from skyband.operators.pair_rows.kernels.skyband import below, push, sift, store
from skyband.operators.pair_rows.kernels.sub_batch import ChangeBuffer, group_by_arrival
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    ORDER_MASK,
    Bucket,
    Candidates,
    ChangeRows,
    History,
    Lists,
    Pairs,
    Queries,
    Replay,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    new_pairs,
    new_skyband,
    part,
)

# What the kernels of a cap per object work on beside the tables of ``pair_rows.kernels``.


class Buffers(NamedTuple):
    """Buffers of one call, grown as needed; what they hold means nothing between two kernels, but ``marks`` is all 0."""

    pool: Pairs
    """A heap of pairs by rank: what a walk chooses from."""
    merged: Skyband
    """The next skyband of a key."""
    bars: F64
    """float64: heaps of ``of_object`` scores, one for every object that is in as many pairs: its best."""
    marks: I64
    """int64 (objects held,): what is known of the object at each place of a key's history."""
    chosen: Pairs
    """``Limits.chosen`` pairs, no object in more than ``each``, by score."""
    ranked_score: F64
    """float64: pairs of one older object, by rank."""
    ranked_newer: I64
    """int64, likewise."""


@maker
def new_buffers(limits: Limits, sub_batch: int, pairs: int, objects: int) -> Buffers:
    """Return buffers for ``pairs`` of a key (state and candidates) and ``objects`` of its history."""
    ranked = limits.of_object + sub_batch + 1
    return Buffers(
        new_pairs(pairs), new_skyband(pairs), np.empty(2 * pairs + limits.of_object, np.float64), np.zeros(objects, np.int64),
        new_pairs(limits.chosen), np.empty(ranked, np.float64), np.empty(ranked, np.int64),
    )  # fmt: skip


@maker
def ensure_buffers(buffers: Buffers, limits: Limits, sub_batch: int, pairs: int, objects: int) -> Buffers:
    """Return ``buffers``, or larger ones if they are too small."""
    if pairs <= len(buffers.pool.score) and objects <= len(buffers.marks):
        return buffers
    return new_buffers(limits, sub_batch, max(2 * pairs, len(buffers.pool.score)), max(objects, len(buffers.marks)))


class CappedKeeper(NamedTuple):
    """The states of a bucket's keys while it advances, as a keeper of ``driver``."""

    limits: Limits
    sub_batch: int
    """int64: the most arrivals of a sub-batch."""
    skyband: Skyband
    """The arena of the states."""
    end: int
    """int64: its end."""
    buffers: Buffers


@maker
def new_capped_keeper(limits: Limits, settings: Settings, bucket: Bucket) -> CappedKeeper:
    """Return the states of ``bucket`` with buffers for sub-batches."""
    buffers = new_buffers(limits, settings.sub_batch, 1024, 1024)
    return CappedKeeper(limits, settings.sub_batch, bucket.skyband, bucket.skyband_end, buffers)


@inner
def bar_of(limits: Limits, mark: int, bars: F64) -> float:
    """Return the score from which on the object with ``mark`` has enough pairs."""
    return float(bars[(-1 - mark) * limits.of_object]) if mark < 0 else np.inf


@inner
def admit(limits: Limits, bar: float, score: float, newer: int, ranked: int, first_stored: int, buffers: Buffers) -> int:
    """Put a pair into ``buffers.ranked_score`` and ``ranked_newer`` by rank unless it reaches ``bar`` or its newer object has enough pairs;
    returns how many there are."""
    if not (score < bar or (bar == np.inf and score == score)):
        return ranked
    mark = buffers.marks[(newer >> 1) - first_stored]
    if mark < 0 and score >= bar_of(limits, mark, buffers.bars):
        return ranked
    sift(buffers.ranked_score, buffers.ranked_newer, ranked, score, newer)
    return ranked + 1


@inner
def rank_group(
    limits: Limits, older: int, bar: float, at: int, seen: int, first_stored: int, batch: SubBatch, candidates: Candidates,
    skyband: Skyband, buffers: Buffers,
) -> tuple[int, int, int]:  # fmt: skip
    """Collect the pairs of one older object that are admitted.

    Return how many, and the next places of the skyband and of the candidates.
    """
    ranked = 0
    if older >= batch.first_seq:
        arrival = older - batch.first_seq
        for i in range(arrival + 1, batch.size):
            ranked = admit(limits, bar, batch.scores[i, arrival], batch.newer[i], ranked, first_stored, buffers)
        return ranked, at, seen
    while at < len(skyband.older) and skyband.older[at] == older:
        ranked = admit(limits, bar, skyband.score[at], skyband.newer[at], ranked, first_stored, buffers)
        at += 1
    while seen < candidates.found:
        x = candidates.order[seen] & ORDER_MASK
        if candidates.older[x] != older:
            break
        ranked = admit(limits, bar, candidates.score[x], batch.newer[candidates.arrival[x]], ranked, first_stored, buffers)
        seen += 1
    return ranked, at, seen


@inner
def choose(limits: Limits, chosen: Pairs, count: int, score: float, older: int, newer: int) -> tuple[int, int]:
    """Offer a pair to those chosen (no object in more than ``limits.each``), which only get better; return how many they are, and 1 if it
    is one of them.

    O(chosen). Its older object is in fewer than ``limits.each``.
    """
    scores, olders, newers = chosen.score, chosen.older, chosen.newer
    of_newer, last, y = 0, 0, newer >> 1
    for i in range(count):
        if olders[i] == y or newers[i] >> 1 == y:
            of_newer += 1
            last = i
    if of_newer == limits.each:
        if scores[last] <= score:
            return count, 0
        i = last
    elif count == limits.chosen:
        if scores[count - 1] <= score:
            return count, 0
        i = count - 1
    else:
        i = count
        count += 1
    while i > 0 and scores[i - 1] > score:
        scores[i], olders[i], newers[i] = scores[i - 1], olders[i - 1], newers[i - 1]
        i -= 1
    scores[i], olders[i], newers[i] = score, older, newer
    return count, 1


@inner
def count_pair(limits: Limits, place: int, first_stored: int, merged: Skyband, length: int, marks: I64, bars: F64, heaps: int) -> int:
    """Note that the last of the first ``length`` pairs of ``merged`` has the object at ``place`` of the history; return how many heaps.

    ``marks``: how many pairs an object has, and from ``of_object`` on -1 - the number of its heap. O(log D), once O(length).
    """
    most = limits.of_object
    mark = marks[place]
    if mark < 0:
        heap = bars[(-1 - mark) * most : -mark * most]
        push(heap, most, most, merged.score[length - 1])
    elif mark + 1 < most:
        marks[place] = mark + 1
    else:
        heap, held = bars[heaps * most : (heaps + 1) * most], 0
        for i in range(length):
            if merged.older[i] - first_stored == place or (merged.newer[i] >> 1) - first_stored == place:
                held = push(heap, held, most, merged.score[i])
        marks[place] = -1 - heaps
        heaps += 1
    return heaps


@inner
def merge(
    limits: Limits, first_alive: int, first_stored: int, batch: SubBatch, candidates: Candidates, skyband: Skyband, buffers: Buffers
) -> int:
    """Write the new state of pairs with older seq >= ``first_alive`` and its staircase to ``buffers.merged``; returns its length."""
    merged, marks, bars, chosen = buffers.merged, buffers.marks, buffers.bars, buffers.chosen
    ranked_score, ranked_newer = buffers.ranked_score, buffers.ranked_newer
    length, heaps, count, bar = 0, 0, 0, np.inf  # bar: the score from which on there are enough chosen pairs
    arrival, at, seen = batch.size - 1, 0, 0
    while True:
        if arrival >= 0:
            older = batch.first_seq + arrival
            arrival -= 1
        else:
            older = -1
            if at < len(skyband.older):
                older = skyband.older[at]
            if seen < candidates.found:
                older = max(older, candidates.older[candidates.order[seen] & ORDER_MASK])
        if older < first_alive or older < 0:
            break
        limit = bar if count == limits.chosen else np.inf
        ranked, at, seen = rank_group(limits, older, limit, at, seen, first_stored, batch, candidates, skyband, buffers)
        x, of_older = older - first_stored, 0
        for i in range(ranked):
            score, newer = ranked_score[i], ranked_newer[i]
            y = (newer >> 1) - first_stored
            if (count == limits.chosen and score >= bar) or (marks[x] < 0 and score >= bar_of(limits, marks[x], bars)):
                break
            if of_older < limits.each:  # those of the older object rank before this pair, and so stay
                count, entered = choose(limits, chosen, count, score, older, newer)
                of_older += entered
            if count == limits.chosen:
                bar = chosen.score[count - 1]
            merged.score[length], merged.older[length], merged.newer[length] = score, older, newer
            merged.stair[length] = below(bar) if count == limits.chosen else np.inf
            length += 1
            heaps = count_pair(limits, x, first_stored, merged, length, marks, bars, heaps)
            heaps = count_pair(limits, y, first_stored, merged, length, marks, bars, heaps)
    for i in range(length):
        marks[merged.older[i] - first_stored] = 0
        marks[(merged.newer[i] >> 1) - first_stored] = 0
    return length


@maker
def pairs_of(sources: Sources) -> int:
    """Return an upper bound of the pairs in ``sources``."""
    size = sources.batch.size
    return int(len(sources.skyband.score) + sources.candidates.found + size * (size - 1) // 2)


@maker
def merge_sub_batch(keeper: CappedKeeper, keys: I64, key: int, history: History, first_alive: int, sources: Sources) -> CappedKeeper:
    """Make the sub-batch part of the key's state; ``first_alive`` after its last arrival."""
    limits, first_stored = keeper.limits, keys[key, FIRST_STORED]
    buffers = ensure_buffers(keeper.buffers, limits, keeper.sub_batch, pairs_of(sources), len(history.times))
    keys[key, FIRST_ALIVE] = first_alive
    length = merge(limits, first_alive, first_stored, sources.batch, sources.candidates, sources.skyband, buffers)
    skyband, end = store(keys, key, buffers.merged, length, keeper.skyband, keeper.end)
    return CappedKeeper(limits, keeper.sub_batch, skyband, end, buffers)


# The result by a greedy walk: pairs in rank order, passing over those with an object that is in ``cap`` taken pairs already.


@inner
def put(pool: Pairs, at: int, score: float, older: int, newer: int) -> None:
    """Write one pair."""
    pool.score[at], pool.older[at], pool.newer[at] = score, older, newer


@inner
def collect_stored(pool: Pairs, worst: float, first_alive: int, skyband: Skyband) -> int:
    """Write what a skyband has with older seq >= ``first_alive`` and score <= ``worst`` to ``pool``, in no order; return how many."""
    scores, olders, newers = skyband.score, skyband.older, skyband.newer
    count = 0
    for i in range(len(olders)):
        if olders[i] < first_alive:
            break
        if scores[i] <= worst:
            put(pool, count, scores[i], olders[i], newers[i])
            count += 1
    return count


@inner
def collect(pool: Pairs, worst: float, first_alive: int, arrived: int, sources: Sources) -> int:
    """Write the pairs of the skyband and of the first ``arrived`` arrivals, as ``collect_stored``. O(skyband + candidates)."""
    batch, candidates = sources.batch, sources.candidates
    scores, newer = batch.scores, batch.newer
    found_score, found_older, found_arrival = candidates.score, candidates.older, candidates.arrival
    count = collect_stored(pool, worst, first_alive, sources.skyband)
    for i in range(arrived):
        for j in range(max(first_alive - batch.first_seq, 0), i):
            if scores[i, j] <= worst:
                put(pool, count, scores[i, j], batch.first_seq + j, newer[i])
                count += 1
    for c in range(candidates.found):
        if found_score[c] <= worst and found_arrival[c] < arrived and found_older[c] >= first_alive:
            put(pool, count, found_score[c], found_older[c], newer[found_arrival[c]])
            count += 1
    return count


@inner
def sink(pool: Pairs, count: int, hole: int, score: float, older: int, newer: int) -> None:
    """Put a pair into the heap of the first ``count`` at ``hole`` or below it. O(log count)."""
    scores, olders, newers = pool.score, pool.older, pool.newer
    i = hole
    while True:
        child = 2 * i + 1
        if child >= count:
            break
        right = child + 1
        if right < count and ranks_before(
            scores[right], olders[right], newers[right], scores[child], olders[child], newers[child]
        ):  # fmt: skip
            child = right
        if not ranks_before(scores[child], olders[child], newers[child], score, older, newer):
            break
        scores[i], olders[i], newers[i] = scores[child], olders[child], newers[child]
        i = child
    scores[i], olders[i], newers[i] = score, older, newer


@jit(_nrt=False)  # as ``inner``, but called from Python, too
def walk(pool: Pairs, count: int, k: int, cap: int, first_stored: int, marks: I64, best: Pairs) -> int:
    """Fill ``best`` with the result of the first ``count`` pairs of ``pool`` (which loses its order); returns how many it has.

    ``marks``: 0 for every object, of which that of seq s is at place s - ``first_stored``. O(count + (k + passed over) log count).
    """
    scores, olders, newers = pool.score, pool.older, pool.newer
    for i in range(count // 2 - 1, -1, -1):
        sink(pool, count, i, scores[i], olders[i], newers[i])
    taken = 0
    while count > 0 and taken < k:
        score, older, newer = scores[0], olders[0], newers[0]
        count -= 1
        if count > 0:
            sink(pool, count, 0, scores[count], olders[count], newers[count])
        x, y = older - first_stored, (newer >> 1) - first_stored
        if marks[x] < cap and marks[y] < cap:
            marks[x] += 1
            marks[y] += 1
            put(best, taken, score, older, newer)
            taken += 1
    for i in range(taken):
        marks[best.older[i] - first_stored] = 0
        marks[(best.newer[i] >> 1) - first_stored] = 0
    return taken


# Replaying a sub-batch for one query with a cap per object: which events change its result, and the change rows they write.
#
# Visited are arrivals with a candidate that reaches the last pair taken, expiries of taken pairs, and boundaries. A pair behind the last
# one taken is never come to, and one that was passed over leaves without a trace, so nothing else can change the result. What is visited is
# walked again: one change at the front can let others in and out all the way down.


@inner
def fill_lists(
    limits: Limits, queries: Queries, history: History, upto: int, instant: int, skyband: Skyband, lists: Lists, buffers: Buffers
) -> None:
    """Fill every query's result as of ``instant`` from a key's state; the objects before seq ``upto`` have arrived."""
    for query in range(len(queries.k)):
        first_alive = alive_from(history, upto, instant, queries.window_count[query], queries.window_micros[query])
        count = collect_stored(buffers.pool, queries.worst[query], first_alive, skyband)
        best = part(lists.best, queries.list_start[query], queries.k[query])
        lists.length[query] = walk(buffers.pool, count, queries.k[query], limits.cap, history.first_stored, buffers.marks, best)


@maker
def fill_from_state(
    keeper: CappedKeeper, queries: Queries, history: History, upto: int, instant: int, skyband: Skyband, lists: Lists
) -> CappedKeeper:
    """Return the keeper with enough room for a key, and fill the results of its queries as ``fill_lists`` does."""
    limits, sub_batch = keeper.limits, keeper.sub_batch
    buffers = ensure_buffers(keeper.buffers, limits, sub_batch, len(skyband.score), len(history.times))
    fill_lists(limits, queries, history, upto, instant, skyband, lists, buffers)
    return CappedKeeper(limits, sub_batch, keeper.skyband, keeper.end, buffers)


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
def replay_query(
    replay: Replay, limits: Limits, buffers: Buffers, query: int, arrived: int, rows: ChangeRows, written: int
) -> tuple[int, int, bool]:
    """Process the events of a sub-batch, as ``replay.replay_query``; a visited event costs O(skyband + candidates)."""
    key, queries, history, sources, lists, progress = (
        replay.key, replay.queries, replay.history, replay.sources, replay.lists, replay.progress,
    )  # fmt: skip
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
            written = write_boundary(replay, query, best, length, rows, written)
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
def replay_queries(keeper: CappedKeeper, replay: Replay, changes: ChangeBuffer) -> tuple[CappedKeeper, ChangeBuffer]:
    """Replay the sub-batch for every query."""
    rows, written, k, limits = changes.rows, changes.written, replay.queries.k, keeper.limits
    buffers = ensure_buffers(keeper.buffers, limits, keeper.sub_batch, pairs_of(replay.sources), len(replay.history.times))
    group_by_arrival(replay.sources.batch, replay.sources.candidates)
    for query in range(len(k)):
        arrived, done = 0, False
        while not done:
            rows = ensure_capacity(rows, written, 2 * k[query])
            arrived, written, done = replay_query(replay, limits, buffers, query, arrived, rows, written)
    return CappedKeeper(limits, keeper.sub_batch, keeper.skyband, keeper.end, buffers), ChangeBuffer(rows, written)
