"""The steps of a sub-batch that all operators of pairs share: gather arrivals, replay the queries, merge the skyband."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import copy_attributes, side_of
from skyband.operators.pair_rows.kernels.boundaries import note_wake
from skyband.operators.pair_rows.kernels.changes import ensure_capacity
from skyband.operators.pair_rows.kernels.lists import fill_lists
from skyband.operators.pair_rows.kernels.replay import replay_query
from skyband.operators.pair_rows.kernels.skyband import merge, store
from skyband.operators.pair_rows.kernels.tables import (
    CHANGE_COLUMNS,
    FIRST_ALIVE,
    FIRST_STORED,
    IS_A,
    NEXT_SEQ,
    REGION_START,
    SKYBAND_LENGTH,
    Bucket,
    Candidates,
    ChangeRows,
    History,
    Lists,
    Objects,
    Progress,
    Queries,
    Replay,
    Scratch,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    new_pairs,
    new_skyband,
    next_batch,
    own_scores,
)


class ChangeBuffer(NamedTuple):
    """The change rows of an ``advance``, and how many there are."""

    rows: ChangeRows
    """Room for more."""
    written: int
    """int64."""


class SkybandKeeper(NamedTuple):
    """The K-skybands of a bucket while it advances, as a keeper of ``driver``."""

    keep_k: int
    """int64: K."""
    skyband: Skyband
    """The arena."""
    end: int
    """int64: its end."""
    merged: Skyband
    """Room for the next skyband of a key."""
    scratch: Scratch


@maker
def no_changes() -> ChangeBuffer:
    """Return an empty buffer for changes."""
    return ChangeBuffer(ChangeRows(np.empty((256, CHANGE_COLUMNS), np.int64), np.empty(256, np.float64)), 0)


@maker
def no_lists(queries: Queries) -> Lists:
    """Return room for every query's list."""
    width = queries.list_room.sum()
    return Lists(new_pairs(width), new_pairs(width), np.zeros(len(queries.k), np.int64), np.zeros(len(queries.k), np.int64))


@maker
def new_skyband_keeper(settings: Settings, bucket: Bucket) -> SkybandKeeper:
    """Return the skybands of ``bucket`` with buffers for sub-batches."""
    ranked = settings.keep_k + settings.sub_batch + 1
    scratch = Scratch(np.empty(settings.keep_k, np.float64), np.empty(ranked, np.float64), np.empty(ranked, np.int64))
    return SkybandKeeper(settings.keep_k, bucket.skyband, bucket.skyband_end, new_skyband(1024), scratch)


@inner
def gather(settings: Settings, keys: I64, key: int, first_seq: int, size: int, objects: Objects, batch: SubBatch) -> int:
    """Put the key's next ``size`` arrivals, from ``first_seq`` on, into the arrays of ``batch``; returns the first seq alive after them."""
    offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
    times = objects.times
    first_alive = int(keys[key, FIRST_ALIVE])
    for i in range(size):
        seq = first_seq + i
        position = seq + offset
        first_alive = max(first_alive, seq + 1 - settings.window_count)
        while first_alive < seq and times[first_alive + offset] <= times[position] - settings.window_micros:
            first_alive += 1
        batch.first_partner[i] = first_alive
        copy_attributes(objects, position, batch.floats[i], batch.integers[i])
        batch.side[i] = side_of(settings, objects, position)
        batch.newer[i] = 2 * seq + (1 if batch.side[i] == IS_A else 0)
    return first_alive


@maker
def next_sub_batch(
    settings: Settings, keys: I64, key: int, seq: int, until: int, objects: Objects, batch: SubBatch
) -> tuple[SubBatch, int]:  # fmt: skip
    """Return the key's next arrivals, from ``seq`` on, in the arrays of ``batch``; and the first seq alive after them.

    The key's last sub-batch of an ``advance`` goes on to ``until``.
    """
    size = min(settings.sub_batch, keys[key, NEXT_SEQ] - seq)
    last = seq + size == keys[key, NEXT_SEQ]
    first_alive = gather(settings, keys, key, seq, size, objects, batch)
    limit = until
    if not last:
        limit = objects.times[keys[key, REGION_START] + seq + size - 1 - keys[key, FIRST_STORED]]
    return next_batch(batch, seq, size, limit, last), first_alive


@inner
def group_by_arrival(batch: SubBatch, candidates: Candidates) -> None:
    """Fill ``batch.start`` and ``candidates.grouped``. O(arrivals + candidates)."""
    start, arrival, grouped = batch.start, candidates.arrival, candidates.grouped
    for i in range(batch.size + 1):
        start[i] = 0
    for c in range(candidates.found):
        start[arrival[c]] += 1
    for i in range(1, batch.size + 1):
        start[i] += start[i - 1]
    for c in range(candidates.found - 1, -1, -1):
        start[arrival[c]] -= 1
        grouped[start[arrival[c]]] = c


@maker
def fill_from_skyband(
    keeper: SkybandKeeper, queries: Queries, history: History, upto: int, instant: int, skyband: Skyband, lists: Lists
) -> SkybandKeeper:
    """Fill every query's list from a key's skyband, as of ``instant`` and before seq ``upto``."""
    fill_lists(queries, history, upto, instant, skyband, lists)
    return keeper


@maker
def replay_queries(keeper: SkybandKeeper, replay: Replay, changes: ChangeBuffer) -> tuple[SkybandKeeper, ChangeBuffer]:
    """Replay the sub-batch for every query."""
    rows, written, k = changes.rows, changes.written, replay.queries.k
    group_by_arrival(replay.sources.batch, replay.sources.candidates)
    for query in range(len(k)):
        arrived, done = 0, False
        while not done:
            rows = ensure_capacity(rows, written, 2 * k[query])
            arrived, written, done = replay_query(replay, query, arrived, rows, written)
    return keeper, ChangeBuffer(rows, written)


@maker
def merge_sub_batch(keeper: SkybandKeeper, keys: I64, key: int, _history: History, first_alive: int, sources: Sources) -> SkybandKeeper:
    """Make the sub-batch part of the key's skyband; ``first_alive`` after its last arrival."""
    scored, merged = own_scores(sources.batch), keeper.merged
    keys[key, FIRST_ALIVE] = first_alive
    most = keys[key, SKYBAND_LENGTH] + sources.candidates.found + scored * (scored - 1) // 2
    if most > len(merged.score):
        merged = new_skyband(2 * most)
    length = merge(keeper.keep_k, first_alive, sources.batch, sources.candidates, sources.skyband, merged, keeper.scratch)
    skyband, end = store(keys, key, merged, length, keeper.skyband, keeper.end)
    return SkybandKeeper(keeper.keep_k, skyband, end, merged, keeper.scratch)


@inner
def wake_times(key: int, queries: Queries, history: History, lists: Lists, progress: Progress) -> None:
    """Note the next expiry by time of a list's member, or the next boundary with changes, whichever is earlier."""
    for query in range(len(queries.k)):
        length, olders = min(lists.length[query], queries.k[query]), lists.best.older[queries.list_start[query] :]
        note_wake(query, key, queries.window_micros[query], olders, length, history, progress)
