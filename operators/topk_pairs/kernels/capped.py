"""The driver with a cap per object: as ``drive``, with results that are walked and a state of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import I64
from skyband.operators.pair_rows.capped.kernels.replay import fill_lists, tell
from skyband.operators.pair_rows.capped.kernels.sub_batch import pairs_of, take_in
from skyband.operators.pair_rows.capped.kernels.tables import new_room, room_of
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.sub_batch import gather, no_changes, no_lists, wake_times
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_HELD,
    NEXT_SEQ,
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
    next_batch,
    skyband_of,
)
from skyband.operators.topk_pairs.kernels.partners import new_blocks, scan


def drive_capped(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    settings: Settings, limits: Limits, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64,
) -> tuple[ChangeRows, int, Skyband, int]:  # fmt: skip
    """See ``drive``."""
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b)
    keys, objects = bucket.keys, bucket.objects
    arena, end = bucket.skyband, bucket.skyband_end
    told, lists = no_changes(), no_lists(queries)
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    candidates, blocks = new_candidates(1024), new_blocks()
    room = new_room(limits, settings.sub_batch, 1024, 1024)
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_HELD]
        skyband = skyband_of(keys, key, arena)
        room = room_of(room, limits, settings.sub_batch, len(skyband.score), len(history.times))
        fill_lists(limits, queries, history, seq, advance.since - 1, skyband, lists, room)
        while True:
            size = min(settings.sub_batch, keys[key, NEXT_SEQ] - seq)
            last = seq + size == keys[key, NEXT_SEQ]
            first_alive = gather(settings, keys, key, seq, size, objects, batch)
            batch = next_batch(batch, seq, size, advance.until if last else objects.times[seq + size - 1 + offset], last)
            skyband = skyband_of(keys, key, arena)
            candidates = scan(scoring, objects, offset, batch, skyband, np.inf, candidates, blocks, work)
            sources = Sources(batch, candidates, skyband)
            room = room_of(room, limits, settings.sub_batch, pairs_of(sources), len(history.times))
            told = tell(key, limits, queries, history, sources, lists, room, progress, told)
            if size > 0:
                arena, end = take_in(limits, keys, key, first_alive, sources, arena, end, room)
            seq += size
            if last:
                break
        wake_times(key, queries, history, lists, progress)
    return told.rows, told.written, arena, end
