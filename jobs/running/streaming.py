"""The stages of a command that streams rows with Spark, or without it if the job is idle."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import ACCEPTED, ROWS_IN
from skyband.framework.base.reasons import FILTERED
from skyband.framework.settings.spark import spark_settings
from skyband.framework.storage.location import Location
from skyband.framework.streaming.spark.stop_signal import SIGNALLED, STOP
from skyband.jobs.running.opening import warning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.catalogs.registrar import Registrar
    from skyband.framework.plan.live import Live
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.consistency import Found
    from skyband.framework.streaming.job.layout import JobFile, Layout
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.progress import Progress
    from skyband.framework.streaming.run.runner import RunsBatches
    from skyband.framework.tables.writing.sink import Sink
    from skyband.jobs.running.options import RunOptions

QUICK_BYTES: Final = 64 << 20
"""A run with less to read ends before the JVM's second compiler pays off."""


def is_quick(files: Sequence[str] | None) -> bool:
    """Return whether the unread ``files`` (None: unknown) are so small that the start of Spark is most of the run."""
    return files is not None and sum(os.path.getsize(f) for f in files if os.path.exists(f)) <= QUICK_BYTES


def check_ahead(plan: Plan, layout: Layout) -> list[Found]:
    """Return the state of the tables of earlier runs, if there are any. Needs no Spark, so it runs while the JVM starts.

    Errors are left to the run, which checks again. Only for a caller that holds the job's lock.
    """
    from skyband.framework.streaming.job.consistency import look as look_at_tables
    from skyband.framework.streaming.job.layout import fitting_job

    with suppress(SkybandError):
        job = fitting_job(plan, layout)
        return [] if job is None else [look_at_tables(plan, layout, job)]
    return []


def starting_spark(
    plan: Plan, layout: Layout, home: Location, locks: ExitStack, phase: Callable[[str], None]
) -> Callable[[], SparkSession]:  # fmt: skip
    """Return a function that starts Spark in its first call, and returns its session.

    ``locks`` get the lock of its JVM, whose workers may outlive this process. ``home``: see ``StreamJob``.
    """
    started: list[SparkSession] = []

    def start() -> SparkSession:
        from skyband.framework.streaming.job.locks import jvm_lock
        from skyband.framework.streaming.spark.packages import packages
        from skyband.framework.streaming.spark.session import get_session

        if not started:
            phase("starting Spark")
            started.append(get_session(plan.job, packages=packages(plan, alerts=True), home=home))
            locks.enter_context(jvm_lock(started[0], layout))
        return started[0]

    return start


@dataclass(frozen=True, slots=True)
class RunIdle:
    """The run of a job that has nothing to do: make the same checks as every run, without Spark. ``began``: when the command started."""

    options: RunOptions
    plan: Plan
    layout: Layout
    job: JobFile
    began: float
    catalog: Registrar | None = None

    def run(self) -> int:
        """Return the exit code."""
        from skyband.framework.quality.gate import Gate
        from skyband.framework.sources.files.watch import FileWatch
        from skyband.framework.streaming.bucket.bucket_states import last_states
        from skyband.framework.streaming.bucket.state_files import StateFiles
        from skyband.framework.streaming.job.consistency import check
        from skyband.framework.streaming.run.progress import Progress
        from skyband.framework.tables.results.derive import derive
        from skyband.framework.tables.schemas import derived_tables
        from skyband.framework.tables.writing.factory import writer_for
        from skyband.framework.tables.writing.sink import Sink

        lines = self.options.lines
        progress = Progress(lines, self.options.quiet, self.plan, self.began)
        tables = check(self.plan, self.layout, self.job)
        job = self.layout.renew(self.plan, self.job)
        if not job.spark_keeps:
            states = last_states(self.layout.root, job.new_states)
            StateFiles(self.layout.state).require({bucket: state.token for bucket, state in states.items()})
        sink = Sink(self.plan, writer_for(self.plan.sink), job.generation)
        sink.ensure_all()
        if self.catalog is not None:
            self.catalog.register(self.plan)
        for text in FileWatch(self.plan.source, self.layout.home, job.header, lambda *_: None).at_start(committed=False):
            lines.tell("warning", "warning", f"WARNING: {text}")
        if any(tables.versions.get(name) != tables.planned for name in derived_tables(self.plan)):
            derive(sink, tables.planned)
        progress.close()
        failpoint("checks.before")
        return Gate(self.plan, lines).look(sink, None)


