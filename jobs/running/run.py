"""``skyband run``: stream a job once over what is there (Airflow's way) or continuously."""

from __future__ import annotations

import argparse
import importlib
import os
import threading
import time as clock
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.lean_arrow import lean_arrow
from skyband.framework.base.messages import ACCEPTED, ROWS_IN
from skyband.framework.base.reasons import FILTERED
from skyband.framework.console.lines import FORMATS, Lines
from skyband.framework.console.notify import Receivers
from skyband.framework.settings.spark import spark_settings
from skyband.framework.streaming.spark.stop_signal import SIGNALLED, STOP
from skyband.jobs.options import add_spark_options, choose_spark
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from pathlib import Path

    from skyband.framework.console.outcome import Outcome
    from skyband.framework.plan.model import Plan, SourceNode
    from skyband.framework.streaming.job.consistency import Found
    from skyband.framework.streaming.job.layout import JobFile, Layout
    from skyband.framework.streaming.run.runner import Batch
    from skyband.framework.streaming.spark.start_ahead import JvmRequest
    from skyband.framework.tables.writing.sink import Sink

QUICK_BYTES: Final = 64 << 20
"""A run with less to read is over before the JVM's second compiler has been of use."""

EXIT_CODES = (
    "0 done, 1 something critical of quality failed (all is written, nothing published), 2 a mistake in the spec or the "
    "command line, 3 the run failed, 4 more rows were rejected, or of no use to a query, than quality allows (all is written), "
    "130 or 143 stopped by a signal"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "run",
        help="run a job",
        **help_page(
            "Run a job's spec: once over what is there, or for good.",
            "skyband run flights.yaml",
            "skyband run flights.yaml --finish --quiet",
            "skyband run flights.yaml --continuous --log-format json 2>> run.log",
            "skyband run flights.yaml --format json > outcome.json",
            codes=EXIT_CODES,
        ),
    )
    add_arguments_of_runs(p)
    p.set_defaults(run=run)


def add_arguments_of_runs(p: argparse.ArgumentParser) -> None:
    """The arguments of ``run``, and of ``submit``."""
    add_arguments(p)
    how = p.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="stop when all input there is has been processed, whatever run.trigger says")
    how.add_argument("--continuous", action="store_true", help="keep running until stopped (Ctrl-C), whatever run.trigger says")
    p.add_argument("--rebuild-results", action="store_true", help="first make the tables of results anew from the tables of changes")


def add_arguments(p: argparse.ArgumentParser) -> None:
    """The arguments of everything that streams a spec's rows."""
    p.add_argument("spec")
    p.add_argument("--finish", action="store_true", help="declare the input complete: also process what still waits behind the watermark")
    p.add_argument(
        "--demote", metavar="RULE", action="append", default=[], help="take this row rule of severity fail as reject; may be repeated"
    )
    p.add_argument("--quiet", action="store_true", help="no line per batch")
    p.add_argument("--log-format", choices=FORMATS, default="text", help="json: one object a line on stderr (default: %(default)s)")
    p.add_argument("--outcome", metavar="FILE", help="write what the run did as JSON, at its end, whatever end that is")
    p.add_argument(
        "--notify-command",
        metavar="COMMAND",
        help="a command that a failed run starts (no shell), what it did as JSON on its standard input; default: $SKYBAND_NOTIFY_COMMAND",
    )
    add_spark_options(p)


def jvm_request(plan: Plan) -> JvmRequest:
    """Spark that runs of ``plan`` ask for."""
    from skyband.framework.streaming.spark.packages import packages
    from skyband.framework.streaming.spark.start_ahead import JvmRequest

    return JvmRequest(plan.job, packages(plan))


def start_spark_ahead(spec: str) -> None:
    """Starts Spark of a run of ``spec`` that will soon be over, if one is expected. What is wrong is told where it matters."""
    from skyband.framework.streaming.spark.start_ahead import expected

    request = expected(spec)
    if request is None:
        return
    from skyband.framework.streaming.spark.session import start_ahead
    from skyband.framework.streaming.spark.worker_pools import SOON_OVER

    with suppress(SkybandError, OSError):
        start_ahead(request.job, request.packages, SOON_OVER)


