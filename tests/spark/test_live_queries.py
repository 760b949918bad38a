"""Queries that come to a job and leave it by request: tables are those of a job that had them, whatever is killed."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.streaming.job.layout import Layout
from skyband.framework.tables.schemas import stream_columns
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.added import Jobs
from tests.spark.jobs import changes, run_apart, sorted_rows, table, write_file
from tests.spark.kinds import KINDS
from tests.spark.test_deaths import Run, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def jobs(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Jobs:
    """After two files, each taken by a run of its own."""
    made = Jobs(tmp_path, getattr(request, "param", "keyed"))
    for _ in range(2):
        made.more()
        made.run()
    return made


@pytest.mark.parametrize("jobs", [k for k in KINDS if k not in ("shards", "sets")], indirect=True)
def test_backfilled_queries_are_as_if_they_had_been_there_and_go_without_a_trace(jobs: Jobs) -> None:
    of_spec = {q.name for q in load_plan(str(jobs.spec)).queries}
    before = {n: sorted_rows(table(jobs.job, f"{n}_changes")) for n in of_spec}
    tables = {p.name for p in (jobs.job / "out").iterdir()}
    jobs.add()
    assert {q.name for q in load_plan(str(jobs.spec)).queries} == of_spec, "the request waits"
    jobs.run()
    assert all(sorted_rows(table(jobs.job, f"{n}_changes")) == rows for n, rows in before.items())
    jobs.equal()
    assert jobs.leftovers() == []
    jobs.more()
    jobs.run("--finish")
    jobs.equal()
    jobs.verified()
    jobs.remove(*jobs.names)
    jobs.more(both=False)
    assert cli.main(["run", str(jobs.spec), "--quiet"]) == 0
    assert {q.name for q in load_plan(str(jobs.spec)).queries} == of_spec
    assert {p.name for p in (jobs.job / "out").iterdir()} == tables and jobs.leftovers() == []
    jobs.verified()


@pytest.mark.parametrize("jobs", ["keyed", "groups", "loyalty", "skylines"], indirect=True)
def test_queries_from_now_on_have_the_rows_from_the_boundary_on(jobs: Jobs) -> None:
    """Which is what their entries say afterwards: so they are those of a job that has these entries from its start."""
    jobs.add("--from-now")
    for _ in range(2):
        jobs.more()
        assert cli.main(["run", str(jobs.spec), "--quiet"]) == 0
    jobs.verified()
    live = Layout(str(jobs.job / "out")).known().live
    assert set(live.names) == set(jobs.names) and all(q.begins is not None for q in live.queries)
    for query in live.queries:
        rows = table(jobs.job, f"{query.name}_changes")
        assert rows.num_rows or query.name in ("sides", "odd", "band"), query.name
    entries: dict[str, Any] = {}
    for query in live.queries:
        entries |= json.loads(query.text)["queries"]
    text = jobs.fresh_spec.read_text()
    for name, entry in entries.items():
        line = f"  {name}: {json.dumps(entry)}\n".replace("\\", r"\\")
        text = re.sub(rf"(?ms)^  {name}: .*?(?=^  [a-z]|^[a-z])", line, text)
    whole = jobs.fresh.parent / "whole"
    (whole / "in").parent.mkdir()
    for path in jobs.fresh.iterdir():
        if path.is_file():
            (whole / path.name).write_bytes(path.read_bytes())
    spec = whole / "spec.yaml"
    spec.write_text(text.replace(str(jobs.fresh), str(whole)))
    for i in range(jobs.came):
        write_file(whole, f"{i}.csv", jobs.files[i], at=20 * i)
        assert cli.main(["run", str(spec), "--quiet"]) == 0
    jobs.fresh, jobs.fresh_spec = whole, spec
    jobs.equal()


@pytest.mark.chaos
@pytest.mark.parametrize(
    "at", ["added.made", "swap.step:2", "swap.between:1", "swap.moved", "live.swapped", "state.after:1", "sink.after:1"]
)
@pytest.mark.parametrize("how", ["--backfill", "--from-now"])
def test_killed_anywhere_it_has_happened_or_not(jobs: Jobs, at: str, how: str) -> None:
    jobs.remove("limits")
    jobs.add(how)
    jobs.more()
    killed = run_apart(jobs.spec, "--quiet", failpoint=at)
    assert killed.returncode == -9, killed.stderr
    if at == "added.made":
        assert Layout(str(jobs.job / "out")).known().live.queries == ()
    assert cli.main(["run", str(jobs.spec), "--quiet"]) == 0
    assert jobs.leftovers() == []
    assert cli.main(["run", str(jobs.fresh_spec), "--quiet"]) == 0
    names = {q.name for q in load_plan(str(jobs.spec)).queries}
    assert names == {q.name for q in load_plan(str(jobs.fresh_spec)).queries} - {"limits"}
    assert not (jobs.job / "out" / "limits_changes").exists()
    if how == "--backfill":
        for name in jobs.names:
            plan = load_plan(str(jobs.spec))
            columns = stream_columns(plan, next(q for q in plan.queries if q.name == name))
            assert changes(jobs.job, name, columns).equals(changes(jobs.fresh, name, columns)), name
    jobs.verified()


def test_requests_that_cannot_be_done_are_refused_and_the_job_goes_on(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.add(entries=jobs.later[:1])
    jobs.add("--from-now", entries=jobs.later[1:2])
    (jobs.job / "in" / "0.csv").unlink()
    assert cli.main(["run", str(jobs.spec), "--quiet"]) == 0
    assert "WARNING: the request to add query" in capsys.readouterr().err
    assert cli.main(["queries", "list", str(jobs.spec), "--format", "json"]) == 0
    states = {q["name"]: (q["state"], q["reason"]) for q in json.loads(capsys.readouterr().out)["queries"]}
    assert states[jobs.names[0]][0] == "refused" and "1 of the 2 files" in str(states[jobs.names[0]][1])
    assert states[jobs.names[1]] == ("running", None)
    jobs.remove(jobs.names[0])
    assert jobs.leftovers() == []


def test_a_continuous_run_takes_requests_between_its_batches(spark: SparkSession, tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, "keyed")
    jobs.more()
    with started(jobs.spec, "--continuous") as run:
        run.said("batch 0")
        jobs.more()
        run.said("batch 1")
        jobs.add()
        run.said(f"{len(jobs.names)} live queries after batch")
        jobs.more()
        _said(run, "batch", 3)
        jobs.remove(jobs.names[0])
        run.said("1 live query after batch")
        jobs.more()
        _said(run, "batch", 4)
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0, run.lines
    assert cli.main(["run", str(jobs.spec), "--finish", "--quiet"]) == 0
    assert cli.main(["run", str(jobs.fresh_spec), "--finish", "--quiet"]) == 0
    plan = load_plan(str(jobs.spec))
    for query in plan.queries:
        columns = stream_columns(plan, query)
        assert changes(jobs.job, query.name, columns).equals(changes(jobs.fresh, query.name, columns)), query.name
    assert set(jobs.names[1:]) < {q.name for q in plan.queries} and not (jobs.job / "out" / f"{jobs.names[0]}_changes").exists()
    jobs.verified()


def _said(run: Run, start: str, times: int) -> None:
    """Wait until so many lines begin so."""
    with run._news:
        assert run._news.wait_for(lambda: sum(x.startswith(f"{start} ") for x in run.lines) >= times, 300), run.lines
