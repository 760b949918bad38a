"""``skyband rebuild``: a new generation of a job's state and tables, made from the source's start and swapped in when it is complete."""

from __future__ import annotations

import argparse
import time as clock
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.locations import require_local
from skyband.jobs.parser import help_page
from skyband.jobs.running.opening import CheckSource, begin, check_libraries, open_job, summary, waiting_notice, watch_tables
from skyband.jobs.running.run import add_arguments
from skyband.jobs.running.streaming import StreamJob, is_quick

if TYPE_CHECKING:
    from skyband.framework.console.lines import Lines
    from skyband.framework.console.outcome import Outcome
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.layout import Layout
    from skyband.jobs.running.recorded import Recorded


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "rebuild",
        help="make state and tables anew from the source's start",
        **help_page(
            "Makes a new generation of the job's state and tables from all that is in the source now, beside the present one, which "
            "stays as it is until the new one is complete and has passed its gate; then it takes its place. For a spec whose change the "
            "state does not fit, for rules that shall hold for earlier rows too, and for a sink that has lost something. The generation "
            "of before stays in _skyband/old of the sink until the next rebuild. A rebuild that was interrupted is gone on with. Exit "
            "codes are those of run; with 1 and 4 nothing is swapped (--anyway does it all the same).",
            "skyband rebuild flights.yaml",
            "skyband rebuild flights.yaml --finish      # also process what waits behind the watermark",
            "skyband rebuild flights.yaml --added       # make only the queries that have come, of the rows so far; then go on as run does",
            "skyband rebuild flights.yaml --undo        # put the generation of before back; once more: undo that",
            "skyband rebuild flights.yaml --drop-old    # remove the generation of before, and nothing else",
        ),
    )
    add_arguments(p)
    p.add_argument("--partial", action="store_true", help="although files that the job has read are gone: without their rows")
    p.add_argument("--anyway", action="store_true", help="swap it in although the gate fails, or too many rows are rejected")
    p.add_argument("--anew", action="store_true", help="do not go on with a rebuild that was interrupted")
    instead = p.add_mutually_exclusive_group()
    instead.add_argument("--added", action="store_true", help="instead: make the queries that have come to the spec, and nothing else")
    instead.add_argument("--undo", action="store_true", help="instead: swap back the generation of before the last rebuild")
    instead.add_argument("--drop-old", action="store_true", help="instead: remove the generation of before the last rebuild")
    p.set_defaults(run=run, once=True, continuous=False, rebuild_results=False)


def run(args: argparse.Namespace) -> int:
    """As ``run`` of jobs/run.py; SkybandError SKY-E510 if the source no longer has what the job has read."""
    began = clock.monotonic()
    begin(args)
    plan, layout = open_job(args, anew=not args.added)
    require_local(plan.sink, "rebuild")
    from skyband.framework.streaming.job.generations import staged
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.streaming.job.locks import one_run
    from skyband.jobs.running.recorded import recorded

    built, wait = Layout(staged(plan, layout).sink), waiting_notice(args.lines)
    with one_run(layout, plan.job, wait):
        if args.undo or args.drop_old:
            return _of_before(args, layout)
        check_libraries(plan)
        if args.added:
            with recorded(args, "rebuild", layout) as record:
                return record.ended(_add_queries(args, plan, layout, record, began))
        # A JVM that a killed rebuild has left may still write there.
        with recorded(args, "rebuild", layout, built) as record, one_run(built, plan.job, wait):
            return record.ended(_rebuilt(args, plan, layout, built, record, began))


def _of_before(args: argparse.Namespace, layout: Layout) -> int:
    from skyband.framework.streaming.job.generations import OLD, drop, undo

    if args.undo:
        undo(layout)
        args.lines.tell("info", "swapped", f"the generation of before is back; the other one is in {layout.home / OLD}")
    else:
        size = drop(layout, OLD)
        said = f"removed {size / 1e6:,.1f} MB" if size else "there is no earlier generation"
        args.lines.tell("info", "removed", said, bytes=size)
    return 0


