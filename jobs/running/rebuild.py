"""``skyband rebuild``: build a new generation of a job's state and tables from the source, and swap it in when it is complete."""

from __future__ import annotations

import argparse
import time as clock
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.location import require_local
from skyband.jobs.parser import help_page
from skyband.jobs.running.alerting import check_channels
from skyband.jobs.running.opening import (
    CheckSource,
    begin,
    check_libraries,
    open_job,
    registrar,
    summary,
    waiting_notice,
    warning,
    watch_run,
    with_live_queries,
)
from skyband.jobs.running.run import add_arguments, add_engine
from skyband.jobs.running.streaming import StreamJob, is_quick, starting_spark

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.layout import Layout
    from skyband.jobs.running.options import RunOptions
    from skyband.jobs.running.recorded import Recorded


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "rebuild",
        help="rebuild state and tables from the source",
        **help_page(
            "Build a new generation of the job's state and tables from everything in the source, beside the present one, and swap it in "
            "when it is complete and has passed its gate. Use it if an edited spec does not fit the state, if new rules shall apply to "
            "earlier rows too, or if the sink has lost files. The previous generation stays in _skyband/old of the sink until the next "
            "rebuild. An interrupted rebuild is continued. Exit codes are those of run; with 1 and 4 nothing is swapped, unless "
            "--anyway is given.",
            "skyband rebuild flights.yaml",
            "skyband rebuild flights.yaml --finish      # also process the rows that wait for the watermark",
            "skyband rebuild flights.yaml --added       # backfill only the added queries; then run the job once",
            "skyband rebuild flights.yaml --undo        # swap the previous generation back; repeat to redo",
            "skyband rebuild flights.yaml --drop-old    # only remove the previous generation",
        ),
    )
    add_arguments(p)
    add_engine(p)
    p.add_argument("--partial", action="store_true", help="rebuild without the rows of files that the job has read and that are gone")
    p.add_argument("--anyway", action="store_true", help="swap in although the gate fails or too many rows are rejected")
    p.add_argument("--anew", action="store_true", help="do not continue an interrupted rebuild")
    instead = p.add_mutually_exclusive_group()
    instead.add_argument("--added", action="store_true", help="only backfill the queries that were added to the spec")
    instead.add_argument("--undo", action="store_true", help="only swap back the generation before the last rebuild")
    instead.add_argument("--drop-old", action="store_true", help="only remove the generation before the last rebuild")
    p.set_defaults(run=run, once=True, continuous=False, rebuild_results=False)


def run(args: argparse.Namespace) -> int:
    """Return the exit code, as ``run`` does. Raises SkybandError SKY-E510 if the source lacks files that the job has read."""
    began = clock.monotonic()
    options = begin(args)
    plan, layout = open_job(options, rebuild=not args.added)
    require_local(plan.sink, "rebuild")
    from skyband.framework.streaming.job.generations import staged
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.streaming.job.locks import one_run
    from skyband.jobs.running.recorded import recorded

    options.require_engine(plan)
    built, wait = Layout(staged(plan, layout).sink), waiting_notice(options.lines)
    with one_run(layout, plan.job, wait):
        if args.undo or args.drop_old:
            return _undone(options, plan, layout) if args.undo else _dropped(options, layout)
        check_libraries(plan)
        if args.added:
            with recorded(options, "rebuild", layout) as record:
                return record.ended(_add_queries(options, plan, layout, record, began))
        # A JVM left by a killed rebuild may still write there.
        with recorded(options, "rebuild", layout, built) as record, one_run(built, plan.job, wait):
            return record.ended(_Rebuild(options, args.partial, args.anyway, args.anew, began).run(plan, layout, built, record))


def _undone(options: RunOptions, plan: Plan, layout: Layout) -> int:
    from skyband.framework.streaming.job.generations import OLD, undo
    from skyband.framework.tables.iceberg.publishing import export_published

    undo(layout)
    if (catalog := registrar(plan, layout, warning(options.lines))) is not None:
        # The tables may be others: the next run compares them.
        catalog.look_again()
    export_published(plan, options.lines)
    options.lines.tell("info", "swapped", f"swapped back the previous generation; the other one is in {layout.home / OLD}")
    return 0


def _dropped(options: RunOptions, layout: Layout) -> int:
    from skyband.framework.streaming.job.generations import OLD, drop

    size = drop(layout, OLD)
    said = f"removed {size / 1e6:,.1f} MB" if size else "there is no earlier generation"
    options.lines.tell("info", "removed", said, bytes=size)
    return 0


