"""The driver: one call takes a whole ``advance`` of every key that has arrivals or is due, sub-batch by sub-batch.

It is compiled once; the pairs' condition comes in as first-class functions.
"""

from __future__ import annotations

from collections.abc import Callable

from skyband.operators.base import I64
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
    FIRST_STORED,
    REGION_START,
    Advance,
    Bucket,
    ChangeRows,
    Progress,
    Queries,
    Settings,
    Skyband,
    Sources,
    history_of,
    new_candidates,
    new_skyband,
    new_sub_batch,
    skyband_of,
)
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index, new_lookup, new_staircase
from skyband.operators.topk_similar_sets.kernels.search import BatchPosition, SearchCriteria, SearchInput, SearchTables, search


def drive(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, criteria: SearchCriteria, queries: Queries,
    bucket: Bucket, progress: Progress, advance: Advance, sets: ArrivingSets, index: Index, work: I64, counters: I64,
) -> tuple[ChangeRows, int, Skyband, int, Index]:  # fmt: skip
    """Take all events of ``advance``, whose arrivals ``sets`` are in the windows' arena already.

    ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an arrival on that side. Returns the change rows and their number,
    the skybands' arena and its end, and the index; arena and index may be new arrays. Writes to the key table, ``progress``, ``work``
    (int64 (COUNTERS,)) and ``counters`` (int64 (PROBED,)).
    """
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    changes, lists = no_changes(), no_lists(queries)
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    scratch = new_scratch(settings)
    reads = SearchInput(settings, criteria, keys, objects, sets.tokens)
    tables = SearchTables(index, new_lookup(sets.largest), new_staircase(1024), new_candidates(1024))
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        fill_lists(queries, history, seq, advance.since - 1, skyband_of(keys, key, skybands.skyband), lists)
        while True:
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            skyband = skyband_of(keys, key, skybands.skyband)
            position = BatchPosition(key, sets.first_row[g] + seq - advance.first_new[g], offset, advance.since - 1)
            tables = search(test_as_a, test_as_b, reads, position, batch, skyband, tables, work, counters)
            sources = Sources(batch, tables.candidates, skyband)
            changes = replay_queries(key, queries, history, sources, lists, progress, changes, work)
            if batch.size > 0:
                skybands = merge_sub_batch(settings, keys, key, first_alive, sources, skybands, scratch)
            seq += batch.size
            if batch.last:
                break
        wake_times(key, queries, history, lists, progress)
    return changes.rows, changes.written, skybands.skyband, skybands.end, tables.inverted_index