def asked(words: Sequence[str], lines: Lines, outcome: Outcome, alone: bool = False) -> argparse.Namespace:
    """The command's arguments, as its own parser takes ``words``, for who runs a job on the way. ``alone``: see ``SparkOptions``."""
    parsers = argparse.ArgumentParser().add_subparsers()
    add_parser(parsers)
    args: argparse.Namespace = parsers.choices["run"].parse_args(words)
    args.lines, args.recorded, args.spark_alone = lines, outcome, alone
    return args


def run(args: argparse.Namespace) -> int:
    """0 when all went well, 1 if something critical of quality failed, 4 if too many rows were rejected, 130 or 143 if a signal stopped it.

    SkybandError for all a user can mend.
    """
    began = clock.monotonic()
    told: Lines = args.lines
    begin(args)
    if not args.quiet:
        told.say(f"starting {args.spec}")
    if getattr(args, "alone", False):
        if not args.continuous:
            start_spark_ahead(args.spec)
        lean_arrow()
    plan, layout = opened(args)
    libraries_there(plan)
    from skyband.framework.quality.newest_checks import newest_checks
    from skyband.framework.streaming.job.idle import at_rest, waiting
    from skyband.framework.streaming.job.layout import fitting_job, reshaped
    from skyband.framework.streaming.job.locks import one_run
    from skyband.framework.streaming.job.sent import all_sent
    from skyband.framework.streaming.spark.start_ahead import note
    from skyband.jobs.running.recorded import recorded

    outcome: Outcome = args.recorded
    if not args.quiet:
        told.tell("info", "starting", what(plan))
        _tell_former(plan, told)

    # Before Spark starts: a refusal comes at once.
    with one_run(layout, plan.job, waits(told)), recorded(args, "run", layout) as record:
        job = fitting_job(plan, layout)
        look(plan.source, first=job is None)
        unread(told, plan.source)
        record.begin()
        watch(outcome, plan, layout)
        try:
            there = waiting(plan.source, layout) if _once(args, plan) else None
            shape = reshaped(plan, job) if job is not None else []
            idle = there == [] and not (shape or args.rebuild_results)
            if job is not None and idle and at_rest(layout, job, args.finish) and all_sent(plan, layout, job):
                code = _rest(args, plan, layout, job, began)
            else:
                for text in shape if not args.quiet else ():
                    told.tell("info", "reshaping", text)
                code = stream(args, plan, layout, layout.home, began, quick(there))
            if _once(args, plan):
                note(args.spec, plan.source, jvm_request(plan))
            return record.ended(code)
        finally:
            outcome.look(lambda: newest_checks(layout.root))


def begin(args: argparse.Namespace) -> None:
    """From now on there is something to tell to who asked to be told of it."""
    outcome: Outcome = args.recorded
    outcome.receivers = Receivers.of(os.environ, args.notify_command)
    outcome.begin()
    choose_spark(args)


def opened(args: argparse.Namespace, anew: bool = False) -> tuple[Plan, Layout]:
    """Return the plan of a command that streams rows and the layout of its sink. SkybandError if that is not the job's own.

    ``anew``: see ``load_plan``.
    """
    plan = getattr(args, "plan", None) or load_plan(args.spec, anew=anew)
    from skyband.framework.row_rules.rules import demoted
    from skyband.framework.streaming.job.generations import own_sink
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.streaming.spark.log import own_log

    args.lines.job = plan.job
    args.recorded.place((plan.source.path, plan.sink), args.spec)
    own_log((plan.source.path, plan.sink))
    plan = demoted(plan, args.demote)
    layout = Layout(plan.sink)
    own_sink(plan, layout)
    return plan, layout


def libraries_there(plan: Plan) -> None:
    """SkybandError SKY-E200 if the gate would ask a library that is not installed."""
    from skyband.framework.base.extras import need
    from skyband.framework.quality.checks import uses_library

    if any(uses_library(c) for c in plan.checks):
        need("quality", "quality.tables")


