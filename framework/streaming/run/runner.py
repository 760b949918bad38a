"""One run of a job: refuse what does not fit, stream, write tables exactly once, finish if asked, derive results."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import (
    ACCEPTED,
    CHANGED,
    FRONTIER,
    NEWEST,
    PENDING,
    REJECTED,
    ROWS_IN,
    RUNS,
    STOPPING,
    TIMES,
    Tally,
    time_count,
)
from skyband.framework.base.reasons import CONTROL, FILTERED, REASONS
from skyband.framework.base.redaction import redact_values
from skyband.framework.console.lines import Warn, warning_to_stderr
from skyband.framework.plan.model import Plan
from skyband.framework.row_rules.rules import stopped_by_rule
from skyband.framework.settings.tasks import requested_tasks
from skyband.framework.sources.files.log_pruning import prune
from skyband.framework.sources.logs import last_batch, watermark
from skyband.framework.sources.registry import source_format
from skyband.framework.spark_adapter.jvm import delete_objects
from skyband.framework.streaming.bucket.hand_off import handed_on
from skyband.framework.streaming.job.checkpoint import failure as lost_part
from skyband.framework.streaming.job.consistency import Found, check
from skyband.framework.streaming.job.filling import order, taken_up
from skyband.framework.streaming.job.idle import note
from skyband.framework.streaming.job.layout import JobFile, Layout, fitting_job, own_place
from skyband.framework.streaming.job.locks import jvm_lock, one_run
from skyband.framework.streaming.job.unfinished import settle
from skyband.framework.streaming.rebuild.partitions import moved
from skyband.framework.streaming.rebuild.rebucket import grown
from skyband.framework.streaming.rows.arrow_intake import odd
from skyband.framework.streaming.run.backlog import Drops
from skyband.framework.streaming.run.delivery import Delivery
from skyband.framework.streaming.run.deriving import on_spark
from skyband.framework.streaming.run.drifts import Drifts
from skyband.framework.streaming.run.kafka_sink import outlet_of
from skyband.framework.streaming.run.pieces import Pieces
from skyband.framework.streaming.run.query import run_batch, start
from skyband.framework.streaming.run.received import Received
from skyband.framework.streaming.spark.executors import Watch, error_from_executor
from skyband.framework.streaming.spark.failures import system_failure_error
from skyband.framework.streaming.spark.jvm import worker_failed
from skyband.framework.streaming.spark.log import first_cause, log_file
from skyband.framework.streaming.spark.state_stores import closed_after
from skyband.framework.streaming.spark.stop_signal import STOP
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.writer import Writer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Batch:
    """What one micro-batch did: the figures of its ``runs`` row; ``newest`` and ``frontier`` in microseconds.

    ``reasons``: rejected rows by reason as table ``rejected`` spells it; ``changes``: by query, of those that have any.
    """

    number: int
    counts: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    pending: int = 0
    newest: int | None = None
    frontier: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)

    def get(self, name: str) -> int:
        """A count, 0 if nothing was counted under that name."""
        return self.counts[name]

    def rejected(self) -> dict[str, int]:
        """Rejected rows by class of reason: the classes that ``runs`` has columns for."""
        return {c.name: sum(self.counts[n] for n in c.counts) for c in REASONS}


Report = Callable[[Batch], None]


class Runner:
    """Runs ``plan``. ``report`` is called after every batch; ``derive_seconds`` is the cadence of results in continuous runs.

    ``warn`` gets what a user has to know besides, ``phase`` what is being done, in a few words. ``gate`` is handed the tables every
    ``plan.check_every`` batches of a continuous run, with results up to date.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        writer: Writer,
        report: Report,
        derive_seconds: float = 60.0,
        warn: Warn = warning_to_stderr,
        phase: Warn = lambda _: None,
        gate: Callable[[Sink], object] = lambda _: None,
    ) -> None:
        self.spark = spark
        self.plan = plan
        self.writer = writer
        self.report = report
        self.warn = warn
        self.phase = phase
        self.gate = gate
        self.doing = "reading"
        self.derive_seconds = derive_seconds
        self.layout = Layout(plan.sink)
        self.pending = 0
        self.newest: int | None = None
        self.frontier: int | None = None
        self.last_batch = -1
        self.derived_at = clock.monotonic()
        self.failure: BaseException | None = None
        self.begun: int | None = None
        self.gate_at: int | None = None
        self.engine_reads = ""

    def run(self, once: bool = True, finish: bool = False, rebuild: bool = False, found: Found | None = None) -> bool:
        """Streams over what is there (``once``) or until stopped; ``finish`` then declares the input complete.

        ``rebuild``: the derived tables are made anew from the changes first. ``found``: see ``intact.check``.

        False if it was stopped before it had done what it was asked to do: then nothing has been declared.

        Raises SkybandError SKY-E150 (the spec no longer fits the state), SKY-E205 (the sink is not the job's own), SKY-E302 (another
        run is active), SKY-E300 (Spark failed), SKY-E301 (the source), SKY-E303 and SKY-E304 (something is lost), SKY-E305 (a worker
        died), SKY-E308 (its columns are others now), SKY-E502 (a row breaks a rule of severity ``fail``), SKY-E640 (changes cannot be
        sent), SKY-E650 and SKY-E651 (the state cannot be divided, or moved, as it is asked).
        """
        own_place(self.plan, self.layout)
        handing = handed_on(self.spark, str(self.layout.checkpoint))
        with one_run(self.layout, self.plan.job), jvm_lock(self.spark, self.layout), handing:
            self.job, held = self._job_file(rebuild, found)
            self.sink = Sink(self.plan, self.writer, self.job.generation)
            self.sink.ensure_all()
            self.job = moved(self.spark, self.layout, self.job, self.sink, self.warn, self.phase)
            self._resume()
            committed = held is not None and held.unfinished_committed
            self.pieces = Pieces(self.spark, self.plan, self.layout, self.job, self.sink, committed, self.warn)
            self.drops = Drops(self.spark, self.plan, self.layout, self.job, self.warn)
            self.drifts = Drifts(self.plan, self.layout, self.job, self.pieces, self.warn)
            self._forget()
            if rebuild:
                self._derive()
            self.outlet = outlet_of(self.spark, self.plan, self.layout, self.job, self.sink)
            if self.outlet is not None and self.last_batch >= 0:
                self.phase("sending changes")
                self.outlet.catch_up(self.last_batch)
            self.doing = "reading" if once else "waiting for new rows"
            if not once and self.plan.check_every is not None:
                self.gate_at = self.last_batch + self.plan.check_every
            ended = self._stream(once)
            self.job = taken_up(self.layout, self.job)
            if ended and finish:
                ended = self._finish()
            self._derive()
            if ended and once:
                self._rest()
        return ended or not once

    def _rest(self) -> None:
        """Notes that all is done. Files may have come while the end of those before was declared: then it is not declared for them."""
        finished = self.newest is None or any(f > self.newest for _, f in self.job.finishes[-1:])
        batch = last_batch(self.layout.checkpoint / "commits")
        note(self.layout, self.job, batch, finished)
        if self.outlet is not None:
            self.outlet.rest(batch)

    def _job_file(self, rebuild: bool, found: Found | None) -> tuple[JobFile, Found | None]:
        """The job file, and what earlier runs' tables hold: None if this is the first."""
        job = fitting_job(self.plan, self.layout)
        if job is None:
            header = source_format(self.plan.source.format).columns(self.spark, self.plan.source)
            partitions = int(self.spark.conf.get("spark.sql.shuffle.partitions") or 2)
            delete_objects(self.spark, self.layout.checkpoint)
            # More tasks than buckets have nothing to do, at every batch: only if they are asked for.
            return self.layout.create(self.plan, partitions if requested_tasks() else min(partitions, self.plan.buckets), header), None
        held = check(self.plan, self.layout, job, rebuild, found=found)
        self.plan, job = grown(self.spark, self.plan, self.layout, job, self.warn)
        settle(self.plan, self.layout, job, held)
        return order(self.layout, self.layout.renew(self.plan, job)), held

    def _resume(self) -> None:
        """What earlier runs left: the last batch's running totals."""
        self._totals: dict[int, tuple[int, int | None, int | None, bool]] = {}
        # Two of them: the last one's batch is repeated if it was not marked done.
        for row in self.sink.last_runs(2):
            self.last_batch, self.pending = int(row["batch_id"]), int(row["pending"])
            self.newest, self.frontier = _micros(row["newest"]), _micros(row["frontier"])
            self._totals[self.last_batch] = self.pending, self.newest, self.frontier, CONTROL in json.loads(row["counters"])

    def _forget(self) -> None:
        """Drops the names of source files that have been gone for long from Spark's list."""
        if self.plan.source.path is not None:
            keep = timedelta(microseconds=self.plan.keep_micros)
            prune(self.layout.checkpoint, self.plan.source.path, self.layout.taken, keep, datetime.now(UTC))

    def _stream(self, once: bool) -> bool:
        """Runs the query to its end, or until a signal stops it: then False. First over what lies there, if that has to be a unit."""
        while self.drops.begin():
            if not self._query(once=True):
                return False
            if not self.drops.done() and once:
                return True
        return self._query(once)

    def _query(self, once: bool) -> bool:
        """As ``_stream``, of one query. Once more where files had to be set aside."""
        ended = None
        while ended is None:
            ended = self._stream_as_is(once)
        return ended

    def _stream_as_is(self, once: bool) -> bool | None:
        """As ``_stream``; None if the query failed for files that are set aside now."""
        self.begun = None
        self.phase(self.doing)
        try:
            left_out, capped = self.pieces.left_out(), self.drops.capped
            job = replace(self.job, engine_reads=self.engine_reads or self.job.engine_reads)
            query = start(self.spark, self.plan, self.layout, job, self._on_batch, once, left_out, capped, Delivery.of(self.sink))
        except PySparkException as e:
            raise lost_part(str(e), self.layout.checkpoint) or self._told(e) from e
        executors = Watch(self.spark)
        with closed_after(self.spark, query, self.layout.checkpoint, self.job.partitions), STOP.heeded():
            try:
                while not query.awaitTermination(1):
                    if STOP.signal is not None:
                        query.stop()
                        break
                    executors.look()
            except SkybandError:
                query.stop()
                raise
            except StreamingQueryException as e:
                # A terminal's Ctrl-C reaches Spark's workers too: the batch may fail before it is stopped.
                if STOP.signal is None:
                    tried = (self._switch_to_spark, partial(self.pieces.set_aside, batch=self.begun))
                    if self.failure is None and any(mended(str(e)) for mended in tried):
                        return None
                    raise self._told(e) from e
        return STOP.signal is None

    def _switch_to_spark(self, said: str) -> bool:
        """Whether the query failed because Spark has to read files that tasks were to read: from now on it does.

        The rows are the same whoever reads them, so a batch may change hands. For good, if there will be more such files.
        """
        found = odd(said)
        if found is None or self.job.engine_reads or self.engine_reads:
            return False
        self.engine_reads, lasting = found
        if lasting:
            self.job.engine_reads = self.engine_reads
            self.layout.save(self.job)
        return True

    def _told(self, e: Exception) -> BaseException:
        """Spark's error as the user's: the machine's, the source's own, one of a batch, or what Spark says."""
        said, log = str(e), log_file()
        of_source = source_format(self.plan.source.format).failure(said, self.job.header, self.plan.source.path)
        hint = f"fix what it names, then run again: nothing that was committed is lost; Spark's log is {log}"
        of_checkpoint = lost_part(said, self.layout.checkpoint)
        died = error_from_executor(said) or worker_failed(said, log)
        failed = SkybandError("SKY-E300", f"the run failed: {first_cause(redact_values(said))}", hint=hint)
        return self.failure or system_failure_error(e, self.layout.checkpoint, log) or of_source or of_checkpoint or died or failed

    def _on_batch(self, df: DataFrame, batch_id: int) -> None:
        try:
            self._commit(df, batch_id)
        except BaseException as e:
            self.failure = e if isinstance(e, SkybandError) else None
            raise

    def _commit(self, df: DataFrame, batch_id: int) -> None:
        started = clock.perf_counter()
        self.begun = batch_id
        sent = run_batch(df, batch_id, self.layout)
        ran = clock.perf_counter()
        failpoint("state.after")
        received = Received.of(sent)
        counts, stopping = received.counts, received.tables().get(STOPPING)
        if stopping is not None:
            # Before anything of the batch is kept anywhere.
            raise stopped_by_rule(self.plan, batch_id, stopping, counts[STOPPING])
        received.put(REJECTED, self.pieces.before_commit(batch_id, counts))
        drift = self.drifts.before_commit(batch_id)
        self.drops.read(counts)
        batch = Batch(batch_id, counts, reasons=received.reasons(), changes=received.changes())
        self._total(batch)
        runs = {RUNS: self._runs_row(batch, ran - started, drift)}
        self.sink.commit(batch_id, received.tables() | runs, received.files)
        self.drifts.committed()
        if self.outlet is not None:
            self.outlet.send(batch_id)
        batch.seconds = clock.perf_counter() - started
        self.last_batch = max(self.last_batch, batch_id)
        if clock.monotonic() - self.derived_at > self.derive_seconds:
            self._derive()
        self.report(batch)
        self._pass_gate(batch_id)

    def _pass_gate(self, batch_id: int) -> None:
        """Hands on the tables if so many batches have come since the last time."""
        if self.gate_at is None or batch_id < self.gate_at:
            return
        self._derive()
        self.phase("checking the tables")
        self.gate(self.sink)
        self.phase(self.doing)
        self.gate_at = batch_id + (self.plan.check_every or 1)

    def _total(self, batch: Batch) -> None:
        """Running totals from the batch before: a repeated batch comes to the same figures."""
        earlier = [b for b in self._totals if b < batch.number]
        pending, newest, frontier, controlled = self._totals[max(earlier)] if earlier else (0, None, None, False)
        pending += batch.counts[PENDING]
        if NEWEST in batch.counts:
            newest = max(newest or batch.counts[NEWEST], batch.counts[NEWEST])
        if FRONTIER in batch.counts:
            frontier = max(frontier or batch.counts[FRONTIER], batch.counts[FRONTIER])
        if controlled:
            # The batch before brought a row of the control source: if it was a finish's, or a drop's, the watermark is there now.
            at, released = watermark(self.layout.checkpoint), self.drops.drop.released or 0
            passed = [f for w, f in [*self.job.finishes[-1:], (released // 1000, released)] if f and w <= at]
            frontier = max([*passed, *([] if frontier is None else [frontier])], default=None)
        self.pending, self.newest, self.frontier = pending, newest, frontier
        batch.pending, batch.newest, batch.frontier = pending, newest, frontier
        self._totals[batch.number] = pending, newest, frontier, CONTROL in batch.counts
        self._totals = {b: t for b, t in self._totals.items() if b >= batch.number - 2}

    def _runs_row(self, batch: Batch, seconds: float, drift: list[str]) -> pa.Table:
        counts, rejected = batch.counts, batch.rejected()
        row: dict[str, Any] = {
            "batch_id": batch.number, "batch_time": datetime.now(UTC), "rows_in": counts[ROWS_IN], "filtered": counts[FILTERED],
            "rejected": sum(rejected.values()), "accepted": counts[ACCEPTED], "pending": self.pending,
            "pending_change": counts[PENDING], "changes": counts[CHANGED],
            "frontier": _instant(self.frontier), "newest": _instant(self.newest),
            "unusable": json.dumps(counts.unusable(), sort_keys=True), "warned": json.dumps(counts.warned(), sort_keys=True),
            "drift": json.dumps(drift),
            "counters": json.dumps(counts.counters(), sort_keys=True), "engine_ms": 1000 * seconds,
        }  # fmt: skip
        row |= {f"rejected_{name}": n for name, n in rejected.items()}
        row |= {f"{name}_ms": counts[time_count(name)] / 1000 for name in TIMES}
        return self.sink.runs_row(row)

    def _finish(self) -> bool:
        """Moves F to 1 microsecond after the newest event time, durably, and takes what is due by then. False if it was stopped."""
        if self.newest is None:
            return True
        self.doing = "finishing: rows that wait are processed"
        frontier = self.newest + 1
        # Spark counts in ms: every F gets a watermark of its own, later than those before.
        known = {f: w for w, f in self.job.finishes}
        watermark_ms = known.get(frontier, max([-(-frontier // 1000), *(w + 1 for w in known.values())]))
        if frontier not in known:
            self.job.finishes.append([watermark_ms, frontier])
            self.layout.save(self.job)
        failpoint("finish.declared")
        at = EPOCH + timedelta(milliseconds=watermark_ms + self.plan.intake.delay_ms)
        self.layout.order_finish(at.isoformat(timespec="milliseconds"), frontier)
        failpoint("finish.ordered")
        return self._stream(once=True)

    def _derive(self) -> None:
        if self.last_batch >= 0:
            self.phase("making the tables of results")
            derive(self.sink, self.last_batch, on_spark(self.spark))
        self.derived_at = clock.monotonic()


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


def _micros(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - EPOCH) // timedelta(microseconds=1)
