"""A driver that takes candidates from pairs that shards found, instead of searching for them (docs/algorithms D6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.lists import fill_lists
from skyband.operators.pair_rows.kernels.sub_batch import (
    Skybands,
    merge_sub_batch,
    new_scratch,
    next_sub_batch,
    no_changes,
    no_lists,
    replay_queries,
    wake_times,
)
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FOUND,
    ORDER_BITS,
    Advance,
    Bucket,
    Candidates,
    ChangeRows,
    Progress,
    Queries,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    history_of,
    new_candidates,
    new_skyband,
    new_sub_batch,
    skyband_of,
    with_found,
)


class FoundRows(NamedTuple):
    """Pairs that shards found of the arrivals of an ``Advance``, in any order."""

    row: I64
    """int64 (pairs,): the row of the newer object among the arrivals, which are in the order of ``Advance.keys`` and seqs."""
    older: I64
    """int64 (pairs,)."""
    score: F64
    """float64 (pairs,)."""
    first_row: I64
    """int64 (m + 1,): the row of the first arrival of each of ``Advance.keys``, and the number of all arrivals."""


class Grouped(NamedTuple):
    """Pairs by arrival."""

    start: I64
    """int64 (arrivals + 1,): where the pairs of each arrival start."""
    older: I64
    """int64 (pairs,)."""
    score: F64
    """float64 (pairs,)."""


@maker
def by_arrival(found: FoundRows) -> Grouped:
    """Return the pairs by arrival. O(arrivals + pairs)."""
    arrivals, pairs = found.first_row[-1], len(found.row)
    grouped = Grouped(np.zeros(arrivals + 1, np.int64), np.empty(pairs, np.int64), np.empty(pairs, np.float64))
    start = grouped.start
    for i in range(pairs):
        start[found.row[i]] += 1
    for row in range(1, arrivals + 1):
        start[row] += start[row - 1]
    for i in range(pairs - 1, -1, -1):
        start[found.row[i]] -= 1
        at = start[found.row[i]]
        grouped.older[at], grouped.score[at] = found.older[i], found.score[i]
    return grouped


@inner
def note_best(batch: SubBatch, arrival: int, score: float) -> None:
    """Make ``score`` the best one of an arrival if it is better."""
    if score < batch.best[arrival] or batch.best[arrival] != batch.best[arrival]:
        batch.best[arrival] = score


@inner
def fill_candidates(grouped: Grouped, row: int, batch: SubBatch, candidates: Candidates) -> int:
    """Fill ``batch.best`` and the candidates, which have room, with the pairs of a sub-batch whose first arrival has ``row``. Return how
    many there are. Each has an older object as a sort key in ``candidates.order``."""
    count, behind = 0, batch.first_seq + batch.size
    for arrival in range(batch.size):
        batch.best[arrival] = np.nan
        for at in range(grouped.start[row + arrival], grouped.start[row + arrival + 1]):
            candidates.score[count], candidates.older[count] = grouped.score[at], grouped.older[at]
            candidates.arrival[count] = arrival
            candidates.order[count] = ((behind - grouped.older[at]) << ORDER_BITS) | count
            count += 1
            note_best(batch, arrival, grouped.score[at])
    return count


@maker
def take_pairs(grouped: Grouped, row: int, batch: SubBatch, candidates: Candidates, work: I64) -> Candidates:
    """Return the candidates of a sub-batch whose first arrival has ``row``, those with another of its arrivals among them."""
    more = grouped.start[row + batch.size] - grouped.start[row]
    if more > len(candidates.score):
        candidates = new_candidates(2 * more)
    count = fill_candidates(grouped, row, batch, candidates)
    candidates.order[:count].sort()
    work[FOUND] += count
    return with_found(candidates, count)


def drive_found(
    settings: Settings, found: FoundRows, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64
) -> tuple[ChangeRows, int, Skyband, int]:
    """Process all events of ``advance``, whose arrivals are in the windows' arena already and have the pairs ``found``.

    Return change rows and their number, the skybands' (perhaps new) arena and its end. Writes to the key table, ``progress`` and ``work``
    (int64 (COUNTERS,)). O(pairs + skyband) per sub-batch with pairs.
    """
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    changes, lists, grouped = no_changes(), no_lists(queries), by_arrival(found)
    batch = new_sub_batch(settings.sub_batch, 0, objects.floats.shape[0], objects.integers.shape[0])
    candidates, scratch = new_candidates(1024), new_scratch(settings)
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        fill_lists(queries, history, seq, advance.since - 1, skyband_of(keys, key, skybands.skyband), lists)
        while True:
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            row = found.first_row[g] + seq - advance.first_new[g]
            candidates = take_pairs(grouped, row, batch, candidates, work)
            sources = Sources(batch, candidates, skyband_of(keys, key, skybands.skyband))
            changes = replay_queries(key, queries, history, sources, lists, progress, changes, work)
            if candidates.found > 0:
                skybands = merge_sub_batch(settings, keys, key, first_alive, sources, skybands, scratch)
            else:
                keys[key, FIRST_ALIVE] = first_alive
            seq += batch.size
            if batch.last:
                break
        wake_times(key, queries, history, lists, progress)
    return changes.rows, changes.written, skybands.skyband, skybands.end
