"""``skyband query`` on tables written without Spark: what it prints, in every format, and how it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.arguments import parse_instant
from skyband.jobs.cli import main
from skyband.jobs.reading import query as command
from skyband.operators.base import Window
from tests.framework.tables.results.test_reader import job
from tests.framework.whatif import ran
from tests.framework.whatif.test_kinds import SPEC as KINDS


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    made, _ = job(tmp_path, ("grp",))
    monkeypatch.setattr(command, "load_plan", lambda spec: made)
    return made


def test_a_table_a_csv_and_json(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["query", "spec.yaml", "near", "--k", "2", "--window", "12 rows", "--key", "grp=b"]
    expected = Reader(plan).snapshot("near", 2, Window(12, None), {"grp": "b"}).rows.to_pylist()
    assert main(ask) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "near: 2 rows, as of 2020-01-01 00:14:59.999999 UTC"
    assert lines[2].split()[:3] == ["grp", "rank", "older_id"]
    assert [line.split()[:3] for line in lines[4:]] == [["b", str(r["rank"]), str(r["older_id"])] for r in expected]
    assert len({len(line) for line in (lines[2], *lines[4:])}) == 1
    assert main([*ask, "--format", "csv", "--limit", "1"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["grp"], r["newer_seq"]) for r in rows] == [("b", str(expected[0]["newer_seq"]))]
    assert main([*ask, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["query"], found["of"], found["as_of"]) == ("near", 2, "2020-01-01T00:14:59.999999Z")
    assert [(r["score"], r["older_seq"]) for r in found["rows"]] == [(r["score"], r["older_seq"]) for r in expected]


def test_a_limit_shows_the_best_of_every_key_first(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    whole = Reader(plan).as_of("near").rows
    keys = sorted({r["grp"] for r in whole.to_pylist()})
    assert len(keys) > 1 and whole.num_rows > len(keys) + 1
    assert main(["query", "spec.yaml", "near", "--limit", str(len(keys) + 1), "--sql"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"near: {len(keys) + 1} of {whole.num_rows} rows, as of ")
    rows = [line.split()[:2] for line in out.splitlines()[4 : 5 + len(keys)]]
    assert rows == [*([key, "1"] for key in keys), [keys[0], "2"]]
    assert main(["query", "spec.yaml", "near", "--limit", "1000000", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rows"]) == found["of"] == whole.num_rows
    assert [(r["rank"], r["grp"]) for r in found["rows"]] == sorted((r["rank"], r["grp"]) for r in found["rows"])
    assert main(["query", "spec.yaml", "near", "--limit", "0", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_an_instant_before_everything_and_one_not_reached(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "spec.yaml", "near", "--at", "2019-01-01T12:00"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("near: 0 rows, as of 2019-01-01 12:00 UTC")
    assert "before the first result" in told.err
    assert main(["query", "spec.yaml", "near", "--at", "2033-01-01"]) == 2
    assert "SKY-E402 results are complete only up to 2020-01-01T00:14:59.999999" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--at", "noon"], ["--window", "a while"], ["--k", "3", "--at", "2020-01-01"], ["--key", "b"], ["--k", "900"]]
)
def test_bad_arguments_are_named(plan: Plan, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["query", "spec.yaml", "near", *arguments]) == 2
    assert "SKY-E201" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["grp=a,grp=b"], "--key grp=a,grp=b names several columns\n  hint: repeat the option: --key grp=a --key grp=b"),
        (["grp=a, grp=b"], "repeat the option: --key grp=a --key grp=b"),
        (["grp=a", "grp=b"], "--key names the column 'grp' twice"),
    ],
)
def test_several_keys_take_an_option_each(plan: Plan, capsys: pytest.CaptureFixture[str], keys: list[str], words: str) -> None:
    assert main(["query", "spec.yaml", "near", *(a for k in keys for a in ("--key", k))]) == 2
    assert words in capsys.readouterr().err


def test_the_boundary_of_a_tumbling_window_names_the_table_of_final_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tumbling.yaml").write_text(KINDS)
    rows = [{"id": i, "ts": f"2020-01-01T00:{m:02}:00Z", "grp": "p", "who": "a", "said": "s", "x": i} for i, m in enumerate((1, 4, 13, 27))]
    ran.make(tmp_path / "tumbling.yaml", [rows])
    for at, said in (("2020-01-01T00:10", True), ("2020-01-01T00:20", True), ("2020-01-01T00:13", False)):
        assert main(["query", "tumbling.yaml", "hourly", "--at", at]) == 0
        assert ("its final result is in table hourly_final" in capsys.readouterr().err) is said
    assert main(["query", "tumbling.yaml", "loud", "--at", "2020-01-01T00:10"]) == 0
    assert "_final" not in capsys.readouterr().err


def test_instants_and_windows_are_read() -> None:
    assert parse_instant("2013-07-01T12:00") == datetime(2013, 7, 1, 12, tzinfo=UTC)
    assert parse_instant("2013-07-01T12:00+02:00") == datetime(2013, 7, 1, 10, tzinfo=UTC)
    assert command.parse_window("1 day") == Window(None, 86_400_000_000)
    assert command.parse_window("500 rows, 2 hours") == Window(500, 7_200_000_000)
    with pytest.raises(SkybandError):
        command.parse_window("0 rows")


def test_no_spark_is_imported() -> None:
    modules = "skyband.jobs.reading.query, skyband.framework.tables.results.reader"
    code = f"import sys, {modules}\nprint([m for m in ('pyspark', 'delta') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
