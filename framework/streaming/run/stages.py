"""The stages of a run before and after the stream. Each has what it needs in its fields, and ``run`` returns what it gives.

``runner`` lists the stages in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from skyband.framework.base.failpoints import failpoint
from skyband.framework.plan.model import Plan
from skyband.framework.plan.sharding import shards_of
from skyband.framework.settings.spark import requested_tasks
from skyband.framework.sources.files.log_pruning import prune
from skyband.framework.sources.logs import last_batch
from skyband.framework.sources.registry import source_format
from skyband.framework.spark_adapter.jvm import delete_objects
from skyband.framework.streaming.job.consistency import Found, check
from skyband.framework.streaming.job.control import drop_flushes, order_flush
from skyband.framework.streaming.job.filling import order, taken_up
from skyband.framework.streaming.job.idle import note
from skyband.framework.streaming.job.layout import JobFile, fitting_job
from skyband.framework.streaming.job.lookup_versions import LookupVersions
from skyband.framework.streaming.job.unfinished import settle
from skyband.framework.streaming.rebuild.partitions import move_state
from skyband.framework.streaming.rebuild.rebucket import rebucket_job
from skyband.framework.streaming.rebuild.reshard import complete, reshard
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.rows.lookup_tables import read_tables
from skyband.framework.streaming.run.backlog import BacklogCaps
from skyband.framework.streaming.run.batch import EPOCH, Totals
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource, RunContext
from skyband.framework.streaming.run.drift_check import DriftCheck
from skyband.framework.streaming.run.kafka_sink import KafkaSink
from skyband.framework.streaming.run.source_files import SourceFiles
from skyband.framework.streaming.run.stream import Stream
from skyband.framework.tables.writing.sink import Sink

READING: Final = "reading"
WAITING: Final = "waiting for new rows"
FINISHING: Final = "finishing: rows that wait are processed"
_FLUSHES: Final = 5
"""The most queries at the end of a run that let buckets flush: each also reads the rows that have arrived in the meantime."""


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
        """Return the job with its tables, which all exist."""
        spark, layout = self.context.spark, self.context.layout
        job, tables, plan = fitting_job(self.plan, layout), None, self.plan
        if job is None:
            job = self._create()
        else:
            tables = check(plan, layout, job, self.rebuild, found=self.found)
            plan, job = rebucket_job(spark, plan, layout, job, self.context.warn)
            settle(plan, layout, job, tables)
            job = order(layout, layout.renew(plan, job))
        sink = Sink(plan, self.context.writer, job.generation)
        sink.ensure_all()
        shards = self._shards(job.shards[0] if job.shards is not None else 1)
        job = complete(layout, job)
        job = move_state(spark, layout, job, sink, self.context.warn, self.context.phase, shards)
        job = reshard(spark, plan, layout, job, shards, self.context.warn)
        return OpenedJob(plan, job, sink, tables is not None and tables.unfinished_committed)

    def _create(self) -> JobFile:
        spark, layout = self.context.spark, self.context.layout
        header = source_format(self.plan.source.format).columns(spark, self.plan.source)
        partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
        delete_objects(spark, layout.checkpoint)
        # More tasks than buckets have nothing to do in any batch: create them only if the user asks for them.
        tasks, shards = partitions if requested_tasks() else min(partitions, self.plan.buckets), self._shards(None)
        return layout.create(self.plan, max(tasks, shards), header, shards)

    def _shards(self, now: int | None) -> int:
        return shards_of(self.plan, self.context.spark.sparkContext.defaultParallelism, now)


@dataclass(frozen=True, slots=True)
class Resume:
    """Read the totals of the last batches."""

    opened: OpenedJob

    def run(self) -> Totals:
        """Return the totals from which the next batch goes on."""
        return Totals(self.opened.sink.last_runs(2))


@dataclass(frozen=True, slots=True)
class OpenSource:
    """Check the source against what the job has read of it, and prune files that have been gone for long from Spark's file source log."""

    context: RunContext
    opened: OpenedJob

    def run(self) -> OpenedSource:
        """Return the source. Raises SkybandError SKY-E308 if its columns are no longer those of the job; of look-ups see ``pin``."""
        spark, layout, warn = self.context.spark, self.context.layout, self.context.warn
        plan, job = self.opened.plan, self.opened.job
        files = SourceFiles(spark, plan, layout, job, self.opened.sink, self.opened.repeats_committed, warn)
        lookups = LookupVersions(plan, layout).pin(partial(read_tables, spark, plan), warn) if plan.lookups else {}
        times = SourceTimes(plan.intake.sources, self.opened.sink.last_runs(2) if plan.intake.sources else ())
        backlog = BacklogCaps(spark, plan, layout, job, warn, lookups, times)
        keep, now = timedelta(microseconds=plan.keep_micros), datetime.now(UTC)
        source = OpenedSource(files, backlog, DriftCheck(plan, layout, job, files, warn), lookups, times)
        for _, part in plan.source.each:
            if part.path is not None:
                prune(layout.checkpoint, part.path, layout.taken_of(part.number), keep, now, part.number)
        return source


