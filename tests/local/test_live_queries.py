"""Queries that come to a job of the local engine by request are backfilled without Spark, and go without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.added import Jobs
from tests.spark.jobs import sorted_rows, table

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", ["keyed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("groups", "deletions"))])
def test_backfilled_queries_are_as_if_they_had_been_there_and_go_without_a_trace(tmp_path: Path, kind: str) -> None:
    jobs = Jobs(tmp_path, kind, "local")
    for _ in range(2):
        jobs.more()
        jobs.run()
    of_spec = {q.name for q in load_plan(str(jobs.spec)).queries}
    before = {n: sorted_rows(table(jobs.job, f"{n}_changes")) for n in of_spec}
    tables = {p.name for p in (jobs.job / "out").iterdir()}
    jobs.add()
    jobs.run()
    assert all(sorted_rows(table(jobs.job, f"{n}_changes")) == rows for n, rows in before.items())
    jobs.equal()
    jobs.more()
    jobs.run("--finish")
    jobs.equal()
    jobs.verified()
    jobs.remove(*jobs.names)
    jobs.more(both=False)
    assert cli.main(["run", str(jobs.spec), "--quiet", *jobs.engine]) == 0
    assert {q.name for q in load_plan(str(jobs.spec)).queries} == of_spec
    assert {p.name for p in (jobs.job / "out").iterdir()} == tables and jobs.leftovers() == []
    jobs.verified()


def test_queries_come_and_go_with_one_batch_in_between(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, "keyed", "local")
    jobs.more()
    jobs.run()
    for do in (jobs.add, lambda: jobs.remove(*jobs.names), jobs.add):
        do()
        jobs.more()
        jobs.run()
    jobs.equal()
    jobs.verified()
