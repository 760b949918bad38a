"""Split a long run of one key's arrivals into segments that threads process in parallel.

Skybands and results depend on the alive objects only (docs/algorithms Theorem A), so a segment
computes its own start: it first processes the objects alive then, without queries, which costs as much as that many arrivals. Each segment
counts its steps from 1; ``run_segments`` adds the steps of those before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from skyband.operators import threads
from skyband.operators.base import I64
from skyband.operators.pair_rows.kernels.tables import (
    COUNTERS,
    FIRST_ALIVE,
    FIRST_STORED,
    NEXT_SEQ,
    QUERY,
    REGION_START,
    SKYBAND_LENGTH,
    SKYBAND_START,
    STEP,
    Advance,
    Bucket,
    ChangeRows,
    Progress,
    Queries,
    Skyband,
    Task,
)
from skyband.operators.pair_rows.logic import no_progress, no_queries, no_skyband

M = TypeVar("M")
"""The index that finds candidates, where an operator has one."""
DriverResult = tuple[ChangeRows, int, Skyband, int, M]
"""Change rows, their number, the skybands' arena and its end, the (perhaps new) index."""
Drive = Callable[[Task, M], DriverResult[M]]
"""A driver: it takes a task and the index."""

LEAST_ROWS = 4096
"""Arrivals of a segment, at the least."""
LEAST_TURNOVERS = 4
"""Windows of arrivals that a segment is long, at the least."""


class Segment(NamedTuple):
    """The arrivals that one thread processes."""

    alive: int
    """seq of the first object alive when the arrival before the segment has come."""
    first: int
    """seq of its first arrival."""
    stop: int
    """seq behind its last."""


class SegmentResult(NamedTuple, Generic[M]):
    """The result of a segment."""

    rows: ChangeRows
    """The change rows, without spare capacity."""
    keys: I64
    """int64 (1, KEY_COLUMNS): the key table."""
    skyband: Skyband
    """The skybands' arena."""
    end: int
    """Its end."""
    progress: Progress
    """What the segment reported."""
    work: I64
    """int64 (COUNTERS,)."""
    lookup: M
    """The index."""


