"""The stages of a run before and after the stream. Each has what it needs in its fields, and ``run`` returns what it gives.

``runner`` lists the stages in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from skyband.framework.base.failpoints import failpoint
from skyband.framework.sources.logs import last_batch
from skyband.framework.streaming.job.control import drop_flushes, order_flush
from skyband.framework.streaming.job.filling import taken_up
from skyband.framework.streaming.job.idle import note
from skyband.framework.streaming.rows.shards.slots import Shards
from skyband.framework.streaming.run.batch import EPOCH, Totals
from skyband.framework.streaming.run.context import Batches, OpenedJob, RunContext

if TYPE_CHECKING:
    from skyband.framework.streaming.run.kafka_sink import KafkaSink

READING: Final = "reading"
WAITING: Final = "waiting for new rows"
FINISHING: Final = "finishing: rows that wait are processed"
_FLUSHES: Final = 5
"""The most queries at the end of a run that let buckets flush: each also reads the rows that have arrived in the meantime."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Read the totals of the last batches."""

    opened: OpenedJob

    def run(self) -> Totals:
        """Return the totals from which the next batch goes on."""
        buckets, shards = self.opened.plan.buckets, self.opened.job.shards
        of_shards = () if shards is None else Shards(shards[0], buckets).numbers()
        return Totals(self.opened.sink.last_runs(2), {*range(buckets), *of_shards})


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
        # It loads Spark.
        from skyband.framework.streaming.run.kafka_sink import KafkaSink

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
    stream: Batches

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
    stream: Batches

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
