"""``skyband rebuild --added``: queries that have come to a spec, made alone from the rows that its job has accepted so far."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.jobs.running.run import look, stream, watch

if TYPE_CHECKING:
    from skyband.framework.console.lines import Lines
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.layout import Layout
    from skyband.jobs.running.recorded import Recorded


def added(args: argparse.Namespace, plan: Plan, layout: Layout, record: Recorded, began: float) -> int:
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
    look(plan.source, first=False)
    record.begin()
    watch(args.recorded, plan, layout)
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
        return stream(args, plan, layout, layout.home, began, found is not None)
    finally:
        args.recorded.look(lambda: newest_checks(layout.root))
