"""``skyband submit``: run a job on a cluster whose machines lack Skyband: this environment goes there with it."""

from __future__ import annotations

import argparse

from skyband.framework.base.errors import SkybandError
from skyband.framework.settings.spark import spark_settings
from skyband.jobs.parser import help_page
from skyband.jobs.running import run as run_job
from skyband.jobs.running.opening import begin
from skyband.jobs.spec import load_plan

_PYTHON, _ARCHIVES = "spark.pyspark.python", "spark.archives"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments: those of ``run``."""
    p = subparsers.add_parser(
        "submit",
        help="run a job on a cluster whose machines lack Skyband",
        **help_page(
            "Run a job on a Spark cluster whose machines lack Skyband: packs this Python environment once, and gives it to executors.",
            "skyband submit flights.yaml --master spark://head:7077",
            "skyband submit flights.yaml --profile prod --once --quiet",
            codes=run_job.EXIT_CODES,
        ),
    )
    run_job.add_arguments_of_runs(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """As ``run``'s. SkybandError SKY-E611 without a cluster, and as ``packed``."""
    # Receivers are told of what fails on the way to the run, too.
    begin(args)
    args.plan = load_plan(args.spec)
    asked = spark_settings()
    if asked.local:
        raise SkybandError(
            "SKY-E611", f"{asked.master} is this machine, no cluster to submit to", "skyband run SPEC; or --master spark://HOST:PORT"
        )
    if _PYTHON in asked.conf:
        raise SkybandError("SKY-E611", f"{_PYTHON} is said by submit itself", "skyband run heeds it")
    # A master that is not there is told before anything is packed, as mistakes in the spec are.
    from skyband.framework.environment.archive import ENVIRONMENT, packed
    from skyband.framework.streaming.spark.cluster import network

    network(asked.master)

    def say(text: str) -> None:
        if not args.quiet:
            args.lines.tell("info", "packing", text)

    archives = [a for a in (asked.conf.get(_ARCHIVES), packed(say)) if a]
    args.conf = [*args.conf, f"{_ARCHIVES}={','.join(archives)}", f"{_PYTHON}=./{ENVIRONMENT}/bin/python"]
    return run_job.run(args)