def segments(task: Task, again: bool = True) -> list[Segment]:
    """Return the arrivals cut into segments for as many threads as there may be; none if it does not pay, or cannot be.

    ``again``: objects from before ``advance`` can be taken again, too.
    """
    settings, queries, bucket, advance = task.settings, task.queries, task.bucket, task.advance
    most = threads.allowed()
    if most == 1 or not can_be_cut(queries, bucket, advance):
        return []
    start, stop = int(advance.first_new[0]), int(bucket.keys[0, NEXT_SEQ])
    for parts in range(min(most, (stop - start) // LEAST_ROWS), 1, -1):
        cuts = [start + (stop - start) * i // parts for i in range(parts + 1)]
        found = [
            Segment(first_alive_at(settings.window_count, settings.window_micros, bucket, cut), cut, end) for cut, end in pairwise(cuts)
        ]
        own = again or all(s.alive >= start for s in found[1:])
        if own and all(LEAST_TURNOVERS * (s.first - s.alive) <= s.stop - s.first for s in found):
            return found
    return []


def can_be_cut(queries: Queries, bucket: Bucket, advance: Advance) -> bool:
    """Return True if a run may begin at any of its arrivals: there is one key, and the changes depend on the alive objects only.

    With ``every`` it does not: it depends on what was shown at the last boundary, too.
    """
    return len(bucket.keys) == 1 and len(advance.keys) == 1 and not bool(queries.every.any())


def time_of(bucket: Bucket, seq: int, key: int = 0) -> int:
    """Return the time of a key's object, microseconds."""
    return int(bucket.objects.times[bucket.keys[key, REGION_START] + seq - bucket.keys[key, FIRST_STORED]])


def instant_after(bucket: Bucket, seq: int, key: int = 0) -> int:
    """Return the instant before which the key's objects before ``seq`` have come, microseconds."""
    return time_of(bucket, seq - 1, key) + 1


def first_alive_at(count: int, micros: int, bucket: Bucket, first: int, key: int = 0) -> int:
    """Return the first seq alive in a key's window of ``count`` objects and ``micros`` when its object before ``first`` has come."""
    first_stored = int(bucket.keys[key, FIRST_STORED])
    if first == first_stored:
        return first
    oldest = max(first_stored, first - count)
    region = int(bucket.keys[key, REGION_START])
    times = bucket.objects.times[region + oldest - first_stored : region + first - first_stored]
    return oldest + int(np.searchsorted(times, time_of(bucket, first - 1, key) - micros, "right"))


def run_segments(drive: Drive[M], task: Task, index: M, parts: Sequence[Segment], new: Callable[[], M]) -> DriverResult[M]:
    """Run ``drive`` in a thread for each of ``parts``; ``new`` makes an empty index."""
    first = partial(_run_segment, drive, task, parts[0], task.advance.since, index)
    taken = threads.side_by_side([first, *(partial(_run_later_segment, drive, task, part, new()) for part in parts[1:])])
    progress = task.progress
    for part in taken:
        part.rows.fields[:, STEP] += progress.step[part.rows.fields[:, QUERY], 0]
        progress.step[:] += part.progress.step
        task.work[:] += part.work
    last = taken[-1]
    progress.wake[:] = last.progress.wake
    task.bucket.keys[:] = last.keys
    rows = ChangeRows(np.concatenate([part.rows.fields for part in taken]), np.concatenate([part.rows.score for part in taken]))
    return rows, len(rows.score), last.skyband, last.end, last.lookup


def _run_segment(drive: Drive[M], task: Task, part: Segment, since: int, index: M) -> SegmentResult[M]:
    """Run a segment from the skyband of the task's bucket, which has the events before ``since``."""
    bucket, advance = task.bucket, task.advance
    keys, stop = bucket.keys.copy(), bucket.keys[0, NEXT_SEQ]
    until = advance.until if part.stop == stop else instant_after(bucket, part.stop)
    keys[0, NEXT_SEQ] = part.stop
    progress, work = no_progress(len(task.queries.k), 1, 0), np.zeros(COUNTERS, np.int64)
    mine = Advance(advance.keys, np.array([part.first]), since, until)
    segment = task._replace(bucket=bucket._replace(keys=keys), progress=progress, advance=mine, work=work)
    rows, written, skyband, end, index = drive(segment, index)
    return SegmentResult(ChangeRows(rows.fields[:written], rows.score[:written]), keys, skyband, end, progress, work, index)


def _run_later_segment(drive: Drive[M], task: Task, part: Segment, index: M) -> SegmentResult[M]:
    """Run a later segment: first the objects alive at its start, without queries, then its arrivals."""
    since = instant_after(task.bucket, part.first)
    bucket, index = skyband_at(drive, task, part.alive, part.first, index)
    bucket.keys[0, NEXT_SEQ] = task.bucket.keys[0, NEXT_SEQ]
    return _run_segment(drive, task._replace(bucket=bucket), part, since, index)


def skyband_at(drive: Drive[M], task: Task, first_alive: int, upto: int, index: M) -> tuple[Bucket, M]:
    """Return the task's bucket when its only key's objects [``first_alive``, ``upto``) are alive, and the index."""
    bucket = task.bucket
    keys, since = bucket.keys.copy(), instant_after(bucket, upto)
    keys[0, FIRST_ALIVE], keys[0, NEXT_SEQ] = first_alive, upto
    keys[0, SKYBAND_START : SKYBAND_LENGTH + 1] = 0
    again = Advance(np.zeros(1, np.int64), np.array([first_alive]), since, since)
    empty = Bucket(keys, bucket.objects, no_skyband(), 0)
    fill = Task(task.settings, no_queries(), empty, no_progress(0, 1, 0), again, np.zeros(COUNTERS, np.int64))
    _, _, skyband, end, index = drive(fill, index)
    return Bucket(keys, bucket.objects, skyband, end), index
