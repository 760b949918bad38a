"""The observer that keeps the figures of a run in a registry, which others read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.reasons import REASONS
from skyband.framework.observe.metrics import all_metrics as m
from skyband.framework.observe.metrics.all_metrics import Labels, Metric, version
from skyband.framework.observe.metrics.registry import Registry
from skyband.framework.observe.observers import Observer, StartedRun
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.listing import listing
from skyband.framework.sources.logs import local_path, taken
from skyband.framework.sources.registry import source_format

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan, SourceNode
    from skyband.framework.streaming.run.batch import Batch

# The backlog of a job while it runs: the files of its local sources that no batch has taken.

INTERVAL: Final = 15.0
"""The least seconds between two looks at a source's directory."""
_SHARE: Final = 50
"""A look that takes a second is followed by so many without one."""
_MOST: Final = 200_000
"""Most files of a directory that is looked at again."""


class SourceBacklog:
    """What waits at the local sources of a job. ``home``: the job's directory beside its tables. ``clock``: seconds, for tests."""

    def __init__(self, plan: Plan, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        parts = [part for _, part in plan.source.each if source_format(part.format).of_files and part.path is not None]
        self._parts = [_Part(part, home) for part in parts]
        self._clock = clock
        self._next = float("-inf")
        self._last: tuple[int, int] | None = None
        self._looking = threading.Lock()

    def look(self) -> tuple[int, int] | None:
        """Return (files, bytes) that wait, at most ``INTERVAL`` old; None if that cannot be known. O(files of the directories).

        Thread safe: while one thread looks, others get what was known before.
        """
        began = self._clock()
        if self._parts and began >= self._next and self._looking.acquire(blocking=False):
            try:
                found = [part.waiting() for part in self._parts]
                known = [f for f in found if f is not None]
                self._last = (sum(n for n, _ in known), sum(size for _, size in known)) if len(known) == len(found) else None
                now = self._clock()
                self._next = now + max(INTERVAL, _SHARE * (now - began))
            finally:
                self._looking.release()
        return self._last


class _Part:
    """One source of files. Reads of Spark's log of its files only what is new."""

    def __init__(self, source: SourceNode, home: Path) -> None:
        self._source = source
        self._home = home
        self._log = home / "checkpoint" / "sources" / str(source.number)
        self._seen = -1
        self._taken: set[str | None] = set()
        self._too_many = False

    def waiting(self) -> tuple[int, int] | None:
        """Return the number and the size of the files that wait; None for a remote or very large directory."""
        # Before the listing: what a batch takes in between is forgotten below, as the listing may not have it, and never read again.
        new = [] if self._too_many else taken(self._log, self._seen)
        found = None if self._too_many else listing(self._source)
        if found is None or len(found.files) > _MOST:
            self._too_many = found is not None
            return None
        self._seen = max([self._seen, *(t.number for t in new)])
        self._taken.update(local_path(t.url) for t in new)
        aside = {local_path(url) for url in Ledger.load(self._home, self._source.number).aside}
        waiting = [f for f in found.files if f not in self._taken and f not in aside]
        # What is no longer there need not be remembered.
        self._taken.intersection_update(found.files)
        return len(waiting), sum(map(_size, waiting))


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0


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
