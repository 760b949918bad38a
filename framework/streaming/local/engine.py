"""This process as the engine of a run: it opens the job and its source, and runs batches by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Warn
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.engine import require_local_engine
from skyband.framework.plan.model import Plan
from skyband.framework.settings.spark import DEFAULT_TASKS
from skyband.framework.sources.files.log_pruning import prune
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.consistency import Found
from skyband.framework.streaming.job.layout import Layout, fitting_job
from skyband.framework.streaming.job.lookup_versions import LookupVersions
from skyband.framework.streaming.local.backlog import LocalBacklogCaps
from skyband.framework.streaming.local.logs import Logs
from skyband.framework.streaming.local.loop import LocalStream
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.run.commit import CommitBatch
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource, RunContext
from skyband.framework.streaming.run.drift_check import DriftCheck
from skyband.framework.streaming.run.opening import continued, with_tables
from skyband.framework.streaming.run.results import GateSchedule
from skyband.framework.streaming.run.source_files import SourceFiles
from skyband.framework.tables.results.derive import Spread, in_process
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Session:
    """Stands for Spark's session where a format may or may not need one: it starts at the first use."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start(), name)


class LocalEngine:
    """Runs jobs in this process. ``start``: starts Spark, for what only Spark can do."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start

    @property
    def session(self) -> SparkSession:
        """See ``Engine.session``: it starts when it is needed first."""
        return self._start()

    @property
    def spread(self) -> Spread:
        """See ``Engine.spread``."""
        return in_process

    @property
    def local(self) -> bool:
        """See ``Engine.local``."""
        return True

    @contextmanager
    def held(self, layout: Layout) -> Iterator[None]:
        """See ``RunsBatches.held``: nothing of its own outlives this process."""
        yield

    def writer(self, sink: str) -> Writer:
        """See ``RunsBatches.writer``."""
        return writer_for(sink)

    def open(self, context: RunContext, plan: Plan, rebuild: bool, found: Found | None) -> OpenedJob:
        """See ``RunsBatches.open``. Raises SkybandError SKY-E137 if only Spark can run the job."""
        layout = context.layout
        require_local_engine(plan)
        job = fitting_job(plan, layout)
        if job is None:
            format_ = source_format(plan.source.format)
            # A table that only Spark reads is refused before the job is there.
            format_.added_files(plan.source)
            header = format_.columns(cast("SparkSession", _Session(self._start)), plan.source)
            opened = with_tables(context, plan, layout.create(plan, DEFAULT_TASKS, header))
        else:
            opened = continued(context, plan, job, rebuild, found, self._start, lambda job: (job, 1))
        Logs(layout.checkpoint)
        return opened

    def source(self, context: RunContext, opened: OpenedJob) -> OpenedSource:
        """See ``RunsBatches.source``."""
        layout, warn, plan, job = context.layout, context.warn, opened.plan, opened.job
        files = SourceFiles(plan, layout, job, opened.sink, opened.repeats_committed, warn)
        lookups = LookupVersions(plan, layout).pin(partial(self._lookups, plan, warn), warn) if plan.lookups else {}
        backlog = LocalBacklogCaps(self._start, plan, layout, job, warn, lookups)
        source = OpenedSource(files, backlog, DriftCheck(plan, layout, job, files, warn), lookups, SourceTimes(plan.intake.sources))
        keep, now = timedelta(microseconds=plan.keep_micros), datetime.now(UTC)
        prune(layout.checkpoint, str(plan.source.path), layout.taken_of(0), keep, now)
        return source

    def stream(self, context: RunContext, opened: OpenedJob, source: OpenedSource, commit: CommitBatch, gate: GateSchedule) -> LocalStream:
        """See ``RunsBatches.stream``."""
        return LocalStream(context, opened, source, commit, gate)

    def _lookups(self, plan: Plan, warn: Warn) -> Tables:
        """Return the tables of look-ups as they are now. Raises as ``lookup_tables.read_tables``."""
        # Few jobs have look-ups, and reading them loads much.
        from skyband.framework.lookups.in_memory import read_tables

        try:
            return read_tables(plan)
        except SkybandError as e:
            if e.code != "SKY-E531":
                raise
            warn(f"look-up tables can only be read by Spark, which starts for it: {e.message}")
        from skyband.framework.streaming.rows.lookup_tables import read_tables as read_by_spark

        return read_by_spark(self._start(), plan)
