"""This process as the engine of a run: it opens the job and its source, and runs batches by itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.plan.engine import require_local_engine
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.log_pruning import prune
from skyband.framework.sources.logs import last_batch
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.location import Location
from skyband.framework.storage.locations import remove_tree
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.bucket_states import NO_STATES, states_of
from skyband.framework.streaming.job.consistency import Found, check
from skyband.framework.streaming.job.filling import order
from skyband.framework.streaming.job.generations import swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, Waiting, fitting_job
from skyband.framework.streaming.job.unfinished import settle
from skyband.framework.streaming.local.backlog import LocalBacklogCaps
from skyband.framework.streaming.local.logs import Logs
from skyband.framework.streaming.local.loop import LocalStream
from skyband.framework.streaming.rebuild.rebucket import rebucket_job
from skyband.framework.streaming.rebuild.stored_states import stored_states
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.run.commit import CommitBatch
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource, RunContext
from skyband.framework.streaming.run.drift_check import DriftCheck
from skyband.framework.streaming.run.results import GateSchedule
from skyband.framework.streaming.run.source_files import SourceFiles
from skyband.framework.tables.results.deferred import batches_behind
from skyband.framework.tables.results.parts import Spread, in_process
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
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
    """Runs jobs in this process. ``state``: the directory of the job's state. ``start``: starts Spark, for what only Spark can do."""

    def __init__(self, state: Location, start: Callable[[], SparkSession]) -> None:
        self._state, self._start = state, start

    @property
    def session(self) -> SparkSession:
        """See ``Engine.session``: it starts when it is needed first."""
        return self._start()

    @property
    def spread(self) -> Spread:
        """See ``Engine.spread``."""
        return in_process

    def state_bytes(self) -> Mapping[str, int]:
        """See ``Engine.state_bytes``: those of the files."""
        return {"disk": StateFiles(self._state).bytes()}

    @contextmanager
    def held(self, layout: Layout) -> Iterator[None]:
        """See ``RunsBatches.held``: nothing of its own outlives this process."""
        yield

    def writer(self, sink: str) -> Writer:
        """See ``RunsBatches.writer``."""
        return writer_for(sink)

    def open(self, context: RunContext, plan: Plan, rebuild: bool, found: Found | None) -> OpenedJob:
        """See ``RunsBatches.open``. Raises SkybandError SKY-E137 if only Spark can run the job.

        A job that Spark has run is taken over: its state is copied, and buckets take it up in the first batch.
        """
        layout = context.layout
        require_local_engine(plan)
        job, tables = fitting_job(plan, layout), None
        if job is None:
            header = source_format(plan.source.format).columns(cast("SparkSession", _Session(self._start)), plan.source)
            job = layout.create(plan, 1, header, state="files")
        else:
            tables = check(plan, layout, job, rebuild, found=found)
            plan, job = rebucket_job(self._start, plan, layout, job, context.warn)
            settle(plan, layout, job, tables)
            job = order(layout, self._taken_over(layout, layout.renew(plan, job)))
            # What Spark kept before the job was taken over.
            remove_tree(layout.checkpoint / "state")
        sink = Sink(plan, context.writer, job.generation)
        sink.ensure_all()
        Logs(layout.checkpoint)
        for row in sink.last_runs(2):
            # A batch that was not marked done is repeated from the state of the one before.
            StateFiles(layout.state).require({bucket: state.token for bucket, state in (states_of(row) or NO_STATES).items()})
        return OpenedJob(plan, job, sink, tables is not None and tables.unfinished_committed)

    def _taken_over(self, layout: Layout, job: JobFile) -> JobFile:
        """Return ``job`` with its state in files. Raises SkybandError SKY-E209 if Spark keeps it and a batch is unfinished. O(state)."""
        if job.state == "files":
            return job
        planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
        if planned > done or batches_behind(layout.root):
            said = f"Spark was stopped before batch {planned} was complete: only Spark can complete it"
            raise SkybandError("SKY-E209", said, hint="run it once with --engine spark, then with --engine local")
        remove_tree(layout.added)
        made = Layout(str(layout.added))
        buckets = stored_states(self._start, layout, job, made.filling)
        filled = Waiting(secrets.token_hex(8), sorted(buckets))
        made.save(replace(job, filling=filled, state="files", shards=None, resharding=False, moving=None, engine_reads=""))
        failpoint("local.taken_over")
        swap_in(layout, [], [])
        return layout.known()

    def source(self, context: RunContext, opened: OpenedJob) -> OpenedSource:
        """See ``RunsBatches.source``."""
        layout, warn, plan, job = context.layout, context.warn, opened.plan, opened.job
        files = SourceFiles(plan, layout, job, opened.sink, opened.repeats_committed, warn)
        times = SourceTimes(plan.intake.sources)
        source = OpenedSource(
            files, LocalBacklogCaps(self._start, plan, layout, job, warn), DriftCheck(plan, layout, job, files, warn), {}, times
        )
        keep, now = timedelta(microseconds=plan.keep_micros), datetime.now(UTC)
        prune(layout.checkpoint, str(plan.source.path), layout.taken_of(0), keep, now)
        return source

    def stream(self, context: RunContext, opened: OpenedJob, source: OpenedSource, commit: CommitBatch, gate: GateSchedule) -> LocalStream:
        """See ``RunsBatches.stream``."""
        return LocalStream(context, opened, source, commit, gate)
