"""``skyband submit``: run a job on a cluster whose machines lack Skyband, together with this Python environment."""

from __future__ import annotations

import argparse
from dataclasses import replace

from skyband.framework.base.errors import SkybandError
from skyband.framework.settings.spark import spark_settings
from skyband.jobs.parser import choose_spark, help_page
from skyband.jobs.running import run as run_job
from skyband.jobs.running.opening import begin

_PYTHON, _ARCHIVES = "spark.pyspark.python", "spark.archives"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command, with the arguments of ``run``."""
    p = subparsers.add_parser(
        "submit",
        help="run a job on a cluster whose machines lack Skyband",
        **help_page(
            "Run a job on a Spark cluster whose machines lack Skyband. Packs this Python environment once and sends it to the executors.",
            "skyband submit flights.yaml --master spark://head:7077",
            "skyband submit flights.yaml --profile prod --once --quiet",
            codes=run_job.EXIT_CODES,
        ),
    )
    run_job.add_arguments_of_runs(p)
    p.set_defaults(run=run, engine="spark")


def run(args: argparse.Namespace) -> int:
    """Return the exit code, as ``run`` does. Raises SkybandError SKY-E611 without a cluster, and the errors of ``packed``."""
    # Notify receivers of failures before the run, too.
    options = begin(args)
    options = replace(options, plan=options.text.plan())
    settings = spark_settings()
    if settings.local:
        raise SkybandError(
            "SKY-E611", f"{settings.master} is this machine, no cluster to submit to", "skyband run SPEC; or --master spark://HOST:PORT"
        )
    if _PYTHON in settings.conf:
        raise SkybandError("SKY-E611", f"submit sets {_PYTHON} itself", "remove it, or use skyband run, which honors it")
    # Report an unreachable master and mistakes in the spec before packing.
    from skyband.framework.environment.archive import ENVIRONMENT, packed
    from skyband.framework.streaming.spark.cluster import network

    network(settings.master)

    def say(text: str) -> None:
        if not options.quiet:
            options.lines.tell("info", "packing", text)

    archives = [a for a in (settings.conf.get(_ARCHIVES), packed(say)) if a]
    args.conf = [*args.conf, f"{_ARCHIVES}={','.join(archives)}", f"{_PYTHON}=./{ENVIRONMENT}/bin/python"]
    choose_spark(args)
    return run_job.stream(options, getattr(args, "alone", False))
