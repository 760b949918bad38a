"""``skyband query --durable`` and ``--records``, and the same in Python: over a job's tables, by definition, in every format."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import skyband
from skyband.framework.base.units import parse_share
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.framework.tables.sql.elsewhere import in_duckdb
from tests.framework.verify import small
from tests.jobs.test_machines import known
from tests.spark.cuts import stream
from tests.spark.jobs import START, write_spec

QUERIES = "  best: {type: topk, scoring: by_x, k: 3, carry: [x, y]}\n  far: {type: topk_pairs, scoring: far, k: 2}\n"
SCORING = "  by_x: {expression: x, direction: max}\n"
ROWS = 90
WINDOW = timedelta(minutes=20)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_spec(tmp_path_factory.mktemp("stays"), queries=QUERIES, scoring=SCORING, window="{time: 20 minutes}")
    known(small.make(path, stream(5, ROWS)))
    return path


def asked(capsys: pytest.CaptureFixture[str], spec: Path, *argv: str) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    assert main(["query", str(spec), *argv, "--format", "json"]) == 0
    told = capsys.readouterr()
    return json.loads(told.out), told.err


def arrived() -> dict[int, tuple[datetime, float]]:
    """The rows that have a score, by id: time and score."""
    rows = {int(str(ident)): (datetime.fromisoformat(str(ts)), str(x)) for ident, ts, _, x, *_ in stream(5, ROWS)}
    assert len(rows) == ROWS
    return {ident: (at, float(x)) for ident, (at, x) in rows.items() if x}


@pytest.mark.parametrize("after", [None, 0, 5, 10, 19])
def test_records_are_in_the_top_of_the_window_before_or_around_them(spec: Path, after: int | None) -> None:
    job, age = skyband.load(spec), timedelta(minutes=after or 0)
    source = arrived()
    assert job.sql("select sum(accepted) as n from runs").to_pylist() == [{"n": ROWS}]
    found = job.records("best", None if after is None else timedelta(minutes=after))
    complete = found.as_of
    expected = set()
    for ident, (at, x) in source.items():
        then = at + age
        around = [(score, t) for t, score in source.values() if then - WINDOW < t <= then]
        if then <= complete and sum(score > x for score, _ in around) < 3:
            expected.add(ident)
    # Ties at the third rank are broken by position, which the stream does not tell: the definition allows for more.
    assert set(found.rows["id"].to_pylist()) <= expected and found.rows.num_rows >= 15
    certain = {
        i for i in expected
        if sum(score >= source[i][1] and source[i][0] + age - WINDOW < t <= source[i][0] + age for t, score in source.values()) <= 3
    }  # fmt: skip
    assert certain <= set(found.rows["id"].to_pylist()) and len(certain) >= 5
    assert (found.note is not None) == (after not in (None, 0))
    assert in_duckdb(_whole(spec, found.sql)) == found.rows.to_pylist()


def _whole(spec: Path, sql: str) -> str:
    from skyband.framework.tables.sql.dialects import limited

    return limited(load_plan(str(spec)), sql, "duckdb")


def test_durable_items_are_in_the_results_as_of_that_many_instants(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start, end = START + timedelta(minutes=30), START + timedelta(minutes=90)
    reader, seen = Reader(load_plan(str(spec))), dict[int, int]()
    # All changes of this job are at whole minutes, so one instant a minute stands for the minute.
    for minute in range(60):
        for ident in reader.as_of("best", start + timedelta(minutes=minute)).rows["id"].to_pylist():
            seen[ident] = seen.get(ident, 0) + 1
    for percent in (5, 20, 25, 100):
        found, _ = asked(capsys, spec, "best", "--durable", f"{percent}%", "--from", "1 hour", "--to", "2020-01-01T01:30")
        assert {r["id"]: r["seconds"] for r in found["rows"]} == {i: 60.0 * n for i, n in seen.items() if 100 * n >= percent * 60}
        assert (found["from"], found["to"], found["of"]) == (
            "2020-01-01T00:30:00.000000Z",
            "2020-01-01T01:30:00.000000Z",
            len(found["rows"]),
        )
        same = skyband.load(spec).durable("best", f"{percent}%", start, end)
        assert [r["id"] for r in found["rows"]] == same.rows["id"].to_pylist() and same.end == end


def test_a_table_a_csv_and_json(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["query", str(spec), "best", "--durable", "10%", "--from", "2020-01-01", "--to", "2020-01-01T02:00", "--by", "y"]
    expected = skyband.load(spec).durable("best", "10%", "2020-01-01", "2020-01-01T02:00", ["y"]).rows
    assert main([*ask, "--limit", "2", "--sql"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"best: 2 of {expected.num_rows} values in the result for 10% of 2020-01-01 00:00 to 2020-01-01 02:00 UTC"
    assert lines[2].split() == ["y", "seconds", "share", "first_entered", "last_left", "stays"] and lines[6] == ""
    assert in_duckdb("\n".join(lines[7:]).removesuffix(";")) == expected.slice(0, 2).to_pylist()
    assert main([*ask, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(r["seconds"]) for r in rows] == expected["seconds"].to_pylist() and len(rows) == expected.num_rows
    found, _ = asked(capsys, spec, *ask[2:])
    assert set(found) == {"query", "as_of", "from", "to", "of", "rows"} and [r["y"] for r in found["rows"]] == expected["y"].to_pylist()
    records, told = asked(capsys, spec, "best", "--records", "--after", "10 minutes")
    assert set(records["rows"][0]) >= {"id", "x", "y", "score", "entered_at", "left_at", "on_arrival"} and "not decided" in told
    assert main(["query", str(spec), "best", "--records", "--limit", "1"]) == 0
    assert "in the result on arrival, arrived 2020-01-01 00:" in capsys.readouterr().out
    assert main(["query", str(spec), "best", "--durable", "10%", "--to", "2019-01-01"]) == 0
    told_early = capsys.readouterr()
    assert told_early.out.startswith("best: 0 items") and "before the first result" in told_early.err
    assert asked(capsys, spec, "far", "--durable", "1%")[0]["of"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--durable", "0%"], "not a share above 0% and up to 100%"),
        (["--durable", "101%"], "not a share above 0% and up to 100%"),
        (["--durable", "0.8"], "not a share above 0% and up to 100%"),
        (["--durable", "80%", "--from", "2020-01-01T01:00", "--to", "2020-01-01T00:30"], "the interval is empty"),
        (["--durable", "80%", "--from", "0 hours"], "the interval is empty"),
        (["--durable", "80%", "--from", "soon"], "from takes an instant, not 'soon'"),
        (["--durable", "80%", "--to", "1 day"], "to takes an instant, not '1 day'"),
        (["--durable", "80%", "--by", "nothing"], "no column 'nothing'"),
        (["--durable", "80%", "--records"], "--durable cannot be combined with --records"),
        (["--durable", "80%", "--at", "2020-01-01"], "--durable cannot be combined with --at"),
        (["--durable", "80%", "--after", "1 hour"], "--durable cannot be combined with --after"),
        (["--records", "--by", "x"], "--records cannot be combined with --by"),
        (["--records", "--k", "2"], "--records cannot be combined with --k"),
        (["--records", "--after", "20 minutes"], "its window is 20 minutes"),
        (["--records", "--after", "later"], "after takes a duration, not 'later'"),
        (["--from", "2020-01-01"], "--from needs --durable or --records"),
        (["--after", "1 hour"], "--after needs --durable or --records"),
    ],
)
def test_mistakes_are_named(spec: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["query", str(spec), "best", *arguments]) == 2
    told = capsys.readouterr().err
    assert "SKY-E201" in told and words in told, told


def test_a_share_that_no_item_can_have_is_said_to_be_impossible(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    interval = ["--from", "2020-01-01T00:10", "--to", "2020-01-01T01:10"]
    found, told = asked(capsys, spec, "best", "--durable", "80%", *interval)
    assert found["rows"] == [] and "no item can be in the result for 48 minutes: its window is 20 minutes" in told
    for possible in (["best", "--durable", "30%"], ["best", "--durable", "80%", "--by", "y"]):
        assert "no item can be" not in asked(capsys, spec, *possible, *interval)[1]


def test_pairs_have_no_records_and_the_future_no_result(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for query, arguments, words in (
        ("far", ["--records"], "SKY-E201 records are single rows"),
        ("far", ["--durable", "80%", "--to", "2033-01-01"], "SKY-E402 results are complete only up to"),
    ):
        assert main(["query", str(spec), query, *arguments]) == 2
        assert words in capsys.readouterr().err
    job = skyband.load(spec)
    for ask in (
        lambda: job.durable("best", 0.8),  # type: ignore[arg-type]
        lambda: job.durable("best", "80%", by=[3]),  # type: ignore[list-item]
        lambda: job.durable("best", "80%", timedelta(days=-1)),
        lambda: job.records("best", 30),  # type: ignore[arg-type]
        lambda: job.records("best", start=3),  # type: ignore[arg-type]
        lambda: job.records("best", key={"grp": "p"}),
    ):
        with pytest.raises(skyband.SkybandError) as e:
            ask()
        assert e.value.code == "SKY-E201"
    far_back = job.durable("best", "0.000000001%", timedelta(days=900_000), "2020-01-01T01:00")
    assert far_back.start.year == 1 and far_back.rows.num_rows > 3
    assert job.records("best", start=timedelta(days=900_000)).rows.num_rows > 15


def test_shares_are_exact() -> None:
    assert parse_share("80%") == Fraction(4, 5) and parse_share(" 0.000000001 % ") == Fraction(1, 10**11)
    assert parse_share("100%") == 1 and parse_share("33.3%") == Fraction(333, 1000)
    for said in ("0%", "100.1%", "80", "", "-1%", "a%"):
        with pytest.raises(ValueError, match="not a share"):
            parse_share(said)
