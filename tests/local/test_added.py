"""Queries that come to a job of the local engine are made alone, without Spark: its tables are those of a job that always had them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.rebuild import ordered_rows
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.added import Two
from tests.spark.jobs import sorted_rows, table
from tests.spark.kinds import KINDS
from tests.spark.rebuilds import rebuild, runs

pytestmark = pytest.mark.long


@pytest.fixture
def two(tmp_path: Path, request: pytest.FixtureRequest) -> Two:
    """After three files, each taken by a run of its own, the second one finished; then the queries come."""
    made = Two(tmp_path, getattr(request, "param", "keyed"), "local")
    for finish in ((), ("--finish",), ()):
        made.more()
        made.run(*finish)
    made.edit()
    return made


@pytest.mark.parametrize(
    "two", [pytest.param(k, marks=() if k == "keyed" else pytest.mark.slow) for k in KINDS if k != "shards"], indirect=True
)
def test_queries_that_come_are_as_if_they_had_been_there(two: Two) -> None:
    before = {p.name: sorted_rows(table(two.job, p.name)) for p in (two.job / "out").glob("*_changes")}
    assert 0 < len(before) < len(load_plan(str(two.spec)).queries)
    assert cli.main(["rebuild", str(two.old), "--added", *two.engine]) == 0
    for name, rows in before.items():
        assert sorted_rows(table(two.job, name)) == rows, "of the queries of before no row is another"
    two.equal()
    home = Layout(str(two.job / "out")).home
    assert not any((home / name).exists() for name in ("added", "filling", "gone", "swap.json"))
    two.more()
    two.run("--finish")
    two.equal()
    assert cli.main(["verify", str(two.old), "--instants", "3"]) == 0
    assert runs(two.job)[-3:] == [("run", "done"), ("rebuild", "done"), ("run", "done")]


@pytest.mark.chaos
@pytest.mark.parametrize("at", ["added.made", "swap.step:3", "swap.moved"])
def test_killed_anywhere_it_has_happened_or_not(two: Two, at: str) -> None:
    two.more()
    killed = rebuild(two.old, "--added", *two.engine, failpoint=at)
    assert killed.returncode == -9, killed.stderr
    again = ["run", str(two.old)] if at == "swap.moved" else ["rebuild", str(two.old), "--added"]
    assert cli.main([*again, "--quiet", *two.engine]) == 0
    assert cli.main(["run", str(two.spec), "--quiet", *two.engine]) == 0
    two.equal()


def test_a_source_that_lacks_rows_is_refused_and_nothing_has_happened(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    def tables() -> dict[str, int]:
        return {p.name: table(two.job, p.name).num_rows for p in (two.job / "out").glob("*_changes")}

    before, file = tables(), two.job / "in" / "1.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-9]))
    assert cli.main(["rebuild", str(two.old), "--added", *two.engine]) == 2
    assert "SKY-E581" in capsys.readouterr().err and tables() == before


@pytest.mark.parametrize("buckets", [1, 3])
def test_rows_come_bucket_after_bucket_in_the_order_of_time(tmp_path: Path, buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(buckets)
    parts = [[(rng.randrange(-50, 50), rng.randrange(9)) for _ in range(n)] for n in (5, 0, 40, 1)]
    schema = pa.schema([("ts", pa.int64()), ("__k1", pa.int64())])

    def taken(*_: object) -> list[pa.Table]:
        # A file that Spark has read has its columns in another order.
        tables = [pa.Table.from_pylist([{"ts": t, "__k1": k - 4} for t, k in rows], schema) for rows in parts]
        return [*tables[:-1], tables[-1].select(["__k1", "ts"])]

    monkeypatch.setattr(ordered_rows, "taken_tables", taken)
    monkeypatch.setattr(ordered_rows, "_ROWS", 7)
    two = Two(tmp_path, "keyed", "local")
    plan = load_plan(str(two.spec if buckets == 3 else KINDS["pairs"].write(tmp_path / "pairs", 1)))
    rows = ordered_rows.ordered_rows(None, plan, None, None, plan.intake, tmp_path / "rows")  # type: ignore[arg-type]
    got = [(r["__k1"] % buckets, r["ts"], r["__k1"]) for batch in rows for r in batch.to_pylist()]
    assert [g[:2] for g in got] == sorted(g[:2] for g in got)
    assert sorted(got) == sorted(((k - 4) % buckets, t, k - 4) for part in parts for t, k in part)
    assert list((tmp_path / "rows").iterdir()) == []
