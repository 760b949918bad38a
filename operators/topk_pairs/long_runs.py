"""A long run of one key's arrivals, looking only for pairs that reach a cutoff (docs/algorithms D2 "Long runs").

What dominates a pair ranks before it, so the pairs of the skyband up to a score are the skyband of the pairs up to that score. While they
are enough for every list, results follow from them alone, and almost no arrival has one. The whole skyband is found anew at the end, from
the objects alive then.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from skyband.operators.base import I64
from skyband.operators.pair_rows.kernels.tables import (
    NEXT_SEQ,
    SKYBAND_CAPACITY,
    SKYBAND_LENGTH,
    SKYBAND_START,
    Advance,
    Bucket,
    ChangeRows,
    Progress,
    Queries,
    Settings,
    Skyband,
)
from skyband.operators.pair_rows.segments import alive, behind, can_be_cut, skyband_at

LEAST_ROWS = 4096
"""Arrivals of a run, at the least."""
LEAST_TURNOVERS = 4
"""Windows of arrivals that a run is long, at the least, and that a cutoff must serve to have paid."""
MOST_MISSES = 3
"""Cutoffs in a row that did not pay, after which the rest is taken without."""
WANTED = (4, 32)
"""Pairs that should reach a cutoff: so many K and so many more, as few are seldom as many as expected."""
SUB_BATCH = 256
"""Arrivals taken together with a cutoff, for whom a block of partners stays in the first-level cache."""

Compiled = Callable[..., tuple[ChangeRows, int, Skyband, int, int]]
"""``drive`` with its scoring: settings, cutoff, queries, bucket, progress, what to take, work counters."""


def take(
    compiled: Compiled, settings: Settings, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64
) -> tuple[ChangeRows, int, Skyband, int]:
    """As ``compiled`` without a cutoff, with one as long as it pays."""
    if not _long(settings, queries, bucket, advance):
        return compiled(settings, np.inf, queries, bucket, progress, advance, work)[:4]
    return _Run(compiled, settings, queries, bucket, progress, advance, work).take()


def _long(settings: Settings, queries: Queries, bucket: Bucket, advance: Advance) -> bool:
    if not len(queries.k) or not can_be_cut(queries, bucket, advance):
        return False
    start, stop = int(advance.first_new[0]), int(bucket.keys[0, NEXT_SEQ])
    if stop - start < LEAST_ROWS:
        return False
    return stop - start >= LEAST_TURNOVERS * (stop - alive(settings.window_count, settings.window_micros, bucket, stop))


class _Run:
    """Where a run is: ``bucket`` holds the skyband of all arrivals before ``at``."""

    def __init__(
        self, compiled: Compiled, settings: Settings, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64
    ) -> None:
        self.compiled, self.settings, self.queries, self.progress, self.advance, self.work = (
            compiled, settings, queries, progress, advance, work,
        )  # fmt: skip
        self.given, self.bucket = bucket, bucket._replace(keys=bucket.keys.copy())
        self.at, self.stop = int(advance.first_new[0]), int(bucket.keys[0, NEXT_SEQ])
        self.misses = 0
        self.rows: list[ChangeRows] = []

    def take(self) -> tuple[ChangeRows, int, Skyband, int]:
        """Take all arrivals."""
        while self.at < self.stop:
            held = self.at - alive(self.settings.window_count, self.settings.window_micros, self.given, self.at)
            cutoff = self._cutoff() if self.misses < MOST_MISSES else np.inf
            if cutoff < np.inf:
                begun = self.at
                self._reach(cutoff)
                paid = self.at - begun >= max(1, LEAST_TURNOVERS * held)
                self.misses = 0 if paid else self.misses + 1
            else:
                more = self.stop if self.misses == MOST_MISSES else self.at + max(LEAST_ROWS, held)
                self._drive(self.settings, np.inf, self.queries, self.bucket, min(more, self.stop))
        self.given.keys[:] = self.bucket.keys
        rows = ChangeRows(np.concatenate([r.fields for r in self.rows]), np.concatenate([r.score for r in self.rows]))
        return rows, len(rows.score), self.bucket.skyband, self.bucket.skyband_end

    def _cutoff(self) -> float:
        """A score that ``WANTED`` pairs alive may be expected to reach, four times as many after each miss; inf if that is unknown.

        A part p of a window has about p^2 of its pairs, so the staircase tells it: its K-th best of the newest objects' pairs.
        """
        start, length, k = self.bucket.keys[0, SKYBAND_START], self.bucket.keys[0, SKYBAND_LENGTH], self.settings.keep_k
        older, stair = self.bucket.skyband.older[start : start + length], self.bucket.skyband.stair[start : start + length]
        newest, cutoff = sqrt(k / (WANTED[0] * k + WANTED[1])) / 2**self.misses, -np.inf
        for count, micros, worst in zip(self.queries.window_count, self.queries.window_micros, self.queries.worst, strict=True):
            held = self.at - alive(int(count), int(micros), self.given, self.at)
            pairs = int(np.count_nonzero(older >= self.at - newest * held))
            cutoff = max(cutoff, min(float(stair[pairs - 1]) if pairs else np.inf, float(worst)))
        return cutoff if np.isfinite(cutoff) else np.inf

    def _reach(self, cutoff: float) -> None:
        """Take arrivals while ``cutoff`` serves, and find the whole skyband then."""
        keys, band = self.bucket.keys.copy(), self.bucket.skyband
        held = np.arange(keys[0, SKYBAND_START], keys[0, SKYBAND_START] + keys[0, SKYBAND_LENGTH])
        held = held[band.score[held] <= cutoff]
        keys[0, SKYBAND_START], keys[0, SKYBAND_CAPACITY], keys[0, SKYBAND_LENGTH] = 0, len(held), len(held)
        reached = Bucket(
            keys, self.bucket.objects, Skyband(band.score[held], band.older[held], band.newer[held], band.stair[held]), len(held)
        )
        asked = self.queries._replace(worst=np.minimum(self.queries.worst, cutoff), partial=(self.queries.worst > cutoff).astype(np.int64))
        before, begun = self.bucket, self.at
        self._drive(self.settings._replace(sub_batch=SUB_BATCH), cutoff, asked, reached, self.stop)
        if self.at == begun:
            self.bucket = before
            return
        first = alive(self.settings.window_count, self.settings.window_micros, self.given, self.at)
        self.bucket, _ = skyband_at(self._whole, self.given, first, self.at, None)

    def _whole(self, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64, index: None) -> Any:
        return (*self.compiled(self.settings, np.inf, queries, bucket, progress, advance, work)[:4], None)

    def _drive(self, settings: Settings, cutoff: float, queries: Queries, bucket: Bucket, upto: int) -> None:
        """Take arrivals up to seq ``upto``, or as many as it goes well with."""
        since = self.advance.since if self.at == self.advance.first_new[0] else behind(self.given, self.at)
        until = self.advance.until if upto == self.stop else behind(self.given, upto)
        bucket.keys[0, NEXT_SEQ] = upto
        mine = Advance(self.advance.keys, np.array([self.at]), since, until)
        rows, written, skyband, end, self.at = self.compiled(settings, cutoff, queries, bucket, self.progress, mine, self.work)
        self.rows.append(ChangeRows(rows.fields[:written], rows.score[:written]))
        self.bucket = Bucket(bucket.keys, bucket.objects, skyband, end)
