"""The stages of a command that streams rows before Spark starts: open the job, check what it needs, report what will run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.console.receivers import Receivers
from skyband.framework.observe.chosen import chosen
from skyband.framework.observe.observers import StartedRun
from skyband.jobs.parser import choose_spark
from skyband.jobs.running.options import RunOptions

if TYPE_CHECKING:
    from skyband.framework.catalogs.registrar import Registrar
    from skyband.framework.console.lines import Lines
    from skyband.framework.plan.model import Plan, SourceNode
    from skyband.framework.streaming.job.layout import Layout
    from skyband.jobs.outcome import Outcome


def begin(args: argparse.Namespace) -> RunOptions:
    """Begin to record the outcome: from now on receivers of notifications hear of failures. Return the options of the run."""
    outcome: Outcome = args.recorded
    outcome.receivers = Receivers.of(os.environ, args.notify_command)
    outcome.observers = chosen(os.environ, args.metrics_port)
    outcome.begin()
    choose_spark(args)
    return RunOptions.of(args)


def open_job(options: RunOptions, rebuild: bool = False) -> tuple[Plan, Layout]:
    """Return the plan of a command that streams rows, and the layout of its sink. SkybandError if the sink is not the job's own.

    ``rebuild``: see ``load_plan``.
    """
    plan = options.plan or options.text.plan(rebuild)
    from skyband.framework.quality.rejections import demoted
    from skyband.framework.streaming.job.generations import own_sink
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.streaming.spark.log import own_log

    options.lines.job = plan.job
    options.outcome.place(plan.places, options.text.path)
    own_log(plan.places)
    plan = demoted(plan, options.demote)
    layout = Layout(plan.sink)
    own_sink(plan, layout)
    return plan, layout


def with_live_queries(options: RunOptions, plan: Plan) -> Plan:
    """Return ``plan`` with the live queries that the job has now. For a caller that has taken the job's lock.

    They may be others than before the lock: another run has added queries, or an interrupted swap has been completed.
    """
    from skyband.framework.quality.rejections import demoted

    present = options.text.current(plan)
    return plan if present is plan else demoted(present, options.demote)


def check_libraries(plan: Plan) -> None:
    """Raise SkybandError SKY-E200 if the gate, or the export after it, needs a library that is not installed."""
    from skyband.framework.base.extras import need
    from skyband.framework.quality.checks import uses_library

    if any(uses_library(c) for c in plan.checks):
        need("quality", "quality.tables")
    if plan.iceberg:
        need("iceberg", "sink.iceberg")


@dataclass(frozen=True, slots=True)
class CheckSource:
    """Check that the source exists and has the columns of the spec; warn of files below its path that are not read.

    ``first``: the job has not run yet. A missing source is then a mistake in the spec, later a failure of the system.
    """

    source: SourceNode
    first: bool
    lines: Lines | None = None

    def run(self) -> None:
        """Raise SkybandError or SpecErrors if the source does not fit the spec, or names files elsewhere (``delta_logs``)."""
        from skyband.framework.sources.files import preflight
        from skyband.framework.sources.files.listing import not_read
        from skyband.framework.sources.registry import source_format
        from skyband.framework.storage.delta_logs import require_inside

        gone = preflight.missing(self.source)
        if gone is not None:
            raise gone if self.first else SkybandError("SKY-E301", gone.message, gone.hint)
        for _, part in self.source.each:
            if part.path is not None and source_format(part.format).of_table:
                require_inside(part.path)
        mistakes = preflight.columns(self.source) if self.first and self.source.on_bad_file == "stop" else []
        if mistakes:
            raise SpecErrors(mistakes)
        ignored = not_read(self.source) if self.lines is not None else None
        if self.lines is not None and ignored is not None:
            self.lines.tell("warning", "warning", f"WARNING: {ignored}")


def waiting_notice(lines: Lines) -> Callable[[str], None]:
    """Return a function that reports what the command waits for."""
    return lambda text: lines.tell("warning", "waiting", text)


def watch_run(options: RunOptions, command: str, plan: Plan, layout: Layout, continuous: bool = False) -> None:
    """Have the outcome name ``plan``'s queries, and the versions of the tables now and at the end of the run; tell observers of it."""
    from skyband.framework.storage.delta_read import versions
    from skyband.framework.tables.batch_figures import newest_batch
    from skyband.framework.tables.schemas import batch_tables

    outcome = options.outcome
    tables = [t.name for t in batch_tables(plan)]
    outcome.watch(
        plan.job, [q.name for q in plan.every_query], lambda: versions(layout.root, tables), lambda: newest_batch(layout.root)
    )  # fmt: skip
    outcome.observers.started(StartedRun(command, plan, str(layout.root), options.text.path, continuous))


def warning(lines: Lines) -> Callable[[str], None]:
    """Return a function that reports a warning."""
    return lambda text: lines.tell("warning", "warning", f"WARNING: {text}")


def registrar(plan: Plan, layout: Layout, warn: Callable[[str], None]) -> Registrar | None:
    """Return what keeps the plan's tables registered in its catalog, None if there is nothing to do. Raises SkybandError SKY-E681."""
    if plan.catalog is None and not (layout.home / "catalog.json").exists():
        return None
    from skyband.framework.catalogs.registrar import Registrar
    from skyband.framework.streaming.spark.packages import packages
    from skyband.framework.streaming.spark.session import get_session

    return Registrar.of(plan, lambda: get_session(plan.job, packages=packages(plan), home=layout.home), warn)


def summary(plan: Plan) -> str:
    """Return one line that says what is about to run."""
    where = f" in {plan.source.path}" if plan.source.path is not None else ""
    many = f"{len(plan.every_query)} quer{'y' if len(plan.every_query) == 1 else 'ies'}"
    return f"job {plan.job}: {many} over {plan.source.shown}{where}, into {plan.sink}"


def report_former_rules(plan: Plan, lines: Lines) -> None:
    """Report which sets of tokens keep the rules of the former version that made the job."""
    from skyband.framework.plan.former import former_rules, former_sets

    if names := former_sets(plan):
        lines.tell("info", "former_tokens", former_rules(names), tokens=names)
