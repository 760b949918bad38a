"""The observer that keeps the figures of a run in a registry, which others read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.reasons import REASONS
from skyband.framework.observe.metrics import all_metrics as m
from skyband.framework.observe.metrics.backlog import SourceBacklog
from skyband.framework.observe.metrics.metric import Labels, Metric, version
from skyband.framework.observe.metrics.registry import Registry
from skyband.framework.observe.observers import Observer, StartedRun

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

PLAIN_REASONS: Final = tuple(reason for c in REASONS for reason in c.reasons if "<" not in reason)
"""The reasons that name nothing of the spec."""


class MetricsObserver(Observer):
    """Keeps the figures of a run in ``registry``. ``now``: Unix time, for tests."""

    name = "metrics"

    def __init__(self, registry: Registry, now: Callable[[], float] = time.time) -> None:
        self._registry = registry
        self._now = now
        self._job = ""
        self._backlog: SourceBacklog | None = None
        self._rows: dict[str, int] = {}
        self._instants: dict[Metric, float] = {}
        self._over = False

    def started(self, run: StartedRun) -> None:
        """Set the metrics of the run, and begin all counters at 0."""
        update, job = self._registry.update, run.plan.job
        self._job = job
        # A counter that begins with its first value would not be seen to rise.
        for metric in m.METRICS:
            if metric.kind == "counter" and not metric.labels:
                update(metric, job, {(): 0})
        update(m.CHANGES, job, {(q.name,): 0 for q in run.plan.every_query})
        update(m.REJECTED_ROWS, job, {(reason,): 0 for reason in PLAIN_REASONS})
        update(m.RUN_INFO, job, {(run.command, version(), str(run.run)): 1})
        update(m.RUN_START, job, {(): run.began.timestamp()})
        update(m.RUN_ACTIVE, job, {(): 1})
        if "://" not in run.root:
            self._backlog = SourceBacklog(run.plan, Path(run.root) / "_skyband")
        self._registry.on_read(job, self._gauges)

    def committed(self, batch: Batch, at: datetime) -> None:
        """Add the figures of the batch."""
        self._registry.batch(self._job, batch)
        self._registry.update(m.COMMITTED, self._job, {(): at.timestamp()})
        self._rows |= batch.counts.kept()
        self._registry.update(m.STATE_ROWS, self._job, {(): sum(self._rows.values())})
        with suppress(Exception):  # Spark may be about to end: the size stays as it was
            self._registry.update(m.STATE_SIZE, self._job, {(place,): n for place, n in batch.state_bytes().items()})
        for lag, micros in ((m.WATERMARK_LAG, batch.frontier), (m.NEWEST_LAG, batch.newest)):
            if micros is not None:
                self._instants[lag] = micros / 1e6

    def ended(self, outcome: Mapping[str, Any]) -> None:
        """Set how the run ended."""
        self._over = True
        self._registry.update(m.RUN_ACTIVE, self._job, {(): 0})
        self._registry.update(m.EXIT_CODE, self._job, {(): outcome["exit_code"]})

    def _gauges(self) -> dict[Metric, Mapping[Labels, float]]:
        now = self._now()
        found: dict[Metric, Mapping[Labels, float]] = {lag: {(): now - at} for lag, at in list(self._instants.items())}
        with suppress(Exception):  # a file may be removed meanwhile, or the log is being compacted: the next look finds it
            if not self._over and self._backlog is not None and (waiting := self._backlog.look()) is not None:
                found |= {m.BACKLOG_FILES: {(): waiting[0]}, m.BACKLOG_SIZE: {(): waiting[1]}}
        return found
