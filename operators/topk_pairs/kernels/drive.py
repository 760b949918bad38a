"""The driver: one call takes a whole ``advance`` of every key that has arrivals or is due, sub-batch by sub-batch.

It is compiled once; the scoring expression comes in as first-class functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import I64
from skyband.operators.topk_pairs.kernels.changes import room_for
from skyband.operators.topk_pairs.kernels.lists import fill_lists, oldest
from skyband.operators.topk_pairs.kernels.replay import replay
from skyband.operators.topk_pairs.kernels.scan import LARGEST, scan
from skyband.operators.topk_pairs.kernels.skyband import merge, store
from skyband.operators.topk_pairs.kernels.tables import (
    CHANGE_COLUMNS,
    FIRST_ALIVE,
    FIRST_HELD,
    IS_A,
    IS_B,
    IS_NEITHER,
    NEXT_SEQ,
    REGION_START,
    SKYBAND_LENGTH,
    Advance,
    Bucket,
    ChangeRows,
    History,
    Lists,
    Objects,
    Progress,
    Queries,
    Scoring,
    Scratch,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    history_of,
    leaf,
    new_candidates,
    new_pairs,
    new_skyband,
    new_sub_batch,
    next_batch,
    skyband_of,
)
from skyband.operators.windows import UNBOUNDED


@leaf
def gather(settings: Settings, keys: I64, key: int, first_seq: int, size: int, objects: Objects, batch: SubBatch) -> int:
    """Put the key's next ``size`` arrivals, from ``first_seq`` on, into the arrays of ``batch``; returns the first seq alive after them."""
    offset = keys[key, REGION_START] - keys[key, FIRST_HELD]
    times, floats, integers = objects.times, objects.floats, objects.integers
    first_alive = int(keys[key, FIRST_ALIVE])
    for i in range(size):
        seq = first_seq + i
        position = seq + offset
        first_alive = max(first_alive, seq + 1 - settings.window_count)
        while first_alive < seq and times[first_alive + offset] <= times[position] - settings.window_micros:
            first_alive += 1
        batch.first_partner[i] = first_alive
        for row in range(floats.shape[0]):
            batch.floats[i, row] = floats[row, position]
        for row in range(integers.shape[0]):
            batch.integers[i, row] = integers[row, position]
        batch.newer[i] = 2 * seq
        if settings.side_row >= 0:
            code = integers[settings.side_row, position]
            batch.side[i] = IS_B if code == settings.code_b else (IS_A if code == settings.code_a else IS_NEITHER)
            batch.newer[i] += 1 if code == settings.code_a else 0
    return first_alive


@leaf
def wake_times(key: int, queries: Queries, history: History, lists: Lists, progress: Progress) -> None:
    """Note the next expiry by time of a list's member, or the next boundary at which a query has something to tell, if it is before."""
    for query in range(len(queries.k)):
        wake = progress.due[query, key]
        length, start = lists.length[query], queries.list_start[query]
        if queries.window_micros[query] < UNBOUNDED and length > 0:
            first_out = oldest(lists.best.older[start : start + length], length)
            wake = min(wake, history.times[first_out - history.first_held] + queries.window_micros[query])
        progress.wake[query, key] = wake


def drive(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    settings: Settings, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64,
) -> tuple[ChangeRows, int, Skyband, int]:  # fmt: skip
    """Take all events of ``advance``, whose arrivals are in the windows' arena already; the functions are those of ``Scoring``.

    Returns change rows and their number, the skybands' (perhaps new) arena and its end. Writes to the key table, ``progress`` and
    ``work`` (int64 (COUNTERS,)).
    """
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b)
    keys, objects, skyband, end = bucket.keys, bucket.objects, bucket.skyband, bucket.skyband_end
    rows, written = ChangeRows(np.empty((256, CHANGE_COLUMNS), np.int64), np.empty(256, np.float64)), 0
    width = queries.k.sum()
    lists = Lists(new_pairs(width), new_pairs(width), np.zeros(len(queries.k), np.int64))
    batch = new_sub_batch(settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    candidates, merged = new_candidates(1024), new_skyband(1024)
    ranked = settings.keep_k + settings.sub_batch + 1
    scratch = Scratch(
        np.empty(LARGEST, np.float64), np.empty(settings.keep_k, np.float64), np.empty(ranked, np.float64), np.empty(ranked, np.int64)
    )
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_HELD]
        fill_lists(queries, history, seq, advance.since - 1, skyband_of(keys, key, skyband), lists)
        while True:
            size = min(settings.sub_batch, keys[key, NEXT_SEQ] - seq)
            last = seq + size == keys[key, NEXT_SEQ]
            first_alive = gather(settings, keys, key, seq, size, objects, batch)
            batch = next_batch(batch, seq, size, advance.until if last else objects.times[seq + size - 1 + offset], last)
            held = skyband_of(keys, key, skyband)
            candidates = scan(scoring, objects, offset, batch, held, candidates, scratch.block, work)
            sources = Sources(batch, candidates, held)
            for query in range(len(queries.k)):
                arrived, done = 0, False
                while not done:
                    rows = room_for(rows, written, 2 * queries.k[query])
                    arrived, written, done = replay(query, key, arrived, queries, history, sources, lists, progress, rows, written, work)
            if size > 0:
                keys[key, FIRST_ALIVE] = first_alive
                most = keys[key, SKYBAND_LENGTH] + candidates.found + size * (size - 1) // 2
                if most > len(merged.score):
                    merged = new_skyband(2 * most)
                length = merge(settings.keep_k, first_alive, batch, candidates, held, merged, scratch)
                skyband, end = store(keys, key, merged, length, skyband, end)
            seq += size
            if last:
                break
        wake_times(key, queries, history, lists, progress)
    return rows, written, skyband, end