def waits(told: Lines) -> Callable[[str], None]:
    """Tells what is waited for."""
    return lambda text: told.tell("warning", "waiting", text)


def watch(outcome: Outcome, plan: Plan, layout: Layout) -> None:
    """The outcome is of ``plan``'s queries and of the tables of ``layout``, as they are now and when the run is over."""
    from skyband.framework.tables.delta.delta_read import versions
    from skyband.framework.tables.schemas import batch_tables

    outcome.watch(plan.job, [q.name for q in plan.queries], lambda: versions(layout.root, [t.name for t in batch_tables(plan)]))


def look(source: SourceNode, first: bool) -> None:
    """SkybandError if the source is not there (a mistake of the spec in the ``first`` run, later the machine's), or lacks columns."""
    from skyband.framework.sources.files import preflight

    gone = preflight.missing(source)
    if gone is not None:
        raise gone if first else SkybandError("SKY-E301", gone.message, gone.hint)
    found = preflight.columns(source) if first and source.on_bad_file == "stop" else []
    if found:
        raise SpecErrors(found)


def unread(told: Lines, source: SourceNode) -> None:
    """Warn of files below the source's path that are not read."""
    from skyband.framework.sources.files.listing import not_read

    said = not_read(source)
    if said is not None:
        told.tell("warning", "warning", f"WARNING: {said}")


def what(plan: Plan) -> str:
    """What is about to be run, in a line."""
    place = f" in {plan.source.path}" if plan.source.path is not None else ""
    many = f"{len(plan.queries)} quer{'y' if len(plan.queries) == 1 else 'ies'}"
    return f"job {plan.job}: {many} over {plan.source.format}{place}, into {plan.sink}"


def _tell_former(plan: Plan, told: Lines) -> None:
    """Say which sets of tokens are made by the rules of a former version, since the job was."""
    from skyband.framework.plan.former import former_rules, former_sets

    if names := former_sets(plan):
        told.tell("info", "former_tokens", former_rules(names), tokens=names)


def _once(args: argparse.Namespace, plan: Plan) -> bool:
    return args.once or args.finish or (plan.trigger_micros is None and not args.continuous)


def quick(there: Sequence[str] | None) -> bool:
    """Whether so little waits to be read (``waiting``) that Spark's start is most of the run."""
    return there is not None and sum(os.path.getsize(f) for f in there if os.path.exists(f)) <= QUICK_BYTES


def moves_blocks(plan: Plan) -> bool:
    """Whether Spark has blocks to move alone, as tasks read the files: what a second compiler takes, a run does not get back."""
    from skyband.framework.plan.reader import why_spark_reads

    return why_spark_reads(plan.source, plan.intake) is None


def _rest(args: argparse.Namespace, plan: Plan, layout: Layout, job: JobFile, began: float) -> int:
    """The run of a job that has nothing to do: all that a run looks at is looked at, but no engine is started."""
    from skyband.framework.quality.gate import Gate
    from skyband.framework.sources.files.watch import FileWatch
    from skyband.framework.streaming.job.consistency import check
    from skyband.framework.streaming.run.progress import Progress
    from skyband.framework.tables.results.derive import derive
    from skyband.framework.tables.schemas import derived_tables
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.framework.tables.writing.sink import Sink

    told: Lines = args.lines
    progress = Progress(told, args.quiet, plan, began)
    held = check(plan, layout, job)
    job = layout.renew(plan, job)
    sink = Sink(plan, writer_for(plan.sink), job.generation)
    sink.ensure_all()
    for text in FileWatch(plan.source, layout.home, job.header, lambda *_: None).at_start(committed=False):
        told.tell("warning", "warning", f"WARNING: {text}")
    if any(held.versions.get(name) != held.planned for name in derived_tables(plan)):
        derive(sink, held.planned)
    progress.close()
    failpoint("checks.before")
    return Gate(plan, told).look(sink, None)


