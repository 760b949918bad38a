"""Spark as the engine of a run: it opens the job and its source, and runs batches as a streaming query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values
from skyband.framework.plan.growth import shards_of
from skyband.framework.plan.model import Plan
from skyband.framework.settings.spark import DEFAULT_TASKS, requested_tasks
from skyband.framework.sources.files.log_pruning import prune
from skyband.framework.sources.registry import source_format
from skyband.framework.spark_adapter.failures import log_file, system_failure_error
from skyband.framework.spark_adapter.jvm import delete_objects
from skyband.framework.storage.location import location
from skyband.framework.streaming.job.consistency import Found
from skyband.framework.streaming.job.layout import JobFile, Layout, fitting_job
from skyband.framework.streaming.job.locks import jvm_lock
from skyband.framework.streaming.job.lookup_versions import LookupVersions
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.rows.lookup_tables import read_tables
from skyband.framework.streaming.run.commit import CommitBatch
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource, RunContext
from skyband.framework.streaming.run.drift_check import DriftCheck
from skyband.framework.streaming.run.opening import continued, with_tables
from skyband.framework.streaming.run.results import GateSchedule
from skyband.framework.streaming.run.source_files import SourceFiles
from skyband.framework.streaming.run.spark_backlog import SparkBacklogCaps
from skyband.framework.streaming.run.stream import Stream
from skyband.framework.streaming.spark.executors import error_from_executor, require_driver_versions
from skyband.framework.streaming.spark.log import first_cause
from skyband.framework.tables.results.derive import Made, Make, Part, Spread
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.writer import Writer

# Derive parts of results in Spark's tasks, which read the tables and write files that the driver commits.

_Refused = tuple[str, str, str | None]
"""Code, message and hint of an error."""


@dataclass(frozen=True, slots=True)
class _Task:
    """The function that executors run. The plan lacks the source's options, which may hold secrets."""

    root: str
    plan: Plan
    generation: str
    make: Make

    def __call__(self, parts: Iterable[Part]) -> Iterator[Made | _Refused]:
        require_driver_versions()
        sink = Sink(self.plan, DriverWriter(location(self.root)), self.generation)
        for part in parts:
            try:
                yield self.make(sink, part)
            except SkybandError as e:
                # Spark would wrap it into an error of its own.
                yield e.code, e.message, e.hint


