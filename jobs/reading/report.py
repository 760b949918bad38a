"""``skyband report``: write a job's results, runs and plan as one HTML file."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "report",
        help="write results, runs and plan as one HTML file",
        **help_page(
            "Write one self-contained HTML file: current results, ranks over time, the scores needed to enter a result, throughput, "
            "rejected and late rows, outcomes of checks, and the plan. Needs no Spark.",
            "skyband report flights.yaml",
            "skyband report flights.yaml --out /srv/reports/flights.html",
        ),
    )
    p.add_argument("spec")
    p.add_argument(
        "--out", metavar="FILE", help="file to write; an existing report is replaced (default: JOB_report.html in the working directory)"
    )
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Write the file. Raises SkybandError SKY-E203 if it cannot be written, SKY-E400 if there are no tables yet."""
    plan = load_plan(args.spec)
    path = write(plan, Path(args.out) if args.out else Path(f"{plan.job}_report.html"), args.spec)
    size = path.stat().st_size
    return Answer({"wrote": path, "bytes": size}, f"wrote {path} ({size / 1e6:.1f} MB): open it in any browser")


def write(plan: Plan, path: Path, spec: str | None = None) -> Path:
    """Write the report of ``plan`` to ``path`` in one step. Raises the errors of ``outputs.output_file``: only a report is replaced."""
    from skyband.framework.report.page import is_report, report
    from skyband.framework.storage.outputs import output_file, replace_output
    from skyband.framework.streaming.job.edited_spec import tables_of

    output_file(path, "--out", plan.places, spec, own=is_report)
    with tables_of(plan):
        text = report(plan, datetime.now(UTC))
    replace_output(path, "--out", text)
    return path
