"""Process a long run of one key's arrivals with a cutoff: only pairs that reach it are candidates (docs/algorithms D2 "Long runs").

What dominates a pair ranks before it, so the pairs of the skyband up to a score are the skyband of the pairs up to that score. While they
suffice for every list, they determine the results, and almost no arrival has a candidate. At the end the whole skyband is computed from
the alive objects.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from skyband.operators.pair_rows.kernels.tables import (
    NEXT_SEQ,
    SKYBAND_CAPACITY,
    SKYBAND_LENGTH,
    SKYBAND_START,
    Advance,
    Bucket,
    ChangeRows,
    Queries,
    Settings,
    Skyband,
    Task,
)
from skyband.operators.pair_rows.segments import can_be_cut, first_alive_at, instant_after, skyband_at

LEAST_ROWS = 4096
"""Arrivals of a run, at the least."""
LEAST_TURNOVERS = 4
"""Windows of arrivals that a run is long, at the least, and that a cutoff must serve to have paid."""
MOST_MISSES = 3
"""After so many cutoffs in a row that did not pay, the rest runs without a cutoff."""
TARGET_PAIRS = (4, 32)
"""Pairs that should reach a cutoff: so many K and so many more, as few are seldom as many as expected."""
SUB_BATCH = 256
"""Arrivals of a sub-batch with a cutoff; a block of partners stays in the first-level cache for all of them."""

Compiled = Callable[..., tuple[ChangeRows, int, Skyband, int, int]]
"""``drive`` with its scoring and zones: it takes a cutoff and a task."""


def run(compiled: Compiled, task: Task) -> tuple[ChangeRows, int, Skyband, int]:
    """Run ``compiled`` over a task, with a cutoff as long as that pays."""
    if not _long(task):
        return compiled(np.inf, task)[:4]
    return _Run(compiled, task).run()


def _long(task: Task) -> bool:
    settings, queries, bucket, advance = task.settings, task.queries, task.bucket, task.advance
    if not len(queries.k) or not can_be_cut(queries, bucket, advance):
        return False
    start, stop = int(advance.first_new[0]), int(bucket.keys[0, NEXT_SEQ])
    if stop - start < LEAST_ROWS:
        return False
    return stop - start >= LEAST_TURNOVERS * (stop - first_alive_at(settings.window_count, settings.window_micros, bucket, stop))


class _Run:
    """The state of a run: ``bucket`` has the skyband of all arrivals before ``at``."""

    def __init__(self, compiled: Compiled, task: Task) -> None:
        self.compiled, self.task, self.settings, self.queries = compiled, task, task.settings, task.queries
        self.initial, self.bucket = task.bucket, task.bucket._replace(keys=task.bucket.keys.copy())
        self.at, self.stop = int(task.advance.first_new[0]), int(task.bucket.keys[0, NEXT_SEQ])
        self.misses = 0
        self.rows: list[ChangeRows] = []

    def run(self) -> tuple[ChangeRows, int, Skyband, int]:
        """Process all events of the task, with a cutoff as long as that pays."""
        while self.at < self.stop:
            alive = self.at - first_alive_at(self.settings.window_count, self.settings.window_micros, self.initial, self.at)
            cutoff = self._cutoff() if self.misses < MOST_MISSES else np.inf
            if cutoff < np.inf:
                begun = self.at
                self._reach(cutoff)
                paid = self.at - begun >= max(1, LEAST_TURNOVERS * alive)
                self.misses = 0 if paid else self.misses + 1
            else:
                more = self.stop if self.misses == MOST_MISSES else self.at + max(LEAST_ROWS, alive)
                self._drive(self.settings, np.inf, self.queries, self.bucket, min(more, self.stop))
        self.initial.keys[:] = self.bucket.keys
        rows = ChangeRows(np.concatenate([r.fields for r in self.rows]), np.concatenate([r.score for r in self.rows]))
        return rows, len(rows.score), self.bucket.skyband, self.bucket.skyband_end

    def _cutoff(self) -> float:
        """Return a score that about ``TARGET_PAIRS`` alive pairs reach, four times as many after each miss; inf if unknown.

        A part p of a window has about p^2 of its pairs, so the staircase has it: the K-th best of the newest objects' pairs.
        """
        start, length, k = self.bucket.keys[0, SKYBAND_START], self.bucket.keys[0, SKYBAND_LENGTH], self.settings.keep_k
        older, stair = self.bucket.skyband.older[start : start + length], self.bucket.skyband.stair[start : start + length]
        newest, cutoff = sqrt(k / (TARGET_PAIRS[0] * k + TARGET_PAIRS[1])) / 2**self.misses, -np.inf
        for count, micros, worst in zip(self.queries.window_count, self.queries.window_micros, self.queries.worst, strict=True):
            alive = self.at - first_alive_at(int(count), int(micros), self.initial, self.at)
            pairs = int(np.count_nonzero(older >= self.at - newest * alive))
            cutoff = max(cutoff, min(float(stair[pairs - 1]) if pairs else np.inf, float(worst)))
        return cutoff if np.isfinite(cutoff) else np.inf

    def _reach(self, cutoff: float) -> None:
        """Process arrivals while ``cutoff`` suffices, then compute the whole skyband."""
        keys, band = self.bucket.keys.copy(), self.bucket.skyband
        reaching = np.arange(keys[0, SKYBAND_START], keys[0, SKYBAND_START] + keys[0, SKYBAND_LENGTH])
        reaching = reaching[band.score[reaching] <= cutoff]
        keys[0, SKYBAND_START], keys[0, SKYBAND_CAPACITY], keys[0, SKYBAND_LENGTH] = 0, len(reaching), len(reaching)
        reached = Bucket(
            keys,
            self.bucket.objects,
            Skyband(band.score[reaching], band.older[reaching], band.newer[reaching], band.stair[reaching]),
            len(reaching),
        )
        reached_queries = self.queries._replace(
            worst=np.minimum(self.queries.worst, cutoff), partial=(self.queries.worst > cutoff).astype(np.int64)
        )
        before, begun = self.bucket, self.at
        self._drive(self.settings._replace(sub_batch=SUB_BATCH), cutoff, reached_queries, reached, self.stop)
        if self.at == begun:
            self.bucket = before
            return
        first = first_alive_at(self.settings.window_count, self.settings.window_micros, self.initial, self.at)
        self.bucket, _ = skyband_at(self._without_cutoff, self.task, first, self.at, None)

    def _without_cutoff(self, task: Task, index: None) -> Any:
        return (*self.compiled(np.inf, task)[:4], index)

    def _drive(self, settings: Settings, cutoff: float, queries: Queries, bucket: Bucket, upto: int) -> None:
        """Process arrivals up to seq ``upto``, or fewer if the driver stops early."""
        advance = self.task.advance
        since = advance.since if self.at == advance.first_new[0] else instant_after(self.initial, self.at)
        until = advance.until if upto == self.stop else instant_after(self.initial, upto)
        bucket.keys[0, NEXT_SEQ] = upto
        mine = Advance(advance.keys, np.array([self.at]), since, until)
        task = self.task._replace(settings=settings, queries=queries, bucket=bucket, advance=mine)
        rows, written, skyband, end, self.at = self.compiled(cutoff, task)
        self.rows.append(ChangeRows(rows.fields[:written], rows.score[:written]))
        self.bucket = Bucket(bucket.keys, bucket.objects, skyband, end)
