"""What ``job_runs``, ``checks`` and ``published`` of a job must hold, whatever its runs went through: by definition, not by a twin.

Runs, looks and versions of a job that was killed are not those of one that was left alone, so these tables are held against the starts
that a test has made and against the job's other tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable

from skyband.framework.quality.run_rules import MAX_DELAY
from skyband.framework.tables.schemas import result_tables
from skyband.jobs.spec import load_plan
from tests.spark.jobs import table

SUMMED = ("rows_in", "accepted", "rejected", "changes")
RULE = "  runs: [{max_delay: 36500 days}]\n"
"""For a spec's section ``quality``: a rule that every batch keeps, so that every batch is looked at, and every look is recorded."""

Row = dict[str, Any]


class Start(NamedTuple):
    """A run that a test has started. ``code``: its exit code, None if it was killed itself (and not what it had started)."""

    process_id: int
    code: int | None


def faults(directory: Path, starts: Sequence[Start]) -> list[str]:
    """Return what is wrong with the three tables of the job in ``directory``, whose last start has ended well."""
    batches = sorted(table(directory, "runs").to_pylist(), key=lambda r: int(r["batch_id"]))
    return [
        *_of_job_runs(table(directory, "job_runs").to_pylist(), batches, starts),
        *_of_checks(table(directory, "checks").to_pylist(), int(batches[-1]["batch_id"])),
        *_of_published(directory),
    ]


def _of_job_runs(rows: list[Row], batches: list[Row], starts: Sequence[Start]) -> Iterator[str]:
    """A row for every start that came as far as the job's lock, in order, with the batches that are its own."""
    rows = sorted(rows, key=lambda r: int(r["run_id"]))
    if [r["run_id"] for r in rows] != list(range(1, len(rows) + 1)):
        yield f"job_runs has the runs {[r['run_id'] for r in rows]}"
    left = iter(starts)
    for row in rows:
        start = next((s for s in left if s.process_id == row["process_id"]), None)
        if start is None:
            yield f"job_runs has a run {row['run_id']} of process {row['process_id']}, which was not started then"
        elif start.code is not None and (row["exit_code"], row["status"] == "done") != (start.code, start.code == 0):
            yield f"job_runs says {row['status']} ({row['exit_code']}) of run {row['run_id']}, which ended with {start.code}"
        elif start.code is None and row["status"] not in ("killed", "done"):
            yield f"job_runs says {row['status']} of run {row['run_id']}, which was killed"
    if not rows or (rows[-1]["process_id"], rows[-1]["status"]) != (starts[-1].process_id, "done"):
        yield "job_runs lacks the last run"
    seen = -1
    for row in (r for r in rows if r["first_batch_id"] is not None):
        first, last = row["first_batch_id"], row["last_batch_id"]
        # A batch that is in the tables and not yet in Spark's log of commits comes again in the next run.
        if first < seen or last < first:
            yield f"job_runs has batches {first} to {last} in run {row['run_id']}, after batch {seen}"
        mine = [b for b in batches if first <= b["batch_id"] <= last]
        sums = {name: sum(b[name] for b in mine) for name in SUMMED}
        if sums != {name: row[name] for name in SUMMED}:
            yield f"job_runs has other sums of run {row['run_id']} than runs: {sums}"
        seen = last


def _of_checks(rows: list[Row], last: int) -> Iterator[str]:
    """Every look once, and by the looks of ``RULE`` every batch once, up to the ``last``."""
    looks = [(r["run_id"], r["batch_id"], r["table_name"], r["expectation"], r["arguments"]) for r in rows]
    if doubled := {look for look in looks if looks.count(look) > 1}:
        yield f"checks has more than once: {sorted(doubled)}"
    if failed := [r["expectation"] for r in rows if not r["success"]]:
        yield f"checks says failed: {failed}"
    spans = sorted((r["first_batch_id"], r["batch_id"]) for r in rows if r["expectation"] == MAX_DELAY)
    after = 0
    for first, until in spans:
        if first != after:
            yield f"checks has looks at batches {spans}"
            return
        after = until + 1
    if after != last + 1:
        yield f"checks has looks up to batch {after - 1} of {last}"


def _of_published(directory: Path) -> Iterator[str]:
    """Every table of results once, in its newest version."""
    said = sorted((r["table_name"], r["version"]) for r in table(directory, "published").to_pylist())
    there = sorted(
        (name, DeltaTable(str(directory / "out" / name)).version()) for name in result_tables(load_plan(str(directory / "spec.yaml")))
    )
    if said != there:
        yield f"published says {said}, there is {there}"