def stream(args: argparse.Namespace, plan: Plan, layout: Layout, home: Path, began: float, soon_over: bool) -> int:
    """Streams ``plan`` into the tables of ``layout`` and passes them through the gate; the exit code. Spark's log goes to ``home``.

    ``soon_over``: see ``quick``. For who holds the job's lock.
    """
    from skyband.framework.quality.newest_checks import newest_checks
    from skyband.framework.streaming.run.progress import Progress
    from skyband.framework.streaming.spark.session import get_session
    from skyband.framework.streaming.spark.worker_pools import SOON_OVER

    def warn(text: str) -> None:
        told.tell("warning", "warning", f"WARNING: {text}")

    def heard(batch: Batch) -> None:
        rows = {"in": batch.get(ROWS_IN), "filtered": batch.get(FILTERED), "accepted": batch.get(ACCEPTED)}
        outcome.add(batch.number, rows, batch.reasons, batch.changes, batch.pending)
        progress(batch)
        outcome.use = progress.use().document()

    told: Lines = args.lines
    outcome: Outcome = args.recorded
    progress = Progress(told, args.quiet, plan, began)
    progress.phase("starting Spark")
    progress.show()
    brief = soon_over or (_once(args, plan) and moves_blocks(plan))
    seen: list[Found] = []

    looking = threading.Thread(target=lambda: seen.extend(looked_ahead(plan, layout)), name="look ahead", daemon=True)

    def meanwhile() -> None:
        _import_ahead()
        looking.start()

    request = jvm_request(plan)
    extra = SOON_OVER if soon_over else None
    spark = get_session(request.job, packages=request.packages, home=home, extra=extra, quick=brief, meanwhile=meanwhile)
    if looking.ident is not None:
        looking.join()
    from skyband.framework.quality import unusable
    from skyband.framework.quality.gate import Gate
    from skyband.framework.quality.rejections import report
    from skyband.framework.row_rules.rules import tell_warned
    from skyband.framework.sources.files.progress import FileProgress
    from skyband.framework.streaming.run.fork_ahead import fork_ahead
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.spark import executors
    from skyband.framework.tables.writing.factory import writer_for

    if spark_settings().local:
        fork_ahead(spark, plan)
    elif plan.source.path is not None:
        executors.see(spark, plan.source.path)
    failpoint("engine.started")
    progress.phase("looking at tables and source")
    if told.live:
        progress.share = FileProgress(plan.source, layout.checkpoint)
    gate = Gate(plan, told)

    def in_passing(sink: Sink) -> None:
        # The run goes on, whatever the gate says: who is told of failures hears of this one now.
        before = gate.code
        if gate.look(sink, progress.run_rows()) != before:
            outcome.look(lambda: newest_checks(layout.root))
            told.errors(outcome.notify(None, tuple(told.failures)))

    runner = Runner(spark, plan, writer_for(plan.sink, spark), heard, warn=warn, phase=progress.phase, gate=in_passing)
    ended = runner.run(once=_once(args, plan), finish=args.finish, rebuild=args.rebuild_results, found=next(iter(seen), None))
    progress.close()
    tell_warned(plan, progress.warned, progress.rows, told)
    ran = progress.run_rows()
    too_many = report(plan, runner.sink, ran, runner.job.header, told)
    if ran is not None:
        too_many = unusable.report(plan, ran.use, ran.first == 0, told) or too_many
    if not ended and STOP.signal is not None:
        told.stopped(STOP.signal)
        return SIGNALLED + STOP.signal
    failpoint("checks.before")
    return gate.look(runner.sink, progress.run_rows()) or too_many


def _import_ahead() -> None:
    """Imports what is needed once Spark is there. No thread does that: two that import each other's modules get half of them."""
    for module in ("skyband.framework.streaming.run.runner", "skyband.framework.quality.gate"):
        importlib.import_module(module)


def looked_ahead(plan: Plan, layout: Layout) -> list[Found]:
    """What the tables of earlier runs hold, if there were any: needs no engine, and who has the job's lock is alone with them."""
    from skyband.framework.streaming.job.consistency import look as look_at_tables
    from skyband.framework.streaming.job.layout import fitting_job

    with suppress(SkybandError):
        # What is wrong is told where it is looked at next, once Spark is there.
        job = fitting_job(plan, layout)
        return [] if job is None else [look_at_tables(plan, layout, job)]
    return []
