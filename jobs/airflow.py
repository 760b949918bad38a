"""``skyband airflow``: a DAG per spec. ``install`` writes the loader, ``describe`` tells it what it has to know of specs."""

from __future__ import annotations

import argparse
import json
from typing import Any

from skyband.jobs.answer import Answer
from skyband.jobs.described import described


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("airflow", help="a DAG per spec, in Airflow", description=(__doc__ or "").split(": ", 1)[1])
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    install = commands.add_parser(
        "install",
        help="write the loader into a directory of DAGs",
        **described("Writes the loader into a directory of DAGs.", "skyband airflow install ~/airflow/dags --specs /srv/specs"),
    )
    install.add_argument("folder", metavar="DIRECTORY", help="Airflow's directory of DAGs (made if it is not there)")
    install.add_argument("--specs", metavar="DIRECTORIES", help="directories of specs, separated as in PATH; SKYBAND_SPECS names others")
    install.set_defaults(run=run_install)
    describe = commands.add_parser(
        "describe",
        help="print what the loader needs of specs",
        **described(
            "Prints what the loader needs of specs: a JSON object a line, each as soon as it is known; with --format json one document.",
            "skyband airflow describe flights.yaml sensors.yaml",
        ),
    )
    describe.add_argument("spec", nargs="+", help="spec files")
    describe.set_defaults(run=run_describe)


def run_install(args: argparse.Namespace) -> Answer:
    """Writes the loader, which then knows this command and the directories of specs. SkybandError SKY-E203 if it cannot be written."""
    from skyband.jobs.airflow_install import install

    said = install(args.directory, args.specs)
    return Answer({"said": said}, said)


def run_describe(args: argparse.Namespace) -> Answer:
    """A line a spec, good or broken, as soon as it is known: who reads may stop at any line."""
    from skyband.framework.base.errors import printable
    from skyband.framework.plan.describe import describe

    found = []
    for path in args.spec:
        found.append(describe(path))
        if args.format != "json":
            print(printable(json.dumps(found[-1])), flush=True)
    return Answer({"specs": found}, None)
