"""One run of a job, as a list of stages: ``Runner.run`` shows their order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from skyband.framework.base.failpoints import failpoint
from skyband.framework.plan.finish import FinishAt, finished_frontier
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.streaming.job.consistency import Found
from skyband.framework.streaming.job.control import drop_flushes, order_flush
from skyband.framework.streaming.job.idle import note
from skyband.framework.streaming.job.layout import Layout, check_sink_location
from skyband.framework.streaming.job.locks import one_run
from skyband.framework.streaming.rows.shards import several
from skyband.framework.streaming.run.alerting import Alerting
from skyband.framework.streaming.run.batch import EPOCH, Report, Totals
from skyband.framework.streaming.run.commit import CommitBatch
from skyband.framework.streaming.run.context import Batches, Engine, OpenedJob, OpenedSource, RunContext, Texts
from skyband.framework.streaming.run.live_queries import LiveQueries, Replan
from skyband.framework.streaming.run.results import GateSchedule, Results
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.writer import Writer

if TYPE_CHECKING:
    from skyband.framework.streaming.run.kafka_sink import KafkaSink


# The stages of a run before and after the stream. Each has what it needs in its fields, and ``run`` returns what it gives.
#
# ``Runner.run`` lists the stages in their order.

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
        buckets, job = self.opened.plan.buckets, self.opened.job
        shards = several(job.shards, buckets)
        numbers = {*range(buckets), *(() if shards is None else shards.numbers())}
        return Totals(self.opened.sink.last_runs(2), numbers, job.new_states)


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
class Finish:
    """Declare the input complete up to ``at``: move the frontier there, durably, and process what is due."""

    context: RunContext
    opened: OpenedJob
    totals: Totals
    stream: Batches
    at: FinishAt = "newest"

    def run(self) -> bool:
        """Return False if a signal stopped the stream."""
        if self.totals.newest is None:
            return True
        layout, job = self.context.layout, self.opened.job
        # Spark counts in ms: every frontier gets a watermark of its own, later than those before.
        known = {f: w for w, f in job.finishes}
        # An earlier finish may have gone further than the newest row.
        frontier = max([finished_frontier(self.opened.plan, self.totals.newest, self.at), *known])
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


_TEXTS: Final = Texts()
"""Warnings go to standard error, all other texts nowhere."""


class RunsBatches(Engine, Protocol):
    """An engine as a run needs it: what opens a job and runs its batches."""

    def held(self, layout: Layout) -> AbstractContextManager[None]:
        """Return what holds during a run, for a caller that holds the job's lock."""

    def open(self, context: RunContext, plan: Plan, rebuild: bool, found: Found | None) -> OpenedJob:
        """Open the job, or create it in a first run. ``rebuild``, ``found``: see ``OpenJob``."""

    def writer(self, sink: str) -> Writer:
        """Return the writer of the tables below ``sink``."""

    def source(self, context: RunContext, opened: OpenedJob) -> OpenedSource:
        """Check the source against what the job has read of it."""

    def stream(self, context: RunContext, opened: OpenedJob, source: OpenedSource, commit: CommitBatch, gate: GateSchedule) -> Batches:
        """Return what runs the batches; each is passed to ``commit``."""


class Finished(NamedTuple):
    """What a run leaves. ``completed``: False if a signal stopped it before all was done; then nothing was declared complete."""

    completed: bool
    sink: Sink
    header: list[str] | None


class Runner:
    """Runs ``plan`` by ``engine``. For the callbacks see ``RunContext``. ``replan``: see ``LiveQueries``.

    ``opened`` is called with the plan whenever all of its tables exist: at the start, and when live queries have changed them.
    """

    def __init__(
        self,
        engine: RunsBatches,
        plan: Plan,
        writer: Writer,
        report: Report,
        texts: Texts = _TEXTS,
        gate: Callable[[Sink], object] = lambda _: None,
        clock: int | None = None,
        replan: Replan | None = None,
        opened: Callable[[Plan], None] = lambda _: None,
    ) -> None:
        self.engine, self.plan, self.replan, self.opened = engine, plan, replan, opened
        self.context = RunContext(engine, Layout(plan.sink), writer, report, texts, gate, clock)

    def run(
        self, once: bool = True, finish: bool = False, rebuild: bool = False, found: Found | None = None, finish_at: FinishAt = "newest"
    ) -> Finished:
        """Stream over the present input (``once``) or until a signal; ``finish`` then declares the input complete up to ``finish_at``.

        ``rebuild``: first derive the tables of results again. ``found``: see ``OpenJob``.

        Raises SkybandError SKY-E150 (the spec no longer fits the state), SKY-E205 (the sink is not the job's own), SKY-E302 (another
        run is active), SKY-E300 (Spark failed), SKY-E301 (the source), SKY-E303 and SKY-E304 (something is lost), SKY-E305 (a worker
        died), SKY-E308 (the source has other columns), SKY-E502 (a row breaks a rule of severity ``fail``), SKY-E506 (rows stand
        apart: ``max_jump``), SKY-E640 (changes cannot be sent), SKY-E650 (the state cannot be divided as
        requested).
        """
        context, layout = self.context, self.context.layout
        check_sink_location(self.plan, layout)
        with one_run(layout, self.plan.job), self.engine.held(layout), Alerting(context) as alerting:
            live, plan = LiveQueries(context, self.replan), self.plan
            while True:
                opened = self.engine.open(context, plan, rebuild, found)
                self.opened(opened.plan)
                totals = Resume(opened).run()
                if (changing := live.due(totals)) and live.ready():
                    plan, found = live.take(opened), None
                    # Tables of the same names may be others now.
                    context = replace(context, writer=self.engine.writer(plan.sink))
                    continue
                source = self.engine.source(context, opened)
                results = Results(context, opened, totals)
                if rebuild:
                    results.derive()
                kafka = SendBacklog(context, opened, totals.last_batch).run()
                alerting.begin(opened, totals.last_batch)
                commit = CommitBatch(context, opened, source, totals, results, kafka, alerting)
                gate = GateSchedule(context, opened, results, None if once else opened.plan.check_every, totals.last_batch)
                stream = self.engine.stream(replace(context, boundary=partial(live.due, totals)), opened, source, commit, gate)
                # Requests wait for the end of an unfinished batch.
                completed = stream.run(once or changing, READING if once else WAITING)
                if not completed or (once and not changing) or not live.due(totals):
                    break
                if not live.ready():
                    completed = stream.run(once=True, phase=READING) and Flush(context, totals, stream).run()
                    if not completed:
                        break
                results.derive()
                rebuild, found = False, None
            if completed and finish:
                completed = Finish(context, opened, totals, stream, finish_at).run()
            if completed:
                completed = Flush(context, totals, stream).run()
            results.derive()
            if completed and once:
                RecordIdle(context, opened, totals, kafka).run()
            if completed or not once:
                alerting.complete()
        return Finished(completed or not once, opened.sink, opened.job.header)
