"""Queries that come to a job are made alone: its tables are those of a job that had them from its beginning, whatever is killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.streaming.job.layout import Layout
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.added import Two
from tests.spark.jobs import sorted_rows, table
from tests.spark.kinds import KINDS
from tests.spark.rebuilds import rebuild, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def two(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Two:
    """After three files, each taken by a run of its own, the second one finished; then the queries come."""
    made = Two(tmp_path, getattr(request, "param", "keyed"))
    for finish in ((), ("--finish",), ()):
        made.more()
        made.run(*finish)
    made.edit()
    return made


@pytest.mark.parametrize("two", KINDS, indirect=True)
def test_queries_that_come_are_as_if_they_had_been_there(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    names = [q.name for q in load_plan(str(two.spec)).queries]
    before = {p.name: sorted_rows(table(two.job, p.name)) for p in (two.job / "out").glob("*_changes")}
    assert 0 < len(before) < len(names)
    assert cli.main(["run", str(two.old), "--quiet"]) == 2
    assert cli.main(["plan", str(two.old)]) == 1
    said = capsys.readouterr()
    assert "SKY-E150" in said.err and "can be made alone" in said.out and "--added" in said.out
    assert cli.main(["rebuild", str(two.old), "--added"]) == 0
    assert cli.main(["plan", str(two.old)]) == 0
    for name, rows in before.items():
        assert sorted_rows(table(two.job, name)) == rows, "of the queries of before no row is another"
    two.equal()
    home = Layout(str(two.job / "out")).home
    assert not any((home / name).exists() for name in ("added", "filling", "gone", "swap.json"))
    for finish in ((), ("--finish",)):
        two.more()
        two.run(*finish)
        two.equal()
    assert cli.main(["verify", str(two.old), "--instants", "3"]) == 0
    assert cli.main(["run", str(two.old), "--rebuild-results", "--quiet"]) == 0
    two.equal()
    assert runs(two.job)[-5:] == [("run", "refused"), ("rebuild", "done"), ("run", "done"), ("run", "done"), ("run", "done")]


@pytest.mark.chaos
@pytest.mark.parametrize("at", ["added.made", "swap.step:3", "swap.moved", "state.after:1", "sink.between:2", "sink.after:1"])
def test_killed_anywhere_it_has_happened_or_not(two: Two, at: str) -> None:
    before = {p.name: sorted_rows(table(two.job, p.name)) for p in (two.job / "out").glob("*_changes")}
    two.more()
    killed = rebuild(two.old, "--added", failpoint=at)
    assert killed.returncode == -9, killed.stderr
    if at == "added.made":
        assert {p.name: sorted_rows(table(two.job, p.name)) for p in (two.job / "out").glob("*_changes")} == before
        assert cli.main(["run", str(two.old), "--quiet"]) == 2
        assert cli.main(["rebuild", str(two.old), "--added"]) == 0
    else:
        # Once more is as good as a run.
        again = ["rebuild", str(two.old), "--added"] if at.startswith("s") and ":" in at else ["run", str(two.old)]
        assert cli.main([*again, "--quiet"]) == 0
    assert cli.main(["run", str(two.spec), "--quiet"]) == 0
    two.equal()
    two.more()
    two.run("--finish")
    two.equal()
    assert cli.main(["verify", str(two.old), "--instants", "3"]) == 0


def test_what_stands_in_the_way_is_said_and_nothing_has_happened(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    def tables() -> dict[str, int]:
        return {p.name: table(two.job, p.name).num_rows for p in (two.job / "out").glob("*_changes")}

    before, file = tables(), two.job / "in" / "1.csv"
    rows = file.read_text().splitlines(keepends=True)
    file.write_text("".join(rows[:-9]))
    assert cli.main(["rebuild", str(two.old), "--added"]) == 2
    assert "SKY-E581" in capsys.readouterr().err
    file.unlink()
    assert cli.main(["rebuild", str(two.old), "--added"]) == 2
    assert "SKY-E580" in (said := capsys.readouterr().err) and "1 of the 3 files" in said
    two.old.write_text(two.whole.replace("watermark: 1 hour", "watermark: 2 hours"))
    assert cli.main(["rebuild", str(two.old), "--added"]) == 2
    assert "SKY-E580 not only queries have come" in capsys.readouterr().err
    assert tables() == before
