"""``skyband replay-rejected``: put fixed rows back into the source, unless the watermark has passed them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.storage.location import require_local
from skyband.jobs.answer import Answer
from skyband.jobs.parser import add_spark_options, choose_spark, help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "replay-rejected",
        help="put fixed rows back into the source",
        **help_page(
            "Write the rows of FILE, which has the format of the source's files, to the source's directory as a file of their own. "
            "Rows that would be rejected again, including late ones, are left out and listed.",
            "skyband replay-rejected flights.yaml fixed.csv",
            codes="0 all rows are put back, 1 rows are left out, 2 nothing could be done",
        ),
    )
    p.add_argument("spec")
    p.add_argument("file", metavar="FILE", help="the fixed rows, as exported by `skyband rejected SPEC --reason R --export FILE`")
    p.add_argument(
        "--even-late", action="store_true", help="put late rows back too: they are rejected as late again, under that file's name"
    )
    add_spark_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0 if all rows are put back, 1 if some are left out. Raises SkybandError."""
    choose_spark(args)
    plan = load_plan(args.spec)
    require_local(plan.sink, "replay-rejected")
    from skyband.framework.streaming.job import replays
    from skyband.framework.streaming.job.layout import changed_since
    from skyband.framework.streaming.job.replay_records import directory_of, said
    from skyband.jobs.spec import last_run

    layout, job, _, last = last_run(plan)
    changed = [SkybandError("SKY-E150", d, hint="use the spec of the last run") for d in changed_since(plan, layout)]
    if changed:
        raise SpecErrors(changed)
    directory_of(plan)

    def start() -> SparkSession:
        from skyband.framework.streaming.spark.packages import packages
        from skyband.framework.streaming.spark.session import get_session

        return get_session(plan.job, packages=packages(plan), home=layout.home)

    found = replays.replay(start, plan, layout, job, Path(args.file), last, args.even_late)
    return Answer(asdict(found), "\n".join(said(found)), 1 if found.left_out else 0)
