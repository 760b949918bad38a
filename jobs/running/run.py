"""``skyband run``: stream a job once over the present input (as Airflow does) or continuously."""

from __future__ import annotations

import argparse
import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skyband.framework.base.lean_arrow import lean_arrow
from skyband.framework.console.lines import FORMATS, Lines
from skyband.jobs.arguments import whole
from skyband.jobs.parser import add_spark_options, help_page
from skyband.jobs.running import alerting, opening, streaming

if TYPE_CHECKING:
    from skyband.jobs.outcome import Outcome
    from skyband.jobs.running.options import RunOptions

EXIT_CODES = (
    "0 done, 1 a critical quality check failed (all is written, nothing published), 2 a mistake in the spec or the "
    "command line, 3 the run failed, 4 more rows were rejected, or unusable for a query, than quality allows (all is written), "
    "130, 143 or 129 stopped by a signal"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "run",
        help="run a job",
        **help_page(
            "Run a job once over the present input, or continuously.",
            "skyband run flights.yaml",
            "skyband run flights.yaml --finish --quiet",
            "skyband run flights.yaml --continuous --log-format json 2>> run.log",
            "skyband run flights.yaml --format json > outcome.json",
            codes=EXIT_CODES,
        ),
    )
    add_arguments_of_runs(p)
    add_engine(p)
    p.set_defaults(run=run)


def add_arguments_of_runs(p: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run`` and ``submit``."""
    add_arguments(p)
    how = p.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="stop when the present input has been processed; overrides run.trigger")
    how.add_argument("--continuous", action="store_true", help="run until stopped (Ctrl-C); overrides run.trigger")
    p.add_argument("--rebuild-results", action="store_true", help="first derive the tables of results again from the tables of changes")


def add_engine(p: argparse.ArgumentParser) -> None:
    """Add the argument that says what runs the job."""
    p.add_argument("--engine", choices=("spark", "local"), help="what runs the job (default: run.engine of the spec, or spark)")


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Add the arguments of all commands that stream rows."""
    p.add_argument("spec")
    p.add_argument("--finish", action="store_true", help="declare the input complete: also process the rows that wait for the watermark")
    p.add_argument(
        "--finish-at", metavar="T",
        help="like --finish, up to an instant in UTC; or 'end': until the tumbling windows, sessions and boundaries of the newest row end",
    )  # fmt: skip
    p.add_argument(
        "--demote", metavar="RULE", action="append", default=[], help="treat this row rule of severity fail as reject; may be repeated"
    )
    p.add_argument("--quiet", action="store_true", help="do not print a line per batch")
    p.add_argument("--log-format", choices=FORMATS, default="text", help="json: one object a line on stderr (default: %(default)s)")
    p.add_argument("--outcome", metavar="FILE", help="write the outcome of the run to FILE as JSON, also if it fails")
    p.add_argument(
        "--notify-command",
        metavar="COMMAND",
        help="command to start (no shell) if the run fails, with the outcome as JSON on standard input (default: $SKYBAND_NOTIFY_COMMAND)",
    )
    p.add_argument(
        "--metrics-port", metavar="PORT", type=whole("--metrics-port", 1, 65_535),
        help="serve the run's metrics to Prometheus on 127.0.0.1:PORT",
    )  # fmt: skip
    add_spark_options(p)


def parse_arguments(words: Sequence[str], lines: Lines, outcome: Outcome, alone: bool = False) -> argparse.Namespace:
    """Parse ``words`` as arguments of ``run``, for commands that run a job themselves. ``alone``: see ``SparkOptions``."""
    parsers = argparse.ArgumentParser().add_subparsers()
    add_parser(parsers)
    args: argparse.Namespace = parsers.choices["run"].parse_args(words)
    args.lines, args.recorded, args.spark_alone = lines, outcome, alone
    return args


def run(args: argparse.Namespace) -> int:
    """Return the exit code of ``stream``."""
    return stream(opening.begin(args), getattr(args, "alone", False))


def stream(options: RunOptions, alone: bool = False) -> int:
    """Run the stages of a run, in their order; ``Runner.run`` lists those of the stream. ``alone``: the process does nothing else.

    Return 0 if all went well, 1 if a critical check failed, 4 if too many rows were rejected, 130, 143 or 129 if a signal stopped it.
    Raise SkybandError for everything that the user can fix.
    """
    began = clock.monotonic()
    lines, outcome = options.lines, options.outcome
    if not options.quiet:
        lines.say(f"starting {options.text.path}")
    if alone:
        lean_arrow()
    plan, layout = opening.open_job(options)
    opening.check_libraries(plan)
    alerting.check_channels(plan)
    from skyband.framework.quality.checks import newest_checks
    from skyband.framework.streaming.job.idle import at_rest, waiting
    from skyband.framework.streaming.job.layout import fitting_job, reshaped
    from skyband.framework.streaming.job.live_requests import waiting as waiting_requests
    from skyband.framework.streaming.job.locks import one_run
    from skyband.framework.streaming.job.sent import all_sent
    from skyband.jobs.running.recorded import recorded

    if not options.quiet:
        lines.tell("info", "starting", opening.summary(plan))
        opening.report_former_rules(plan, lines)

    # Check all that can be checked before Spark starts, so that mistakes are reported at once.
    options.require_engine(plan)
    with one_run(layout, plan.job, opening.waiting_notice(lines)), recorded(options, "run", layout) as record:
        plan = opening.with_live_queries(options, plan)
        catalog = opening.registrar(plan, layout, opening.warning(lines))
        job = fitting_job(plan, layout)
        options.require_engine(plan)
        opening.CheckSource(plan.source, job is None, lines).run()
        if catalog is not None:
            catalog.check(plan)
        record.begin()
        once = options.runs_once(plan)
        opening.watch_run(options, "run", plan, layout, continuous=not once)
        try:
            unread = waiting(plan.source, layout) if once else None
            changes = reshaped(plan, job, layout) if job is not None else []
            requests = job is not None and waiting_requests(layout, job.live.taken)
            further = options.finish not in (None, "newest")
            idle = unread == [] and not (changes or options.rebuild_results or requests or further)
            by_spark = catalog is not None and catalog.needs_spark(plan)
            idle = (
                idle
                and not by_spark
                and job is not None
                and at_rest(layout, job, options.finish is not None)
                and all_sent(plan, layout, job)
            )
            if job is not None and idle and not alerting.needs_spark(plan, layout, job):
                code = streaming.RunIdle(options, plan, layout, job, began, catalog).run()
                alerting.send_waiting(plan, layout, job, lines)
            else:
                for text in changes if not options.quiet else ():
                    lines.tell("info", "reshaping", text)
                code = streaming.StreamJob(options, plan, layout, layout.home, began, streaming.is_quick(unread), catalog=catalog).run()
            return record.ended(code)
        finally:
            outcome.look(lambda: newest_checks(layout.root))
