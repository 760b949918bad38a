"""Top-k by several sort keys, with ties, chosen orders of equal rows and nulls, through the whole job: no cut shows, results are proven."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from skyband.framework.tables.results.reader import Reader
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from skyband.operators.base import Window
from tests.framework.tables.sql.elsewhere import same_elsewhere
from tests.framework.verify.consistent import changes_of
from tests.framework.verify.consistent import write as write_changes
from tests.local.jobs import run
from tests.spark.cuts import same, stream, verified, whole_and_in_parts, write
from tests.spark.jobs import by_the_local_engine, table, write_spec
from tests.spark.ranked import deleting_stream

pytestmark = pytest.mark.long

SCORING = '  high: {expression: "x + y", direction: max}\n  low: {linear: {x: 1, y: -2}, direction: min}\n'
QUERIES = """\
  several: {type: topk, k: 3, order: [{expression: x, direction: min}, {expression: side}, {expression: ts}], carry: [y]}
  texts: {type: topk, k: 4, order: [{expression: side, direction: min}, {expression: x}], ties: include, tie_break: [y, id]}
  values: {type: topk, k: 3, order: [{expression: x + y, as: total}, {expression: grp}], ties: dense, window: {count: 20}}
  alone: {type: topk, k: 5, scoring: high, ties: exclude, min_score: 2}
  oldest: {type: topk, k: 4, scoring: low, tie_break: oldest, max_score: 9, window: {time: 2 hours}}
  filled: {type: topk, k: 6, scoring: high, where: "x is null or y = 3", nulls: last, window: {count: 12}}
  hourly: {type: topk, k: 3, order: [{expression: x}], ties: include, nulls: last, where: "x is null or y = 3", window: {count: 9},
    every: 20 minutes}
"""
NAMES = ("several", "texts", "values", "alone", "oldest", "filled", "hourly")
RANKED = ("several", "oldest", "filled")
"""Those whose state is a K-skyband with a table."""


@pytest.mark.parametrize("deletes", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("keyed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_files_and_restarts_leave_no_trace_and_results_are_proven(
    tmp_path: Path, keyed: bool, deletes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = deleting_stream(7) if deletes else stream(7)
    how = {"deletes": "deletes: side = 'd'"} if deletes else {}
    keys = ("grp",) if keyed else ()
    whole, parts = whole_and_in_parts(None, tmp_path, rows, keyed, queries=QUERIES, scoring=SCORING, **how)
    found = {name: same(whole, parts, name, keys) for name in NAMES}
    assert found["filled"]["score"].null_count > 5 and found["hourly"]["x"].null_count > 0
    assert {"arrival", "expiry", "promoted", "displaced"} <= set(found["alone"]["cause"].to_pylist())
    assert ("delete" in set(found["texts"]["cause"].to_pylist())) == deletes
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    assert "not compared" not in capsys.readouterr().out
    ranks_in_sql(parts, keys, deletes)


def ranks_in_sql(directory: Path, keys: tuple[str, ...], deletes: bool) -> None:
    """Ranks follow from the tables: the results of the reader, of its SQL in DuckDB and in other dialects are the same."""
    reader = Reader(load_plan(str(directory / "spec.yaml")))
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    sql.register("heads", table(directory, "heads"))
    for name in NAMES:
        sql.register(name, table(directory, name))
        answer = reader.as_of(name)
        assert same_elsewhere(reader.plan, name, answer) == answer.rows.num_rows > 0
        shown = [c for c in answer.rows.column_names if c != "rank"]
        assert sql.sql(answer.sql).to_arrow_table().select(shown).to_pylist() == answer.rows.select(shown).to_pylist()
    for name in () if deletes else RANKED:
        sql.register(f"{name}_skyband", table(directory, f"{name}_skyband"))
        own = reader.snapshot(name).rows.to_pylist()
        now = reader.as_of(name).rows.to_pylist()
        assert [(r["seq"], r["rank"]) for r in own] == [(r["seq"], r["rank"]) for r in now]
        few = reader.snapshot(name, k=2, window=Window(9, None))
        assert 0 < few.rows.num_rows <= 2 * len({tuple(r[c] for c in keys) for r in now})
        assert sql.sql(few.sql).to_arrow_table().select(few.rows.column_names).to_pylist() == few.rows.to_pylist()


def test_other_commands_know_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path, queries=QUERIES, scoring=SCORING)
    by_the_local_engine(spec)
    write(tmp_path, stream(9, 160), 1)
    run(spec)
    for name in NAMES:
        first = table(tmp_path, name).to_pylist()[0]
        capsys.readouterr()
        assert cli.main(["why", str(spec), name, str(first["id"])]) == 0, name
        assert "entered" in capsys.readouterr().out
        assert cli.main(["whatif", str(spec), "--query", name, "--without", str(first["id"])]) == 0, name
        assert "differ" in capsys.readouterr().out
    assert cli.main(["report", str(spec), "--out", str(tmp_path / "report.html")]) == 0


@pytest.mark.parametrize(("name", "column"), [("values", "total"), ("oldest", "score"), ("several", "x"), ("texts", "side")])
def test_another_value_than_the_source_gives_is_seen(tmp_path: Path, name: str, column: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path, queries=QUERIES, scoring=SCORING)
    by_the_local_engine(spec)
    write(tmp_path, stream(9, 160), 1)
    run(spec)
    plan = load_plan(str(spec))
    altered = changes_of(plan, name)
    item = altered.rows[len(altered.rows) // 2]
    for row in altered.of(item):
        row[column] = "c" if column == "side" else (row[column] or 0) + 0.5
    write_changes(altered)
    capsys.readouterr()
    assert not verified(spec)
    assert f"query {name}" in (said := capsys.readouterr().out) or f"table {name}_changes" in said


def test_results_are_taken_by_further_queries(tmp_path: Path) -> None:
    queries = (
        "  best: {type: topk, k: 4, order: [{expression: x}, {expression: x * y, as: product}], ties: include, nulls: last, carry: [grp]}\n"
        "  again: {type: topk, from: best, k: 2, order: [{expression: best_product, direction: min}, {expression: x}], ties: dense}\n"
        "  often: {type: topk_groups, from: best, group: grp, score: count(), k: 2}\n"
    )
    spec = write_spec(tmp_path, queries=queries)
    by_the_local_engine(spec)
    write(tmp_path, stream(11, 200), 4)
    run(spec)
    assert table(tmp_path, "again_changes").num_rows > 50 and table(tmp_path, "often_changes").num_rows > 5
    assert verified(spec)
