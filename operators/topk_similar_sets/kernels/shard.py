"""The driver of a shard: as ``drive``, without queries; sets of other shards' arrivals go into the index without a search."""

from __future__ import annotations

from collections.abc import Callable

from skyband.operators.base import I64
from skyband.operators.pair_rows.kernels.fresh import new_near, send_fresh
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows, add_found, end_of_block, new_shard_rows, next_own, pass_over
from skyband.operators.pair_rows.kernels.sub_batch import Skybands, merge_sub_batch, new_scratch, next_sub_batch
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_STORED,
    NEXT_SEQ,
    REGION_START,
    Advance,
    Bucket,
    Settings,
    Skyband,
    Sources,
    history_of,
    new_candidates,
    new_skyband,
    new_sub_batch,
    skyband_of,
)
from skyband.operators.set_index.kernels.arrive import put_range
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index, new_lookup, new_staircase
from skyband.operators.topk_similar_sets.kernels.search import BatchPosition, SearchCriteria, SearchInput, SearchTables, search


def drive_shard(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, criteria: SearchCriteria, own: OwnBlocks,
    bucket: Bucket, advance: Advance, sets: ArrivingSets, index: Index, work: I64, counters: I64,
) -> tuple[ShardRows, int, Skyband, int, Index]:  # fmt: skip
    """Find the pairs of the arrivals of ``advance`` that are the shard's; all are in the windows' arena already.

    Return the pairs and their number, the skybands' arena and its end, and the index; arena and index may be new arrays. Other arguments as
    of ``drive``.
    """
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    scratch, instant = new_scratch(settings), advance.since - 1
    reads = SearchInput(settings, criteria, keys, objects, sets.tokens)
    tables = SearchTables(index, new_lookup(sets.largest), new_staircase(1024), new_candidates(1024))
    near, rows, written = new_near(settings.keep_k, 1024), new_shard_rows(1024), 0
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        stop, row = keys[key, NEXT_SEQ], sets.first_row[g] - seq
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        while seq < stop:
            mine = min(stop, next_own(own, key, seq))
            inverted_index = put_range(
                settings, keys, objects, key, seq, mine, row + seq, sets.tokens, instant, tables.inverted_index, tables.lookup
            )  # fmt: skip
            tables, seq = SearchTables(inverted_index, tables.lookup, tables.staircase, tables.candidates), mine
            if seq == stop:
                break
            keys[key, NEXT_SEQ] = min(stop, end_of_block(own, seq))
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            keys[key, NEXT_SEQ] = stop
            skyband = skyband_of(keys, key, skybands.skyband)
            position = BatchPosition(key, row + seq, offset, instant)
            tables = search(test_as_a, test_as_b, reads, position, batch, skyband, tables, work, counters)
            if settings.keep_k > own.block:  # then hardly a pair is dominated by those of near objects
                rows, written = add_found(key, batch, tables.candidates, rows, written)
            else:
                first = seq - (own.of - 1) * own.block
                near, rows, written = send_fresh(key, first, batch, tables.candidates, skyband, near, rows, written)
            skybands = merge_sub_batch(settings, keys, key, first_alive, Sources(batch, tables.candidates, skyband), skybands, scratch)
            seq += batch.size
        pass_over(settings, keys, key, history)
    return rows, written, skybands.skyband, skybands.end, tables.inverted_index
