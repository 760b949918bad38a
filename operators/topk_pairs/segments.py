"""A long run of one key's arrivals as segments that threads take side by side.

Skybands and results depend on the objects that are alive and on nothing else (docs/algorithms.md Theorem A), so what a segment starts from
is found anew: the objects alive at its start are taken alone first, without telling, which costs as much as so many arrivals more. Steps
are counted from 1 in every segment and moved up afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skyband.operators import threads
from skyband.operators.base import I64
from skyband.operators.pair_rows.kernels.tables import (
    COUNTERS,
    FIRST_ALIVE,
    FIRST_HELD,
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
    Settings,
    Skyband,
)
from skyband.operators.pair_rows.logic import no_progress, no_skyband

Driven = tuple[ChangeRows, int, Skyband, int]
"""What ``drive`` returns: change rows, their number, the skybands' arena and its end."""
Drive = Callable[[Queries, Bucket, Progress, Advance, I64], Driven]
"""``drive`` with a scoring expression and settings."""

LEAST_ROWS = 4096
"""Arrivals of a segment, at the least."""
LEAST_TURNOVERS = 4
"""Windows of arrivals that a segment is long, at the least."""


class Segment(NamedTuple):
    """Arrivals that a thread takes."""

    alive: int
    """seq of the first object alive when the arrival before the segment has come."""
    first: int
    """seq of its first arrival."""
    stop: int
    """seq behind its last."""


class Taken(NamedTuple):
    """What came of a segment."""

    rows: ChangeRows
    """Exactly those written."""
    keys: I64
    """int64 (1, KEY_COLUMNS): the key table."""
    skyband: Skyband
    """The skybands' arena."""
    end: int
    """Its end."""
    progress: Progress
    """What has been told."""
    work: I64
    """int64 (COUNTERS,)."""


def segments(settings: Settings, queries: Queries, bucket: Bucket, advance: Advance) -> list[Segment]:
    """The arrivals cut into segments for as many threads as there may be; none if it does not pay, or cannot be.

    Not for more keys than one, nor with ``every``: what has been shown at a boundary does not depend on what is alive alone.
    """
    most = threads.allowed()
    if most == 1 or len(bucket.keys) > 1 or len(advance.keys) != 1 or queries.every.any():
        return []
    start, stop = int(advance.first_new[0]), int(bucket.keys[0, NEXT_SEQ])
    for parts in range(min(most, (stop - start) // LEAST_ROWS), 1, -1):
        cuts = [start + (stop - start) * i // parts for i in range(parts + 1)]
        found = [Segment(_alive(settings, bucket, cut), cut, end) for cut, end in pairwise(cuts)]
        if all(LEAST_TURNOVERS * (s.first - s.alive) <= s.stop - s.first for s in found):
            return found
    return []


def _time(bucket: Bucket, seq: int) -> int:
    return int(bucket.objects.times[bucket.keys[0, REGION_START] + seq - bucket.keys[0, FIRST_HELD]])


def _alive(settings: Settings, bucket: Bucket, first: int) -> int:
    """The first seq alive in the largest window when the object before ``first`` has come."""
    held = int(bucket.keys[0, FIRST_HELD])
    if first == held:
        return first
    oldest = max(held, first - settings.window_count)
    region = int(bucket.keys[0, REGION_START])
    times = bucket.objects.times[region + oldest - held : region + first - held]
    return oldest + int(np.searchsorted(times, _time(bucket, first - 1) - settings.window_micros, "right"))


def take(
    drive: Drive, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64, parts: Sequence[Segment]
) -> Driven:
    """As ``drive``, by a thread for each of ``parts``."""
    taken = threads.side_by_side([partial(_take, drive, queries, bucket, progress, advance, part) for part in parts])
    for part in taken:
        part.rows.fields[:, STEP] += progress.step[part.rows.fields[:, QUERY], 0]
        progress.step[:] += part.progress.step
        work += part.work
    last = taken[-1]
    progress.wake[:] = last.progress.wake
    bucket.keys[:] = last.keys
    rows = ChangeRows(np.concatenate([part.rows.fields for part in taken]), np.concatenate([part.rows.score for part in taken]))
    return rows, len(rows.score), last.skyband, last.end


def _take(drive: Drive, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, part: Segment) -> Taken:
    keys, since = bucket.keys.copy(), advance.since
    state = Bucket(keys, bucket.objects, bucket.skyband, bucket.skyband_end)
    if part.first > advance.first_new[0]:
        since = _time(bucket, part.first - 1) + 1
        keys[0, FIRST_ALIVE], keys[0, NEXT_SEQ] = part.alive, part.first
        keys[0, SKYBAND_START : SKYBAND_LENGTH + 1] = 0
        nobody = Queries(*(column[:0] for column in queries))  # type: ignore[arg-type]
        known = Advance(advance.keys, np.array([part.alive]), since, since)
        empty = Bucket(keys, bucket.objects, no_skyband(), 0)
        _, _, skyband, end = drive(nobody, empty, no_progress(0, 1, 0), known, np.zeros(COUNTERS, np.int64))
        state = Bucket(keys, bucket.objects, skyband, end)
    until = advance.until if part.stop == bucket.keys[0, NEXT_SEQ] else _time(bucket, part.stop - 1) + 1
    keys[0, NEXT_SEQ] = part.stop
    told, work = no_progress(len(queries.k), 1, 0), np.zeros(COUNTERS, np.int64)
    rows, written, skyband, end = drive(queries, state, told, Advance(advance.keys, np.array([part.first]), since, until), work)
    return Taken(ChangeRows(rows.fields[:written], rows.score[:written]), keys, skyband, end, told, work)
