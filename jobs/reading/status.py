"""``skyband status``: show the state of a job, without a JVM and without disturbing a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

if TYPE_CHECKING:
    from skyband.framework.streaming.job.status import Status


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "status",
        help="show the state of a job",
        **help_page(
            "Show whether the job is running, how far it has processed its source, what waits, and the sizes of its tables.",
            "skyband status flights.yaml",
            "skyband status flights.yaml --format json",
            codes="0 the job is healthy, 1 the next run would fail (the output says why), 2 a mistake in the spec or the command line",
        ),
    )
    p.add_argument("spec")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0, or 1 if something is wrong with what the job has stored."""
    from skyband.framework.streaming.job.status import status_of
    from skyband.jobs.spec import load_plan

    found = status_of(load_plan(args.spec, locate=False))
    return Answer(asdict(found), "\n".join(_lines(found)), 1 if found.wrong else 0)


def _lines(found: Status) -> list[str]:
    from skyband.framework.tables.render import instant_text

    def when(t: datetime | None) -> str:
        return "nothing" if t is None else instant_text(t)

    files = "" if found.waiting is None else f"{counted(found.waiting, 'file')} to take"
    process = f" (process {found.process})" if found.process is not None else ""
    lines = [f"job {found.job}: {found.state}{process}, in {found.sink}"]
    if found.batch is not None and found.batch_time is not None:
        lines.append(f"last batch {found.batch}, at {instant_text(found.batch_time.replace(microsecond=0))} UTC")
        lines.append(f"events up to {when(found.frontier)} are processed; the newest is of {when(found.newest)}")
        since = "" if found.since is None else f", since {instant_text(found.since.replace(microsecond=0))} UTC"
        row_counts = ", ".join(f"{n:,} {name.replace('rows_in', 'rows in')}" for name, n in found.rows.items())
        lines.append(f"{row_counts}{since}")
        if found.rejected:
            lines.append("rejected: " + ", ".join(f"{reason} {n:,}" for reason, n in found.rejected.items()))
        waits = f"{counted(found.pending, 'row')} behind the watermark"
        lines.append(f"waiting: {waits}{f', {files}' if files else ''}")
    elif files:
        lines.append(f"waiting: {files}")
    lines += [f"alert {name}: {counted(many, 'message')} not sent yet" for name, many in found.alerts.items()]
    lines += [found.unread] if found.unread else []
    if found.tables:
        width = max(len(t.name) for t in found.tables)
        lines += ["", f"{'table':<{width}}  {'rows':>12}  {'files':>6}  {'KB':>9}  version"]
        lines += [f"{t.name:<{width}}  {t.rows:>12,}  {t.files:>6,}  {-(-t.bytes // 1024):>9,}  {t.version}" for t in found.tables]
        lines.append(f"{-(-found.bytes // 1024):,} KB in all, with the checkpoint and what readers may still need")
    if found.next_bytes:
        lines.append(f"{-(-found.next_bytes // 1024):,} KB of it belong to a rebuild that has not been swapped in")
    if found.old_bytes:
        lines.append(f"{-(-found.old_bytes // 1024):,} KB of it belong to the generation before the last rebuild (see its --drop-old)")
    lines += ["", *(f"WRONG: {w}" for w in found.wrong)] if found.wrong else []
    return lines