@dataclass(frozen=True, slots=True)
class StreamJob:
    """Stream ``plan`` into the tables of ``layout`` and pass them through the gate. Only for a caller that holds the job's lock.

    ``home``: the directory of Spark's log. ``began``: when the command started. ``quick``: see ``is_quick``. ``takes_requests``: whether it
    takes requests for live queries. ``catalog``: where the tables are registered.
    """

    options: RunOptions
    plan: Plan
    layout: Layout
    home: Location
    began: float
    quick: bool
    takes_requests: bool = True
    catalog: Registrar | None = None

    def run(self) -> int:
        """Return the exit code."""
        from skyband.framework.quality.checks import newest_checks
        from skyband.framework.streaming.run.progress import Progress

        options, plan, layout = self.options, self.plan, self.layout
        lines, outcome = options.lines, options.outcome

        def report_batch(batch: Batch) -> None:
            rows = {"in": batch.get(ROWS_IN), "filtered": batch.get(FILTERED), "accepted": batch.get(ACCEPTED)}
            outcome.add(batch.number, rows, batch.reasons, batch.changes, batch.pending)
            progress(batch)
            outcome.observers.committed(batch)
            outcome.use = progress.use().document()

        def phase(text: str) -> None:
            progress.phase(text)
            outcome.observers.phase(text)

        progress = Progress(lines, options.quiet, plan, self.began)
        tables: list[Found] = []
        locks = ExitStack()
        engine = self._local(phase, locks) if options.engine_of(plan) == "local" else self._spark(progress, phase, tables)
        from skyband.framework.quality import unusable
        from skyband.framework.quality.gate import Gate
        from skyband.framework.quality.rejections import demoted, report, report_warned
        from skyband.framework.sources.files.progress import FileProgress
        from skyband.framework.streaming.run.context import Texts
        from skyband.framework.streaming.run.runner import Runner

        failpoint("engine.started")
        phase("looking at tables and source")
        if lines.live:
            progress.share = FileProgress(plan.source, layout.checkpoint)
        gate = Gate(plan, lines)

        def gate_between_batches(sink: Sink) -> None:
            # The run goes on whatever the gate finds, but receivers of failures hear of it now.
            before = gate.code
            gate.plan = sink.plan
            if gate.look(sink, progress.run_rows()) != before:
                outcome.look(lambda: newest_checks(layout.root))
                lines.errors(outcome.notify(None, tuple(lines.failures)))

        def replan(live: Live) -> Plan:
            return demoted(options.text.with_live(live), options.demote)

        def tell(text: str) -> None:
            lines.tell("info", "queries", text)

        runner = Runner(
            engine, plan, engine.writer(plan.sink), report_batch, Texts(warning(lines), phase, tell), gate=gate_between_batches,
            replan=replan if self.takes_requests else None,
            opened=self.catalog.register if self.catalog is not None else lambda _: None,
        )  # fmt: skip
        with locks:
            finished = runner.run(
                once=options.runs_once(plan), finish=options.finish is not None, rebuild=options.rebuild_results,
                found=next(iter(tables), None), finish_at=options.finish or "newest",
            )  # fmt: skip
        progress.close()
        plan = gate.plan = finished.sink.plan
        report_warned(plan, progress.warned, progress.rows, lines)
        ran = progress.run_rows()
        too_many = report(plan, finished.sink, ran, finished.header, lines)
        if ran is not None:
            too_many = unusable.report(plan, ran.use, ran.first == 0, lines) or too_many
        if not finished.completed and STOP.signal is not None:
            lines.stopped(STOP.signal)
            return SIGNALLED + STOP.signal
        failpoint("checks.before")
        return gate.look(finished.sink, progress.run_rows()) or too_many

    def _local(self, phase: Callable[[str], None], locks: ExitStack) -> RunsBatches:
        """Return this process as the engine. If it starts Spark, ``locks`` get the lock of its JVM, whose workers may outlive it."""
        from skyband.framework.streaming.local.engine import LocalEngine

        phase("loading operators")
        if self.catalog is not None:
            self.catalog.check(self.plan, started=True)

        return LocalEngine(starting_spark(self.plan, self.layout, self.home, locks, phase))

    def _spark(self, progress: Progress, phase: Callable[[str], None], tables: list[Found]) -> RunsBatches:
        """Start Spark, and return it as the engine. Meanwhile look at the tables of earlier runs: they are added to ``tables``."""
        from skyband.framework.streaming.spark.packages import packages
        from skyband.framework.streaming.spark.session import get_session
        from skyband.framework.streaming.spark.worker_pools import SOON_OVER

        plan = self.plan
        phase("starting Spark")
        progress.show()
        brief = self.quick or (self.options.runs_once(plan) and _only_moves_blocks(plan))
        checking = threading.Thread(target=lambda: tables.extend(check_ahead(plan, self.layout)), name="check ahead", daemon=True)

        def while_the_jvm_starts() -> None:
            _import_ahead()
            checking.start()

        extra = SOON_OVER if self.quick else None
        jars = packages(plan, alerts=True)
        spark = get_session(plan.job, packages=jars, home=self.home, extra=extra, quick=brief, meanwhile=while_the_jvm_starts)
        if checking.ident is not None:
            checking.join()
        if self.catalog is not None:
            self.catalog.check(plan, started=True)
        from skyband.framework.streaming.run.fork_ahead import fork_ahead
        from skyband.framework.streaming.run.spark_engine import SparkEngine
        from skyband.framework.streaming.spark import executors

        if spark_settings().local:
            fork_ahead(spark, plan)
        elif plan.source.path is not None:
            executors.see(spark, plan.source.path)
        return SparkEngine(spark)


def _only_moves_blocks(plan: Plan) -> bool:
    """Return whether Spark only moves blocks, as tasks read the files: then the JVM's second compiler costs more than it gains."""
    from skyband.framework.plan.reader import why_spark_reads

    return why_spark_reads(plan.source, plan.intake) is None


def _import_ahead() -> None:
    """Import what is needed once Spark has started. Not in a thread: two threads that import each other's modules see half of them."""
    for module in (
        "skyband.framework.streaming.run.spark_engine",
        "skyband.framework.streaming.run.runner",
        "skyband.framework.quality.gate",
    ):
        importlib.import_module(module)
