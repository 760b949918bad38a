"""The driver with a cap per object: ``drive`` with results by a greedy walk and a state of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.capped.kernels import ensure_buffers, fill_lists, merge_sub_batch, new_buffers, pairs_of, replay_queries
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.found import FoundRows, Grouped, by_arrival, note_best
from skyband.operators.pair_rows.kernels.sub_batch import next_sub_batch, no_changes, no_lists, wake_times
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    FOUND,
    ORDER_BITS,
    REGION_START,
    Advance,
    Bucket,
    Candidates,
    ChangeRows,
    Progress,
    Queries,
    Scoring,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    history_of,
    new_candidates,
    new_sub_batch,
    skyband_of,
    with_found,
)
from skyband.operators.pair_rows.zone_maps.kernels import Zones
from skyband.operators.topk_pairs.kernels.partners import new_blocks, scan

# The driver with a cap per object that takes pairs that shards found: ``drive_capped`` without a search.


@inner
def divide(grouped: Grouped, row: int, batch: SubBatch, candidates: Candidates) -> int:
    """Fill ``batch.scores`` with the pairs of two arrivals of a sub-batch whose first has ``row``, and the candidates with its others.

    Return how many candidates there are. O(arrivals^2 + pairs).
    """
    count, first = 0, batch.first_seq
    for arrival in range(batch.size):
        batch.best[arrival] = np.nan
        for j in range(arrival):
            batch.scores[arrival, j] = np.nan
        for at in range(grouped.start[row + arrival], grouped.start[row + arrival + 1]):
            score, older = grouped.score[at], grouped.older[at]
            note_best(batch, arrival, score)
            if older >= first:
                batch.scores[arrival, older - first] = score
                continue
            candidates.score[count], candidates.older[count], candidates.arrival[count] = score, older, arrival
            candidates.order[count] = ((first - older) << ORDER_BITS) | count
            count += 1
    return count


@maker
def take_divided(grouped: Grouped, row: int, batch: SubBatch, candidates: Candidates, work: I64) -> Candidates:
    """Return the candidates of a sub-batch whose first arrival has ``row``; fill ``batch.scores``."""
    more = grouped.start[row + batch.size] - grouped.start[row]
    if more > len(candidates.score):
        candidates = new_candidates(2 * more)
    count = divide(grouped, row, batch, candidates)
    candidates.order[:count].sort()
    work[FOUND] += count
    return with_found(candidates, count)


def drive_capped_found(
    settings: Settings, limits: Limits, found: FoundRows, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64
) -> tuple[ChangeRows, int, Skyband, int]:
    """Process all events of ``advance``, whose arrivals have the pairs ``found``; see ``drive_found``."""
    keys, objects = bucket.keys, bucket.objects
    arena, end = bucket.skyband, bucket.skyband_end
    changes, lists, grouped = no_changes(), no_lists(queries), by_arrival(found)
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    candidates, buffers = new_candidates(1024), new_buffers(limits, settings.sub_batch, 1024, 1024)
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history, skyband = history_of(keys, key, objects.times), skyband_of(keys, key, arena)
        buffers = ensure_buffers(buffers, limits, settings.sub_batch, len(skyband.score), len(history.times))
        fill_lists(limits, queries, history, seq, advance.since - 1, skyband, lists, buffers)
        while True:
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            row = found.first_row[g] + seq - advance.first_new[g]
            candidates = take_divided(grouped, row, batch, candidates, work)
            sources = Sources(batch, candidates, skyband_of(keys, key, arena))
            buffers = ensure_buffers(buffers, limits, settings.sub_batch, pairs_of(sources), len(history.times))
            changes = replay_queries(key, limits, queries, history, sources, lists, buffers, progress, changes)
            if grouped.start[row + batch.size] > grouped.start[row]:
                arena, end = merge_sub_batch(limits, keys, key, first_alive, sources, arena, end, buffers)
            else:
                keys[key, FIRST_ALIVE] = first_alive
            seq += batch.size
            if batch.last:
                break
        wake_times(key, queries, history, lists, progress)
    return changes.rows, changes.written, arena, end


def drive_capped(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, settings: Settings, limits: Limits, queries: Queries,
    bucket: Bucket, progress: Progress, advance: Advance, work: I64,
) -> tuple[ChangeRows, int, Skyband, int, int]:  # fmt: skip
    """Process all events of ``advance``; see ``drive``."""
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, bucket.objects.pool)
    keys, objects = bucket.keys, bucket.objects
    arena, end = bucket.skyband, bucket.skyband_end
    changes, lists = no_changes(), no_lists(queries)
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    candidates, blocks = new_candidates(1024), new_blocks(zones, settings.sub_batch, settings.costly)
    buffers, seq = new_buffers(limits, settings.sub_batch, 1024, 1024), 0
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        skyband = skyband_of(keys, key, arena)
        buffers = ensure_buffers(buffers, limits, settings.sub_batch, len(skyband.score), len(history.times))
        fill_lists(limits, queries, history, seq, advance.since - 1, skyband, lists, buffers)
        while True:
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            skyband = skyband_of(keys, key, arena)
            candidates = scan(scoring, objects, offset, zones, batch, skyband, np.inf, candidates, blocks, work)
            sources = Sources(batch, candidates, skyband)
            buffers = ensure_buffers(buffers, limits, settings.sub_batch, pairs_of(sources), len(history.times))
            changes = replay_queries(key, limits, queries, history, sources, lists, buffers, progress, changes)
            if batch.size > 0:
                arena, end = merge_sub_batch(limits, keys, key, first_alive, sources, arena, end, buffers)
            seq += batch.size
            if batch.last:
                break
        wake_times(key, queries, history, lists, progress)
    return changes.rows, changes.written, arena, end, seq
