"""``skyband sql``: it answers over tables and views, opens only what is named, and reaches nothing else."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.storage import delta_read
from skyband.framework.tables.sql.statements import Statements
from skyband.jobs.cli import main
from skyband.jobs.reading import sql as command
from tests.framework.tables.results.test_reader import job


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    made, _ = job(tmp_path, ("grp",))
    monkeypatch.setattr(command, "load_plan", lambda spec: made)
    return made


def test_a_table_a_csv_and_json(plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    statement = 'select grp, "rank", score, as_of from near_now order by grp, 2'
    assert main(["sql", "spec.yaml", statement]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["grp", "rank", "score", "as_of"] and len(table) > 3
    monkeypatch.setattr("sys.stdin", io.StringIO(statement))
    assert main(["sql", "spec.yaml", "--format", "json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [r["rank"] for r in rows] == [int(line.split()[1]) for line in table[2:]]
    assert main(["sql", "spec.yaml", statement, "--format", "csv", "--limit", "1"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[0] == "grp,rank,score,as_of" and len(told.out.splitlines()) == 2 and "the first 1 row; " in told.err
    assert main(["sql", "spec.yaml", "select * from near where false"]) == 0
    assert capsys.readouterr().out.startswith("no rows of grp, older_id")


def test_only_what_a_statement_names_is_opened(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    original = delta_read.open_table
    monkeypatch.setattr(delta_read, "open_table", lambda root, name: opened.append(name) or original(root, name))
    statements = Statements(plan)
    statements.ask("select 1")
    assert opened == []
    statements.ask("select count(*) from Near_Now n join near3 using (grp)")
    assert sorted(opened) == ["near3", "near_now"]
    statements.ask("select * from near_history")
    assert sorted(opened) == ["near", "near3", "near_now"]
    assert statements.ask("select count(*) as n from information_schema.tables")["n"].to_pylist()[0] > len(opened) + 3


def test_every_type_of_value_is_printed(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    statement = (
        "select 1 as a, 2 as a, [1, null], {'x': timestamptz '2020-01-01 00:00:00+00', 'y': 'nan'::double}, map {'k': 1}, interval 1 day, "
        "'\\x01'::blob, uuid(), 1.5::decimal(4,2), date '2020-01-01', time '12:00', 170141183460469231731687303715884105727::hugeint, "
        "'a' || chr(27) || '[31m', null"
    )
    for form in ("table", "csv", "json"):
        assert main(["sql", "spec.yaml", statement, "--format", form]) == 0, form
        told = capsys.readouterr()
        assert "\x1b" not in told.out and not told.err
    (row,) = json.loads(told.out)["rows"]
    assert len(row) == 14 and "\\u001b" in told.out
    assert main(["sql", "spec.yaml", "select timestamp 'infinity'"]) == 2
    assert "SKY-E404" in capsys.readouterr().err


OUTSIDE = (
    "select * from read_text('{file}')", "select * from '{file}'", "select * from glob('/*')", "select * from read_csv('{file}')",
    "select * from read_parquet('{file}')", "select * from sniff_csv('{file}')", "select * from read_csv('https://example.com/x.csv')",
    "select * from delta_scan('{directory}')", "select * from query('copy near to ''{file}.csv''')",
    "select * from query('attach ''{file}.db''')", "select * from enable_logging(storage='file', storage_path='{file}.log')",
    "select * from duckdb_secrets()", "select getenv('HOME')", "select * from secret_of_python", "select * from arrow_scan(1, 2, 3)",
)  # fmt: skip
NO_QUERIES = (
    "copy (select 1) to '{file}.csv'", "attach '{file}.db'", "install delta", "load delta", "set enable_external_access = true",
    "pragma enable_external_access", "reset lock_configuration", "export database '{directory}/x'", "create table t as select 1",
    "import database '{directory}'", "call enable_logging()", "drop view near_history", "select 1; select 2", "", "  ; ",
)  # fmt: skip


@pytest.mark.parametrize("statement", OUTSIDE)
def test_nothing_outside_is_reached(plan: Plan, tmp_path: Path, statement: str) -> None:
    secret_of_python = pa.table({"x": [1]})
    assert secret_of_python.num_rows
    (tmp_path / "outside").write_text("a\n1\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SkybandError) as e:
        Statements(plan).ask(statement.format(file=tmp_path / "outside", directory=tmp_path))
    assert e.value.code == "SKY-E404" and "\n" not in e.value.message
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("statement", NO_QUERIES)
def test_only_one_query_is_taken(plan: Plan, tmp_path: Path, statement: str) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SkybandError) as e:
        Statements(plan).ask(statement.format(file=tmp_path / "outside", directory=tmp_path))
    assert e.value.code in ("SKY-E201", "SKY-E404")
    assert sorted(tmp_path.iterdir()) == before


def test_mistakes_are_told_in_a_line(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    for statement, said in (
        ("select * from naer", "did you mean 'near'?"), ("selec 1", "syntax error"), ("select nothing from near", "nothing"),
        ("select * from elsewhere", "--dictionary"),
    ):  # fmt: skip
        assert main(["sql", "spec.yaml", statement]) == 2
        err = capsys.readouterr().err
        assert err.startswith("SKY-E404 the statement cannot be answered: ") and said in err and "Traceback" not in err
    assert main(["sql", "spec.yaml", " "]) == 2 and "SKY-E201" in capsys.readouterr().err


def test_without_a_run_the_table_is_named(tmp_path: Path) -> None:
    from tests.framework.tables.plans import make_plan

    with pytest.raises(SkybandError, match="SKY-E400 there is no table 'near_now'"):
        Statements(make_plan(str(tmp_path / "nowhere"))).ask("select * from near_now")


@pytest.mark.parametrize("name", ["sql", "views", "report", "maintain", "serve"])
def test_help_has_examples_and_fits_a_screen(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main([name, "--help"])
    shown = capsys.readouterr().out
    assert e.value.code == 0 and f"examples:\n  skyband {name} " in shown and max(map(len, shown.splitlines())) <= 100
