"""Two jobs of one spec hold the same tables: what every test of kills and cuts ends with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skyband.framework.plan.model import Plan
from skyband.framework.tables.schemas import changes_name, stream_columns, tables
from skyband.jobs.spec import load_plan
from tests.spark.jobs import changes, sorted_rows, table

# Every batch (or run) has its row there, the checks have their time, and tables as many versions as commits: what is equal are the sums.
BY_BATCH = ("runs", "checks", "published", "job_runs")
SUMS = ("rows_in", "filtered", "rejected", "accepted", "pending_change", "changes")


def differences(directory: Path, left_alone: Path, same_cuts: bool = True, same_files: bool = True) -> tuple[dict[str, int], list[str]]:
    """(rows compared by table, the names of tables that differ) of the two jobs, whose specs are ``spec.yaml`` in their directories.

    ``same_cuts``: both had the same rows in the same batches and finishes, so that also what tells when a key last got rows is equal.
    ``same_files``: they were in the same files.
    """
    plan = load_plan(str(directory / "spec.yaml"))
    rows: dict[str, int] = {}
    unequal: list[str] = []
    for name, mine, theirs in _compared(plan, directory, left_alone, same_cuts, same_files):
        rows[name] = len(theirs)
        if mine != theirs:
            unequal.append(name)
    return rows, unequal


def assert_equal_tables(directory: Path, left_alone: Path, same_cuts: bool = True, same_files: bool = True) -> None:
    """See ``differences``: there are none."""
    rows, unequal = differences(directory, left_alone, same_cuts, same_files)
    assert not unequal, f"these tables differ: {unequal}"
    assert any(n for name, n in rows.items() if name.endswith("_changes")), "nothing to compare"


def _compared(
    plan: Plan, directory: Path, left_alone: Path, same_cuts: bool, same_files: bool
) -> Iterator[tuple[str, list[object], list[object]]]:
    both = (directory, left_alone)
    queries = {changes_name(q.name): q for q in plan.every_query}
    for spec in tables(plan):
        if spec.name in queries:
            query = queries[spec.name]
            mine, theirs = (changes(f, query.name, stream_columns(plan, query)).to_pylist() for f in both)
            yield spec.name, mine, theirs
        elif spec.name not in BY_BATCH:
            without = ["batch_id", *(["as_of"] if spec.name == "heads" and not same_cuts else [])]
            without += ["origin"] if spec.name == "rejected" and not same_files else []
            mine, theirs = (list[object](sorted_rows(table(f, spec.name), without)) for f in both)
            yield spec.name, mine, theirs
    mine, theirs = ([sum(r[c] for r in table(f, "runs").to_pylist()) for c in SUMS] for f in both)
    yield "runs", list[object](mine), list[object](theirs)