@dataclass(frozen=True, slots=True)
class SendBacklog:
    """Send to Kafka the changes that an earlier run committed and did not send."""

    context: RunContext
    opened: OpenedJob
    last_batch: int

    def run(self) -> KafkaSink | None:
        """Return the Kafka sink, None if the spec has none."""
        plan = self.opened.plan
        if plan.kafka is None:
            return None
        kafka = KafkaSink(self.context.spark, plan, plan.kafka, self.context.layout, self.opened.job, self.opened.sink)
        if self.last_batch >= 0:
            self.context.phase("sending changes")
            kafka.catch_up(self.last_batch)
        return kafka


@dataclass(frozen=True, slots=True)
class CompleteFilling:
    """Remove the state files of added queries once all buckets have loaded them."""

    context: RunContext
    opened: OpenedJob

    def run(self) -> None:
        """Clear ``filling`` of the job, unless buckets still need the files."""
        self.opened.job.filling = taken_up(self.context.layout, self.opened.job).filling


@dataclass(frozen=True, slots=True)
class Finish:
    """Declare the input complete: move the frontier to 1 microsecond after the newest event time, durably, and process what is due."""

    context: RunContext
    opened: OpenedJob
    totals: Totals
    stream: Stream

    def run(self) -> bool:
        """Return False if a signal stopped the stream."""
        if self.totals.newest is None:
            return True
        layout, job, frontier = self.context.layout, self.opened.job, self.totals.newest + 1
        # Spark counts in ms: every frontier gets a watermark of its own, later than those before.
        known = {f: w for w, f in job.finishes}
        watermark_ms = known.get(frontier, max([-(-frontier // 1000), *(w + 1 for w in known.values())]))
        if frontier not in known:
            job.finishes.append([watermark_ms, frontier])
            layout.save(job)
        failpoint("finish.declared")
        at = EPOCH + timedelta(milliseconds=watermark_ms + self.opened.plan.intake.delay_ms)
        layout.order_finish(at.isoformat(timespec="milliseconds"), frontier)
        failpoint("finish.ordered")
        return self.stream.run(once=True, phase=FINISHING)


@dataclass(frozen=True, slots=True)
class Flush:
    """Let buckets send the rows of ``heads`` and skybands that they have deferred."""

    context: RunContext
    totals: Totals
    stream: Stream

    def run(self) -> bool:
        """Return False if a signal stopped the stream; then the next run does it.

        Rows that have arrived in the meantime come with the flush, and batches after it may defer again. If they do so every time, the
        next run does it.
        """
        control = self.context.layout.control
        for _ in range(_FLUSHES):
            if not self.totals.behind:
                break
            # The queries before are complete.
            drop_flushes(control, self.totals.last_batch)
            order_flush(control, self.totals.last_batch)
            if not self.stream.run(once=True, phase=READING):
                return False
        return True


@dataclass(frozen=True, slots=True)
class RecordIdle:
    """Record that the job has nothing left to do, so that the next run need not start Spark for an unchanged source."""

    context: RunContext
    opened: OpenedJob
    totals: Totals
    kafka: KafkaSink | None

    def run(self) -> None:
        """Write the note, unless buckets still have to flush. Files that arrived during the finish are not declared complete by it."""
        if self.totals.behind:
            return
        layout, job, newest = self.context.layout, self.opened.job, self.totals.newest
        finished = newest is None or any(f > newest for _, f in job.finishes[-1:])
        batch = last_batch(layout.checkpoint / "commits")
        note(layout, job, batch, finished)
        if self.kafka is not None:
            self.kafka.rest(batch)
