"""``skyband report``: a job's results, runs and plan as one HTML file."""

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
    """The command's arguments."""
    p = subparsers.add_parser(
        "report",
        help="results, runs and plan as one HTML file",
        **help_page(
            "Writes one HTML file that needs nothing else and loads nothing: current results, ranks and stays over time, what it "
            "takes to be in a result, throughput, rejected and late rows, outcomes of checks, and the plan. Without Spark.",
            "skyband report flights.yaml",
            "skyband report flights.yaml --out /srv/reports/flights.html",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--out", metavar="FILE", help="file to write; a report that is there is replaced (default: JOB_report.html here)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Writes the file and says where. SkybandError SKY-E203 if it cannot be written, SKY-E400 if there are no tables yet."""
    plan = load_plan(args.spec)
    path = write(plan, Path(args.out) if args.out else Path(f"{plan.job}_report.html"), args.spec)
    size = path.stat().st_size
    return Answer({"wrote": path, "bytes": size}, f"wrote {path} ({size / 1e6:.1f} MB): open it in any browser")


def write(plan: Plan, path: Path, spec: str | None = None) -> Path:
    """The report of ``plan`` at ``path``, whole or not at all. SkybandError as ``outputs.output_file``: only a report is replaced."""
    from skyband.framework.report.page import is_report, report
    from skyband.framework.storage.outputs import output_file, replace_output
    from skyband.framework.streaming.job.edited_spec import tables_of

    output_file(path, "--out", (plan.source.path, plan.sink), spec, own=is_report)
    with tables_of(plan):
        text = report(plan, datetime.now(UTC))
    replace_output(path, "--out", text)
    return path
