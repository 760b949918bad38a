"""``skyband replay-rejected``: mended rows back into the source, as far as the watermark still takes them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.storage.locations import require_local
from skyband.jobs.answer import Answer
from skyband.jobs.options import add_spark_options, choose_spark
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "replay-rejected",
        help="put mended rows back into the source",
        **help_page(
            "Puts the rows of FILE, which is in the format of the source's files, into the source's directory as a file of their own. "
            "Rows that would be rejected again, late ones too, are left out and told.",
            "skyband replay-rejected flights.yaml mended.csv",
            codes="0 all rows are put back, 1 some or all are left out, 2 nothing could be done",
        ),
    )
    p.add_argument("spec")
    p.add_argument("file", metavar="FILE", help="the mended rows, such as `skyband rejected SPEC --reason R --export FILE` wrote")
    p.add_argument(
        "--even-late", action="store_true", help="put late rows back too: they will be rejected as late again, by that file's name"
    )
    add_spark_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Code 0 if all rows are put back, 1 if some are left out. SkybandError for everything a user can mend."""
    choose_spark(args)
    plan = load_plan(args.spec)
    require_local(plan.sink, "replay-rejected")
    from skyband.framework.streaming.job import replays
    from skyband.framework.streaming.job.layout import changed_since
    from skyband.framework.streaming.job.replay_records import directory_of, said
    from skyband.framework.streaming.spark.packages import packages
    from skyband.framework.streaming.spark.session import get_session
    from skyband.jobs.spec import last_run

    layout, job, _, last = last_run(plan)
    changed = [SkybandError("SKY-E150", d, hint="use the spec of the last run") for d in changed_since(plan, layout)]
    if changed:
        raise SpecErrors(changed)
    directory_of(plan)
    spark = get_session(plan.job, packages=packages(plan), home=layout.home)
    found = replays.replay(spark, plan, layout, job, Path(args.file), last, args.even_late)
    return Answer(asdict(found), "\n".join(said(found)), 1 if found.left_out else 0)