def _rebuilt(args: argparse.Namespace, plan: Plan, layout: Layout, built: Layout, record: Recorded, began: float) -> int:
    from skyband.framework.quality.newest_checks import newest_checks
    from skyband.framework.streaming.job.generations import OLD, bytes_in, drop, goes_on, staged, swap
    from skyband.framework.streaming.job.idle import waiting
    from skyband.framework.streaming.job.layout import NEXT

    told: Lines = args.lines
    outcome: Outcome = args.recorded
    new = staged(plan, layout)
    if not args.partial:
        _all_there(layout)
    on = not args.anew and goes_on(new, built)
    if not on:
        drop(layout, NEXT)
        built.home.mkdir(parents=True)
    CheckSource(plan.source, True, told).run()
    record.begin()
    if not args.quiet:
        how = "going on with the interrupted rebuild of" if on else "rebuilding"
        told.tell("info", "starting", f"{how} {summary(plan)}; its tables stay as they are meanwhile")
    watch_tables(outcome, plan, layout)
    swapped = False
    try:
        code = StreamJob(args, new, built, layout.home, began, is_quick(waiting(new.source, built))).run()
        if code == 0 or (code in (1, 4) and args.anyway):
            swap(layout)
            swapped = True
            outcome.anew()
            kept = bytes_in(layout.home / OLD) / 1e6
            told.tell(
                "info", "swapped", f"swapped in; the tables of before are in {layout.home / OLD} ({kept:,.1f} MB) until the next rebuild"
            )
        elif code in (1, 4):
            hint = "skyband rebuild SPEC --anyway swaps it in all the same"
            told.errors([SkybandError("SKY-E511", "the new generation did not pass: the tables are as they were", hint=hint)])
        return code
    finally:
        outcome.look(lambda: newest_checks(layout.root if swapped else built.root))


def _all_there(layout: Layout) -> None:
    """SkybandError SKY-E510 if files that the present generation has read are gone from the source."""
    from skyband.framework.streaming.job.generations import gone_files

    gone, known = gone_files(layout)
    if gone:
        hint = "put them back, or --partial: without their rows"
        said = f"{gone:,} of the {counted(known, 'file')} that the job has read are gone: a new generation would not have their rows"
        raise SkybandError("SKY-E510", said, hint=hint)


def _add_queries(args: argparse.Namespace, plan: Plan, layout: Layout, record: Recorded, began: float) -> int:
    """Makes them and swaps them in, then runs the job once, which takes them up: that run's exit code. For who holds the job's lock.

    Killed, it is called again, or ``run`` is: before the swap nothing has happened, after it nothing is left to be made. SkybandErrors of
    ``addable`` and ``add``.
    """
    from skyband.framework.quality.newest_checks import newest_checks
    from skyband.framework.streaming.job.edits import addable
    from skyband.framework.streaming.spark.packages import packages
    from skyband.framework.streaming.spark.session import get_session

    told: Lines = args.lines
    job = layout.known()
    found = addable(plan, layout, job)
    CheckSource(plan.source, False).run()
    record.begin()
    watch_tables(args.recorded, plan, layout)
    try:
        if found is not None:
            names = ", ".join(found.queries)
            told.tell("info", "starting", f"making {names} of the rows so far; the tables of job {plan.job} stay as they are meanwhile")
            spark = get_session(plan.job, packages=packages(plan), home=layout.home)
            from skyband.framework.streaming.job.locks import jvm_lock
            from skyband.framework.streaming.job.sent import Sent
            from skyband.framework.streaming.rebuild.add_queries import add

            # Of a query that takes the place of another of its name, all is to be sent.
            Sent(layout, job).forget(found.queries)
            with jvm_lock(spark, layout):
                rows = add(spark, plan, layout, job, found)
            told.tell("info", "added", f"{names}: {counted(rows, 'row')} told so far; swapped in", rows=rows)
        return StreamJob(args, plan, layout, layout.home, began, found is not None).run()
    finally:
        args.recorded.look(lambda: newest_checks(layout.root))