def on_spark(spark: SparkSession) -> Spread:
    """Return a function that derives parts in tasks of ``spark``, one part each. Raises their SkybandErrors, SKY-E300 if Spark fails."""

    def spread(sink: Sink, make: Make, parts: Sequence[Part]) -> list[Made]:
        root = sink.writer.task_root
        assert root is not None
        source = replace(sink.plan.source, options=(), parts=())
        task = _Task(root, replace(sink.plan, source=source, lookups=()), sink.generation, make)
        try:
            found = spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(task).collect()
        except Exception as e:  # Spark raises many types
            said = f"results could not be made: {first_cause(redact_values(str(e)))}"
            raise (
                system_failure_error(e, root, log_file())
                or error_from_executor(str(e))
                or SkybandError("SKY-E300", said, hint=f"Spark's log is {log_file()}")
            ) from e
        refused = [made for made in found if not isinstance(made, Made)]
        if refused:
            raise SkybandError(*refused[0])
        return [made for made in found if isinstance(made, Made)]

    return spread


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs jobs by Spark."""

    session: SparkSession

    @property
    def spread(self) -> Spread:
        """See ``Engine.spread``: tasks derive parts."""
        return on_spark(self.session)

    @property
    def local(self) -> bool:
        """See ``Engine.local``."""
        return False

    @contextmanager
    def held(self, layout: Layout) -> Iterator[None]:
        """See ``RunsBatches.held``: the JVM has a lock of its own, as it may outlive this process."""
        with jvm_lock(self.session, layout):
            yield

    def open(self, context: RunContext, plan: Plan, rebuild: bool, found: Found | None) -> OpenedJob:
        """See ``RunsBatches.open``."""
        return OpenJob(context, plan, rebuild, found).run()

    def writer(self, sink: str) -> Writer:
        """See ``RunsBatches.writer``."""
        return writer_for(sink, self.session)

    def source(self, context: RunContext, opened: OpenedJob) -> OpenedSource:
        """See ``RunsBatches.source``."""
        return OpenSource(context, opened).run()

    def stream(self, context: RunContext, opened: OpenedJob, source: OpenedSource, commit: CommitBatch, gate: GateSchedule) -> Stream:
        """See ``RunsBatches.stream``."""
        return Stream(context, opened, source, commit, gate)


@dataclass(frozen=True, slots=True)
class OpenJob:
    """Open the job, or create it in a first run: check that the plan fits its state, and give its state the plan's buckets and tasks.

    ``rebuild``: results are about to be derived again. ``found``: the tables as a caller found them already (``consistency.check``).
    """

    context: RunContext
    plan: Plan
    rebuild: bool
    found: Found | None

    def run(self) -> OpenedJob:
        """Return the job with its tables, which all exist. Raises SkybandError SKY-E303 if a part of its state is gone."""
        spark = self.context.spark
        job = fitting_job(self.plan, self.context.layout)
        if job is None:
            return with_tables(self.context, self.plan, self._create())
        return continued(self.context, self.plan, job, self.rebuild, self.found, lambda: spark, self._shaped)

    def _shaped(self, job: JobFile) -> tuple[JobFile, int]:
        """See ``opening.Shape``."""
        shards = self._shards(job.shards)
        return self._with_tasks(job, shards), shards

    def _with_tasks(self, job: JobFile, shards: int) -> JobFile:
        """Return ``job`` with the tasks of this run, which are recorded."""
        tasks = self._tasks(shards)
        if tasks != job.partitions:
            job = replace(job, partitions=tasks)
            self.context.layout.save(job)
        return job

    def _create(self) -> JobFile:
        spark, layout = self.context.spark, self.context.layout
        header = source_format(self.plan.source.format).columns(spark, self.plan.source)
        delete_objects(spark, layout.checkpoint)
        shards = self._shards(None)
        return layout.create(self.plan, self._tasks(shards), header, shards)

    def _tasks(self, shards: int) -> int:
        """Return how many tasks run buckets: as many as the environment asks for, at least one for each of the ``shards`` of a bucket."""
        partitions = int(self.context.spark.conf.get("spark.sql.shuffle.partitions") or DEFAULT_TASKS)
        # More tasks than buckets have nothing to do in any batch: they are there only if the user asks for them.
        return max(requested_tasks() or min(partitions, self.plan.buckets), shards)

    def _shards(self, now: int | None) -> int:
        return shards_of(self.plan, self.context.spark.sparkContext.defaultParallelism, now)


@dataclass(frozen=True, slots=True)
class OpenSource:
    """Check the source against what the job has read of it, and prune files that have been gone for long from Spark's file source log."""

    context: RunContext
    opened: OpenedJob

    def run(self) -> OpenedSource:
        """Return the source. Raises SkybandError SKY-E308 if its columns are no longer those of the job; of look-ups see ``pin``."""
        spark, layout, warn = self.context.spark, self.context.layout, self.context.warn
        plan, job = self.opened.plan, self.opened.job
        files = SourceFiles(plan, layout, job, self.opened.sink, self.opened.repeats_committed, warn)
        lookups = LookupVersions(plan, layout).pin(partial(read_tables, spark, plan), warn) if plan.lookups else {}
        times = SourceTimes(plan.intake.sources, self.opened.sink.last_runs(2) if plan.intake.sources else ())
        backlog = SparkBacklogCaps(spark, plan, layout, job, warn, lookups, times)
        keep, now = timedelta(microseconds=plan.keep_micros), datetime.now(UTC)
        source = OpenedSource(files, backlog, DriftCheck(plan, layout, job, files, warn), lookups, times)
        for _, part in plan.source.each:
            if part.path is not None:
                prune(layout.checkpoint, part.path, layout.taken_of(part.number), keep, now, part.number)
        return source
