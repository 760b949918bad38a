"""The driver: one call processes a whole ``advance`` of every key that has arrivals or is due, sub-batch by sub-batch.

It is compiled once and receives the scoring expression as first-class functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import I64
from skyband.operators.pair_rows.kernels.lists import enough, fill_lists
from skyband.operators.pair_rows.kernels.sub_batch import (
    ChangeBuffer,
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
    SHORT,
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
    new_skyband,
    new_sub_batch,
    skyband_of,
)
from skyband.operators.pair_rows.zone_maps.kernels.tables import Zones
from skyband.operators.topk_pairs.kernels.blocks import LARGEST, new_blocks
from skyband.operators.topk_pairs.kernels.partners import scan

MOST_FOUND = 4
"""With more candidates per arrival a cutoff is too loose: without one there are more, but each costs less to find."""


def drive(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, settings: Settings, cutoff: float, queries: Queries,
    bucket: Bucket, progress: Progress, advance: Advance, work: I64,
) -> tuple[ChangeRows, int, Skyband, int, int]:  # fmt: skip
    """Process all events of ``advance``, whose arrivals are in the windows' arena already; the functions are those of ``Scoring``.

    Return change rows and their number, the skybands' (perhaps new) arena and its end, and the seq before which all is taken. Writes to
    the key table, ``progress`` and ``work`` (int64 (COUNTERS,)).

    ``zones`` with segments are those of the only key, and end before its first arrival. A finite ``cutoff`` is for one key alone, whose
    skyband has no pair above it; neither has the one returned. The run then ends before
    the first sub-batch that leaves too few pairs in a list that is ``partial``, or that has more than ``MOST_FOUND`` candidates an arrival.
    """
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, bucket.objects.pool)
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    changes, lists = no_changes(), no_lists(queries)
    scored = settings.sub_batch if cutoff == np.inf else 0
    batch = new_sub_batch(settings.sub_batch, scored, objects.floats.shape[0], objects.integers.shape[0])
    candidates, scratch, blocks = (
        new_candidates(LARGEST + MOST_FOUND * settings.sub_batch),
        new_scratch(settings),
        new_blocks(zones, settings.sub_batch, settings.costly),
    )
    steps, seq = np.zeros(len(queries.k), np.int64), 0
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        fill_lists(queries, history, seq, advance.since - 1, skyband_of(keys, key, skybands.skyband), lists)
        while enough(queries, lists):
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            skyband = skyband_of(keys, key, skybands.skyband)
            candidates = scan(scoring, objects, offset, zones, batch, skyband, cutoff, candidates, blocks, work)
            if candidates.found < 0:
                break
            sources = Sources(batch, candidates, skyband)
            steps[:], written, short = progress.step[:, key], changes.written, work[SHORT]
            changes = replay_queries(key, queries, history, sources, lists, progress, changes, work)
            if work[SHORT] > short:
                progress.step[:, key], changes = steps, ChangeBuffer(changes.rows, written)
                break
            if batch.size > 0:
                skybands = merge_sub_batch(settings, keys, key, first_alive, sources, skybands, scratch)
            seq += batch.size
            if batch.last:
                break
        wake_times(key, queries, history, lists, progress)
    return changes.rows, changes.written, skybands.skyband, skybands.end, seq
