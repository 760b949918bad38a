"""``skyband history``: list the runs of a job, newest first, including failed and killed ones."""

from __future__ import annotations

import argparse
from typing import Any

from skyband.jobs.answer import Answer
from skyband.jobs.arguments import whole
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "history",
        help="list a job's runs",
        **help_page(
            "List runs and rebuilds of the job, newest first: their times, how they ended, what they read and wrote, the spec, the version "
            "and the user. Table job_runs has the same, except for a run that is active, or was killed and not followed by another.",
            "skyband history flights.yaml",
            "skyband history flights.yaml --limit 100 --format json",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--limit", type=whole("--limit", 1), default=20, metavar="N", help="list the newest N (default: %(default)s)")
    p.set_defaults(run=run)


_COUNTS = ("batches", "rows_in", "rejected", "changes")


def run(args: argparse.Namespace) -> Answer:
    """Return the runs. Raises SkybandError SKY-E402 before the first one."""
    plan = load_plan(args.spec)
    import pyarrow as pa

    from skyband.framework.streaming.job.layout import Layout, not_run
    from skyband.framework.streaming.job.run_records import history
    from skyband.framework.tables.render import text_table

    rows = history(Layout(plan.sink), args.limit)
    if not rows:
        raise not_run()
    return Answer({"runs": rows}, text_table(pa.Table.from_pylist([_shown(r) for r in rows]), numbers=("run", *_COUNTS)))


def _shown(row: dict[str, Any]) -> dict[str, str]:
    """Format a run for people."""
    began, ended = row["started_at"], row["ended_at"]
    ran_by = "@".join(filter(None, (row["run_by"], row["host_name"])))
    return {
        "run": str(row["run_id"]),
        "command": row["command"],
        "started (UTC)": f"{began:%Y-%m-%d %H:%M:%S}",
        "took": f"{(ended - began).total_seconds():,.1f} s" if ended else "",
        "status": row["status"] + (f" ({row['error_code']})" if row["error_code"] else ""),
        **{n: "" if row[n] is None else f"{row[n]:,}" for n in _COUNTS},
        "spec": (row["spec_hash"] or "")[:8],
        "version": row["skyband_version"] or "",
        "by": ran_by,
    }
