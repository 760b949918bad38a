"""``skyband why`` of a job that has run: its rows are read again, its story is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.why.source import passing, read_parts
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.framework.verify import small
from tests.framework.why.test_why import QUERIES, SCORING, random_rows
from tests.local.jobs import run
from tests.spark.jobs import stamp, write_file, write_spec


def test_rows_are_read_again_as_a_run_has_taken_them(tmp_path: Path) -> None:
    rows = random_rows(5)
    for n in (0, 1):
        write_file(tmp_path, f"{n}.csv", rows[n::2], n)
    plan = load_plan(str(write_spec(tmp_path, queries=QUERIES, scoring=SCORING)))
    read = read_parts(plan, [([f"{tmp_path}/in/{n}.csv" for n in (0, 1)], {})])
    found = None if read is None else passing(plan, read)
    assert found is not None
    expected = small._rows(plan, rows).select(found.column_names)
    assert found.sort_by("id").to_pylist() == expected.sort_by("id").to_pylist()


def test_rows_that_the_engine_may_read_otherwise_are_left_to_it(tmp_path: Path) -> None:
    write_file(tmp_path, "0.csv", [[1, "2020-01-01 00:00 Europe/Berlin", "p", 1, 1, "a"]], 0)
    plan = load_plan(str(write_spec(tmp_path, queries=QUERIES, scoring=SCORING)))
    assert read_parts(plan, [([f"{tmp_path}/in/0.csv"], {})]) is None


def test_what_cannot_be_asked_is_told_before_tables_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(write_spec(tmp_path, queries=QUERIES, scoring=SCORING))
    for argv, said in (
        (("bst", "1"), "did you mean 'best'?"), (("best", "one"), "SKY-E201 'one' is not a value of id, which is bigint"),
        (("best", "1"), "SKY-E402 this job has not run yet"), (("best", "1", "--at", "soon"), "SKY-E201"),
    ):  # fmt: skip
        assert main(["why", spec, *argv]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.long
def test_the_story_of_a_job_that_has_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path, queries=QUERIES, watermark="10 minutes", scoring=SCORING)
    write_file(
        tmp_path,
        "0.csv",
        [[1, stamp(0), "p", 2, 0, "a"], [2, stamp(1), "p", 5, 1, "b"], [3, stamp(2), "p", 3, 0, "a"], [4, stamp(60), "p", 0, 0, "a"]],
        0,
    )
    run(spec)
    write_file(tmp_path, "1.csv", [[5, stamp(10), "p", 9, 0, "a"]], 1)
    run(spec)
    assert main(["why", str(spec), "best", "1"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:6] == [
        "best: id 1",
        "  2020-01-01 00:00:00 UTC  entered at rank 1 (arrival): id 1; score 2",
        "      best rank 1, before it left 2",
        "  2020-01-01 00:00:00 UTC  in the result, at rank 1 of 1; score 2",
        "  2020-01-01 00:02:00 UTC  left (displaced)",
        "      replaced by: id 3; score 3",
    ]
    assert told[-3:] == [
        "  2020-01-01 01:00:00 UTC  all 2 of the result rank before it; score 2",
        "      rank 1: id 2; 5",
        "      rank 2: id 3; 3",
    ]
    assert main(["why", str(spec), "best", "5"]) == 0
    told = capsys.readouterr().out
    assert "never in the result" in told and "a row of 2020-01-01 00:10 was rejected, reason late (batch" in told
    assert main(["why", str(spec), "pairs", "2", "3", "--at", "2020-01-01T00:30"]) == 0
    assert "in the result, at rank" in capsys.readouterr().out
    (tmp_path / "in" / "0.csv").unlink()
    assert main(["why", str(spec), "best", "1"]) == 0
    assert "its scores cannot be recomputed: 1 of the 2 source files are gone" in capsys.readouterr().out
