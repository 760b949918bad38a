"""The driver with a cap per object: ``drive`` with results by a greedy walk and a state of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import I64
from skyband.operators.pair_rows.capped.kernels.replay import fill_lists, replay_queries
from skyband.operators.pair_rows.capped.kernels.skyband import merge_sub_batch, pairs_of
from skyband.operators.pair_rows.capped.kernels.tables import ensure_buffers, new_buffers
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.sub_batch import next_sub_batch, no_changes, no_lists, wake_times
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_STORED,
    REGION_START,
    Advance,
    Bucket,
    ChangeRows,
    Progress,
    Queries,
    Scoring,
    Settings,
    Skyband,
    Sources,
    history_of,
    new_candidates,
    new_sub_batch,
    skyband_of,
)
from skyband.operators.pair_rows.zone_maps.kernels.tables import Zones
from skyband.operators.topk_pairs.kernels.blocks import new_blocks
from skyband.operators.topk_pairs.kernels.partners import scan


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