@dataclass(frozen=True, slots=True)
class _Rebuild:
    """Build a new generation and swap it in: ``partial``, ``anyway``, ``from_start`` (no interrupted rebuild is continued) as requested.

    ``began``: when the command started.
    """

    options: RunOptions
    partial: bool
    anyway: bool
    from_start: bool
    began: float

    def run(self, plan: Plan, layout: Layout, built: Layout, record: Recorded) -> int:
        """Return the exit code of the run, as ``run`` does."""
        from skyband.framework.quality.checks import newest_checks
        from skyband.framework.streaming.job.clocks import record as record_clocks
        from skyband.framework.streaming.job.generations import OLD, bytes_in, drop, goes_on, staged, swap
        from skyband.framework.streaming.job.idle import waiting
        from skyband.framework.streaming.job.layout import NEXT
        from skyband.framework.tables.iceberg.publishing import export_published

        lines, outcome = self.options.lines, self.options.outcome
        new = staged(plan, layout)
        if not self.partial:
            _check_files(layout)
        on = not self.from_start and goes_on(new, built)
        if not on:
            drop(layout, NEXT)
            built.home.mkdir(parents=True)
            record_clocks(layout, built)
        CheckSource(plan.source, True, lines).run()
        catalog = registrar(plan, layout, warning(lines))
        if catalog is not None:
            catalog.check(plan)
        record.begin()
        if not self.options.quiet:
            how = "continuing the interrupted rebuild of" if on else "rebuilding"
            lines.tell("info", "starting", f"{how} {summary(plan)}; its tables stay unchanged meanwhile")
        watch_run(self.options, "rebuild", plan, layout)
        swapped = False
        try:
            code = StreamJob(
                self.options, new, built, layout.home, self.began, is_quick(waiting(new.source, built)), takes_requests=False
            ).run()
            if code == 0 or (code in (1, 4) and self.anyway):
                swap(layout)
                swapped = True
                export_published(plan, lines)
                if catalog is not None:
                    catalog.register(plan)
                kept = bytes_in(layout.home / OLD) / 1e6
                lines.tell(
                    "info", "swapped", f"swapped in; the previous tables are in {layout.home / OLD} ({kept:,.1f} MB) until the next rebuild"
                )
            elif code in (1, 4):
                hint = "skyband rebuild SPEC --anyway swaps it in nevertheless"
                lines.errors([SkybandError("SKY-E511", "the new generation did not pass: the tables are unchanged", hint=hint)])
            return code
        finally:
            outcome.look(lambda: newest_checks(layout.root if swapped else built.root))


def _check_files(layout: Layout) -> None:
    """Raise SkybandError SKY-E510 if files that the present generation has read are gone from the source."""
    from skyband.framework.streaming.job.generations import gone_files

    gone, known = gone_files(layout)
    if gone:
        hint = "restore them, or add --partial to rebuild without their rows"
        said = f"{gone:,} of the {counted(known, 'file')} that the job has read are gone: a new generation would lack their rows"
        raise SkybandError("SKY-E510", said, hint=hint)


def _add_queries(options: RunOptions, plan: Plan, layout: Layout, record: Recorded, began: float) -> int:
    """Backfill the added queries, swap them in, and run the job once. Return the exit code of that run.

    Only for a caller that holds the job's lock. A killed backfill is repeated by the next call; a killed run by the next run. Raises the
    errors of ``addable`` and ``add``.
    """
    from skyband.framework.quality.checks import newest_checks
    from skyband.framework.streaming.job.edits import addable

    lines = options.lines
    job = layout.known()
    options.require_engine(plan)
    plan = with_live_queries(options, plan)
    check_channels(plan)
    found = addable(plan, layout, job)
    CheckSource(plan.source, False).run()
    catalog = registrar(plan, layout, warning(lines))
    if catalog is not None:
        catalog.check(plan)
    record.begin()
    watch_run(options, "rebuild", plan, layout)
    try:
        if found is not None:
            names = ", ".join(found.queries)
            lines.tell("info", "starting", f"backfilling {names}; the tables of job {plan.job} stay unchanged meanwhile")
            local = options.engine_of(plan) == "local"
            with ExitStack() as locks:
                start = starting_spark(plan, layout, layout.home, locks, lambda _: None)
                if not local:
                    start()
                from skyband.framework.streaming.job.sent import Sent
                from skyband.framework.streaming.rebuild.add_queries import add
                from skyband.framework.tables.iceberg.publishing import export_published

                # A query that replaces another of its name sends all of its changes again.
                Sent(layout, job).forget(found.queries)
                rows = add(start, plan, layout, job, found, local, warning(lines))
            export_published(plan, lines)
            lines.tell("info", "added", f"{names}: {counted(rows, 'row')} backfilled; swapped in", rows=rows)
        return StreamJob(options, plan, layout, layout.home, began, found is not None, catalog=catalog).run()
    finally:
        options.outcome.look(lambda: newest_checks(layout.root))
