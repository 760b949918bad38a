"""``skyband history``: the runs of a job, newest first, with those that failed or were killed."""

from __future__ import annotations

import argparse
from typing import Any

from skyband.jobs.answer import Answer
from skyband.jobs.arguments import whole
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "history",
        help="list a job's runs",
        **help_page(
            "Runs and rebuilds of the job, newest first: when, how they ended, what they read and wrote, by which spec and version, and "
            "who ran them. All of it is in table job_runs, but for a run that is going on, or was killed and not followed by another yet.",
            "skyband history flights.yaml",
            "skyband history flights.yaml --limit 100 --format json",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--limit", type=whole("--limit", 1), default=20, metavar="N", help="the newest N (default: %(default)s)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """The runs. SkybandError SKY-E402 if nothing has run yet."""
    plan = load_plan(args.spec)
    import pyarrow as pa

    from skyband.framework.streaming.job.layout import Layout, not_run
    from skyband.framework.streaming.job.run_records import history
    from skyband.framework.tables.render import text_table

    rows = history(Layout(plan.sink), args.limit)
    if not rows:
        raise not_run()
    return Answer({"runs": rows}, text_table(pa.Table.from_pylist([_shown(r) for r in rows])))


def _shown(row: dict[str, Any]) -> dict[str, str]:
    """A run as people want to see it."""
    began, ended = row["started_at"], row["ended_at"]
    ran_by = "@".join(filter(None, (row["run_by"], row["host_name"])))
    return {
        "run": str(row["run_id"]),
        "command": row["command"],
        "started (UTC)": f"{began:%Y-%m-%d %H:%M:%S}",
        "took": f"{(ended - began).total_seconds():,.1f} s" if ended else "",
        "status": row["status"] + (f" ({row['error_code']})" if row["error_code"] else ""),
        **{n: "" if row[n] is None else f"{row[n]:,}" for n in ("batches", "rows_in", "rejected", "changes")},
        "spec": (row["spec_hash"] or "")[:8],
        "version": row["skyband_version"] or "",
        "by": ran_by,
    }
