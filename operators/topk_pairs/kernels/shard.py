"""The drivers of shards: as ``drive`` and ``drive_capped``, without queries, for the arrivals of the shard's share only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64
from skyband.operators.pair_rows.capped.kernels import ensure_buffers, new_buffers, pairs_of
from skyband.operators.pair_rows.capped.kernels import merge_sub_batch as merge_capped
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.fresh import new_near, send_fresh
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows, add_found, end_of_block, new_shard_rows, next_own, pass_over
from skyband.operators.pair_rows.kernels.sub_batch import Skybands, merge_sub_batch, new_scratch, next_sub_batch
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_STORED,
    NEXT_SEQ,
    REGION_START,
    Advance,
    Bucket,
    Progress,
    Queries,
    Scoring,
    Settings,
    Skyband,
    Sources,
    history_of,
    new_candidates,
    new_skyband,
    new_sub_batch,
    skyband_of,
)
from skyband.operators.pair_rows.zone_maps.kernels import Zones
from skyband.operators.topk_pairs.kernels.partners import LARGEST, new_blocks, scan


class CappedShare(NamedTuple):
    """What the driver of capped pairs takes besides the settings."""

    limits: Limits
    """The limits of the state."""
    own: OwnBlocks
    """The shard's arrivals."""


def drive_shard(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, settings: Settings, own: OwnBlocks, _queries: Queries,
    bucket: Bucket, _progress: Progress, advance: Advance, work: I64,
) -> tuple[ShardRows, int, Skyband, int, int]:  # fmt: skip
    """Find the pairs of the arrivals of ``advance`` that are the shard's; all are in the windows' arena already.

    Return the pairs and their number, the skybands' (perhaps new) arena and its end, and the seq before which all is taken. Other arguments
    as of ``drive``.
    """
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, bucket.objects.pool)
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    candidates, scratch, blocks = new_candidates(LARGEST), new_scratch(settings), new_blocks(zones, settings.sub_batch, settings.costly)
    near, rows, written, seq = new_near(settings.keep_k, 1024), new_shard_rows(1024), 0, 0
    for g in range(len(advance.keys)):
        key, stop = advance.keys[g], keys[advance.keys[g], NEXT_SEQ]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        seq = next_own(own, key, advance.first_new[g])
        while seq < stop:
            keys[key, NEXT_SEQ] = min(stop, end_of_block(own, seq))
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            keys[key, NEXT_SEQ] = stop
            skyband = skyband_of(keys, key, skybands.skyband)
            candidates = scan(scoring, objects, offset, zones, batch, skyband, np.inf, candidates, blocks, work)
            near, rows, written = send_fresh(key, seq - (own.of - 1) * own.block, batch, candidates, skyband, near, rows, written)
            sources = Sources(batch, candidates, skyband)
            skybands = merge_sub_batch(settings, keys, key, first_alive, sources, skybands, scratch)
            seq = next_own(own, key, seq + batch.size)
        seq = stop
        pass_over(settings, keys, key, history)
    return rows, written, skybands.skyband, skybands.end, seq


def drive_capped_shard(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, settings: Settings, share: CappedShare,
    _queries: Queries, bucket: Bucket, _progress: Progress, advance: Advance, work: I64,
) -> tuple[ShardRows, int, Skyband, int, int]:  # fmt: skip
    """Find the pairs of the shard's arrivals under a cap per object; see ``drive_shard``."""
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, bucket.objects.pool)
    keys, objects, limits, own = bucket.keys, bucket.objects, share.limits, share.own
    arena, end = bucket.skyband, bucket.skyband_end
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    candidates, blocks = new_candidates(LARGEST), new_blocks(zones, settings.sub_batch, settings.costly)
    buffers = new_buffers(limits, settings.sub_batch, 1024, 1024)
    rows, written, seq = new_shard_rows(1024), 0, 0
    for g in range(len(advance.keys)):
        key, stop = advance.keys[g], keys[advance.keys[g], NEXT_SEQ]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        seq = next_own(own, key, advance.first_new[g])
        while seq < stop:
            keys[key, NEXT_SEQ] = min(stop, end_of_block(own, seq))
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            keys[key, NEXT_SEQ] = stop
            skyband = skyband_of(keys, key, arena)
            candidates = scan(scoring, objects, offset, zones, batch, skyband, np.inf, candidates, blocks, work)
            rows, written = add_found(key, batch, candidates, rows, written)
            sources = Sources(batch, candidates, skyband)
            buffers = ensure_buffers(buffers, limits, settings.sub_batch, pairs_of(sources), len(history.times))
            arena, end = merge_capped(limits, keys, key, first_alive, sources, arena, end, buffers)
            seq = next_own(own, key, seq + batch.size)
        seq = stop
        pass_over(settings, keys, key, history)
    return rows, written, arena, end, seq
