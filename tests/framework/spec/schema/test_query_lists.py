"""Tables of queries: formats, what cells mean, and every mistake told by row and column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.queries.single_rows.cells import MAX_ROWS, read_cells
from skyband.framework.queries.single_rows.list_rows import interpret
from skyband.framework.queries.single_rows.model import QueriesFrom
from skyband.framework.queries.topk.query_type import TopK
from skyband.framework.spec.load import validate_file
from skyband.operators.base import Window
from tests.specs import spec_text

SPEC = spec_text(
    "tables",
    "{id: bigint, ts: timestamp, x: double, y: int, side: string}",
    window="{count: 100, time: 1 day}",
    scoring={
        "near": '{expression: "abs(x - centre)", direction: min}',
        "high": "{expression: x, direction: max}",
    },
    queries={"many": "{QUERY}"},
)


def spec_of(query: str) -> str:
    """The spec with one query; a scoring function with parameters only where the query uses it."""
    text = SPEC.replace("QUERY", query[1:-1])
    return text if "near" in query else text.replace('  near: {expression: "abs(x - centre)", direction: min}\n', "")


BY_WEIGHTS = "{type: topk, k: 3, queries_from: {format: csv, path: table.csv}}"
LIMITS = "{type: threshold, queries_from: {format: csv, path: table.csv}}"
CENTRED = "{type: topk, k: 1, scoring: near, queries_from: {format: csv, path: table.csv}}"


@pytest.fixture
def mistakes(tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """(code, message) of everything that is wrong with a spec whose query is ``query`` and whose table is ``table``."""

    def found(query: str, table: str | None, env: dict[str, str] | None = None) -> list[tuple[str, str]]:
        spec = tmp_path / "spec.yaml"
        spec.write_text(spec_of(query))
        if table is not None:
            (tmp_path / "table.csv").write_text(table)
        _, errors = validate_file(str(spec), env or {})
        for e in errors:
            assert e.where is not None and e.where.line >= 9, e.render()
        return [(e.code, e.message.replace(f"{tmp_path}/", "")) for e in errors]

    return found


@pytest.mark.parametrize(
    "query, table",
    [
        (BY_WEIGHTS, "name,weight_x,weight_y\na,1,2\nb,,-1.5e3\n"),
        (
            BY_WEIGHTS,
            "\ufeffname, weight_x ,k,window,where,min_x,max_x,min_score\na,1,7,\"50 rows, 2 hours\",side = 'p',0,1,5\n\nb,1,,,,,,\n",
        ),
        (LIMITS, "name,weight_x,at_least,below\na,1,2,3\nb,1,,3\n"),
        (CENTRED, "name,centre\na,1\nb,2.5\n"),
        (CENTRED.replace("k: 1", "k: 1, where: 'y < most'"), "name,centre,most\na,1,3\nb,2.5,4\n"),
        (LIMITS.replace("type: threshold", "type: threshold, scoring: high, below: 9"), "name,at_least\na,1\nb,\n"),
        (BY_WEIGHTS.replace("table.csv", "table.csv, ignore: [owner]"), "name,weight_x,owner\na,1,Ann\n"),
    ],
)
def test_good_tables(mistakes: Callable[..., list[tuple[str, str]]], query: str, table: str) -> None:
    assert mistakes(query, table) == []


@pytest.mark.parametrize(
    "query, table, message",
    [
        (BY_WEIGHTS, "name,weight_z\na,1\n", "the column 'weight_z' weights 'z', which is not a column of the stream"),
        (BY_WEIGHTS, "name,weight_side\na,1\n", "the column 'weight_side' weights 'side', which is not a number"),
        (BY_WEIGHTS, "name,weight_x\na,heavy\n", "line 2, weight_x: takes a number, not 'heavy'"),
        (BY_WEIGHTS, "name,weight_x\na,nan\n", "line 2, weight_x: takes a finite number, not 'nan'"),
        (BY_WEIGHTS, "name,weight_x,k\na,1,0\n", "line 2, k: must be at least 1, not 0"),
        (BY_WEIGHTS, "name,weight_x,k\na,1,2.5\n", "line 2, k: takes a whole number, not '2.5'"),
        (BY_WEIGHTS, "name,weight_x\na,1\nb,2\na,3\n", "line 4: a second query named 'a', the first in line 2"),
        (BY_WEIGHTS, "name,weight_x\n,1\n", "line 2 has no name"),
        (BY_WEIGHTS, "weight_x\n1\n", "it has no column 'name' (it has 'weight_x')"),
        (BY_WEIGHTS, "name,k\na,1\n", "it has no weights, and the query no 'scoring'"),
        (BY_WEIGHTS, "name,weight_x,colour\na,1,red\n", "the column 'colour' means nothing"),
        (BY_WEIGHTS, "name,weight_x,min_y\na,1,3\n", "the column 'min_y' means nothing"),
        (
            BY_WEIGHTS,
            "name,weight_x,min_score,max_score\na,1,3,2\n",
            "line 2 ('a') has a min_score larger than its max_score: nothing can pass",
        ),
        (BY_WEIGHTS, "name,weight_x,window\na,1,2 days\n", "line 2, window: '2 days' is larger than the query's window (1 day)"),
        (
            BY_WEIGHTS,
            "name,weight_x,window\na,1,some\n",
            "line 2, window: 'some' is not a window (not a duration): write it as '1 day' or '500 rows'",
        ),
        (BY_WEIGHTS, "name,weight_x,where\na,1,side >\n", None),
        (BY_WEIGHTS, "name,weight_x,where\na,1,colour = 'red'\n", "line 2, where: unknown attribute colour"),
        (BY_WEIGHTS.replace(", k: 3", ""), "name,weight_x\na,1\n", "line 2 ('a') has no k"),
        (
            BY_WEIGHTS.replace("k: 3", "k: 3, scoring: high"),
            "name,weight_x\na,1\n",
            "the column 'weight_x' is a weight, but the query has 'scoring'",
        ),
        (LIMITS, "name,weight_x,at_least\na,1,much\n", "line 2, at_least: takes a number, not 'much'"),
        (LIMITS, "name,weight_x,at_least\na,1,\n", "line 2 ('a') has no bound: one of at_least, above, at_most, below"),
        (LIMITS, "name,weight_x,at_least,above\na,1,2,3\n", "line 2 ('a') has two bounds on one side (above, at_least)"),
        (LIMITS, "name,weight_x,at_least,k\na,1,2,3\n", "the column 'k' means nothing"),
        (LIMITS, "name,weight_x,above,at_most\na,1,2,2\n", "line 2 ('a') has bounds that nothing can pass"),
        (BY_WEIGHTS, "name,weight_x,min_x,max_x\na,1,5,2\n", "line 2: nothing is between min_x and max_x"),
        (
            BY_WEIGHTS,
            "name,weight_y,max_y\na,1,9007199254740992\n",
            "line 2, max_y: '9007199254740992' is too large to compare exactly: say it with 'where'",
        ),
        (BY_WEIGHTS, "name,weight_x,where\na,1,y = -9223372036854775808\n", "line 2, where: this whole number does not fit into 64 bits"),
        (BY_WEIGHTS, "name,weight_x,direction\na,1,up\n", "line 2, direction: takes min or max, not 'up'"),
        (LIMITS, "name,weight_x,at_least,direction\na,1,2,min\n", "the column 'direction' means nothing"),
        (BY_WEIGHTS, "name,weight_x\na,1_000\n", "line 2, weight_x: takes a number, not '1_000'"),
        (BY_WEIGHTS, "name,weight_x,window\na,1,60\n", None),
        (BY_WEIGHTS, 'name,weight_x,window\na,1,"1 hour, 2 hours"\n', "line 2, window: '1 hour, 2 hours' says two windows of time"),
        (
            BY_WEIGHTS.replace("k: 3", "k: 3, scoring: high").replace("table.csv", "table.csv, direction: min"),
            "name,k\na,1\n",
            "queries_from has a direction, and so has the scoring function",
        ),
        (CENTRED, "name,centre,abs\na,1,2\n", "the column 'abs' is no parameter: neither 'near' nor a 'where' uses it"),
        (
            CENTRED.replace("k: 1", "k: 1, where: 'x > lowest'").replace(", k: 1", ""),
            "name,centre,lowest\na,1,2\n",
            "line 2 ('a') has no k",
        ),
        (CENTRED, "name,centre\na,\n", "line 2 has no value of the parameter 'centre'"),
        (CENTRED, "name,centre\na,b\n", "line 2, centre: takes a number, not 'b'"),
        (CENTRED, "name,centre,x\na,1,2\n", "the column 'x' is called like a column of the stream"),
        (CENTRED, "name,centre,middle\na,1,2\n", "the column 'middle' is no parameter: neither 'near' nor a 'where' uses it"),
        (
            BY_WEIGHTS.replace("table.csv", "table.csv, ignore: [owner]"),
            "name,weight_x\na,1\n",
            "ignore names 'owner', which is not a column of the table",
        ),
    ],
)
def test_one_mistake(mistakes: Callable[..., list[tuple[str, str]]], query: str, table: str, message: str | None) -> None:
    found = mistakes(query, table)
    assert [c for c, _ in found] == ["SKY-E144"], found
    if message is not None:
        # Where a column's name stands is another test's.
        assert re.sub(r"line 1, column \d+: (?=the column)", "", found[0][1]) == f"table.csv: {message}"


def test_a_parameter_that_the_table_lacks_is_told_where_it_is_used(mistakes: Callable[..., list[tuple[str, str]]]) -> None:
    """The other columns of the table are not blamed."""
    query = CENTRED.replace("k: 1", "k: 1, where: 'x > lowest'")
    assert mistakes(query, "name,Centre\na,1\n")[0] == ("SKY-E130", "unknown attribute centre")


@pytest.mark.parametrize(
    ("query", "table", "place"),
    [
        (BY_WEIGHTS, "name,weight_x,weight_z\na,1,1\n", "line 1, column 15: the column 'weight_z' weights 'z'"),
        (BY_WEIGHTS, '\ufeffname,"weight_x", colour\na,1,red\n', "line 1, column 18: the column 'colour' means nothing"),
        (CENTRED, "name,centre,middle\r\na,1,2\r\n", "line 1, column 13: the column 'middle' is no parameter"),
    ],
)
def test_a_misspelt_column_is_told_where_it_stands(
    mistakes: Callable[..., list[tuple[str, str]]], query: str, table: str, place: str
) -> None:
    ((_, message),) = mistakes(query, table)
    assert message.startswith(f"table.csv: {place}")


@pytest.mark.parametrize(
    "table, why",
    [
        (None, "there is no such file"),
        ("", "it has no rows"),
        ("name,weight_x\n", "it has no rows"),
        ("name,weight_x\na,1,2\n", "line 2 has 3 cells, the header 2"),
        ("name,name\na,1\n", "the column 'name' is there twice"),
        ("name;weight_x\na;1\n", "its columns are not separated by commas"),
        ('name,weight_x\na,1\nb,"2"3\n', "line 3 is not CSV (',' expected after '\"')"),
        ("name,weight_x\n" + "a,1\n" * (MAX_ROWS + 1), "it has 30,001 rows; a table of queries holds at most 30,000"),
    ],
)
def test_a_table_that_cannot_be_read(mistakes: Callable[..., list[tuple[str, str]]], table: str | None, why: str) -> None:
    assert mistakes(BY_WEIGHTS, table) == [("SKY-E145", f"the table of queries cannot be used: {why}")]


def test_windows_of_a_table_are_not_judged_by_a_window_that_is_wrong(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec_of(BY_WEIGHTS).replace("{count: 100, time: 1 day}", "{time: 1 dya}"))
    (tmp_path / "table.csv").write_text("name,weight_x,window\na,1,200 rows\nb,2,9 days\nc,many,\n")
    _, errors = validate_file(str(spec), {})
    assert [(e.code, e.message) for e in errors] == [
        ("SKY-E115", "'1 dya' is not a usable duration: unknown unit 'dya'"),
        ("SKY-E144", "table.csv: line 4, weight_x: takes a number, not 'many'"),
    ]


def test_all_mistakes_of_a_table_are_told_but_not_thousands(mistakes: Callable[..., list[tuple[str, str]]]) -> None:
    found = mistakes(BY_WEIGHTS, "name,weight_x,k\n" + "".join(f"q{i},1,0\n" for i in range(500)))
    assert len(found) == 21 and found[-1][1] == "table.csv: the other 480 mistakes are not shown"


def test_scoring_and_k_are_needed_without_a_table(mistakes: Callable[..., list[tuple[str, str]]]) -> None:
    assert mistakes("{type: topk}", None) == [
        ("SKY-E111", "queries.many needs the field 'k'"), ("SKY-E111", "queries.many needs the field 'scoring'"),
    ]  # fmt: skip
    assert mistakes("{type: topk, scoring: high, k: 0}", None) == [("SKY-E114", "'k' must be at least 1, not '0'")]
    assert [c for c, _ in mistakes("{type: threshold, scoring: high, at_least: much}", None)] == ["SKY-E112"]
    assert mistakes("{type: topk, scoring: near, k: 1}", None)[0] == ("SKY-E130", "unknown attribute centre")


def test_the_name_of_the_query_needs_a_column_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("name,weight_x\na,1\n")
    spec = tmp_path / "spec.yaml"
    text = spec_of(BY_WEIGHTS).replace("side: string", "query: string")
    for old, new in (("k: 3", "k: 3, carry: [query]"), ("id: [id]", "id: [query]"), ("event_time", "partition_by: [query]\n  event_time")):
        spec.write_text(text.replace(old, new))
        _, errors = validate_file(str(spec), {})
        assert {e.code for e in errors} == {"SKY-E124"}, new


def test_parquet_and_delta_say_the_same_as_csv(tmp_path: Path) -> None:
    table = pa.table({
        "name": ["b", "a"], "k": pa.array([5, None], pa.int32()), "weight_x": pa.array([Decimal("1.5"), None], pa.decimal128(5, 2)),
        "weight_y": [2, -1], "where": ["side = 'p'", None], "min_y": [None, 0.5],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "table.parquet")
    deltalake.write_deltalake(str(tmp_path / "delta"), table)
    (tmp_path / "table.csv").write_text("name,k,weight_x,weight_y,where,min_y\nb,5,1.5,2,side = 'p',\na,,,-1,,0.5\n")
    found = []
    for format_, path in (("csv", "table.csv"), ("parquet", "table.parquet"), ("delta", "delta")):
        query = TopK.model_validate({"type": "topk", "k": 3, "queries_from": {"format": format_, "path": str(tmp_path / path)}})
        assert isinstance(query.queries_from, QueriesFrom)
        rows = interpret(read_cells(query.queries_from), query, {"x": "float", "y": "int", "side": "text"}, Window(100, None))
        assert rows.problems == []
        found.append(sorted(rows.rows, key=lambda r: r.name))
    assert found[0] == found[1] == found[2]
    a, b = found[0]
    assert (a.k, a.where, a.box, b.k, b.weights) == (3, None, (("y", 0.5, None),), 5, (("x", 1.5), ("y", 2.0)))


def test_ignored_columns_are_not_read_and_constraints_add_up(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,k,weight_x,min_x,max_x,where,window,max_score\nq,1,1,3,9,x > 100,1 hour,2\n")
    text = {"format": "csv", "path": str(tmp_path / "t.csv"), "ignore": ["k", "min_x", "window", "max_score"]}
    query = TopK.model_validate({"type": "topk", "k": 3, "where": "y > 1 or y < 0", "queries_from": text})
    assert query.queries_from is not None
    rows = interpret(read_cells(query.queries_from), query, {"x": "float", "y": "int"}, Window(100, None))
    (row,) = rows.rows
    assert (row.k, row.window, row.bounds["max_score"], row.box) == (3, Window(100, None), None, (("x", None, 9.0),))
    assert row.where == "(y > 1 or y < 0) and (x > 100)"


def test_a_path_from_the_environment_is_not_shown(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(spec_of(BY_WEIGHTS.replace("table.csv", '"${TABLES}/t.csv"')))
    (tmp_path / "secret-place").mkdir()
    for table, code in ((None, "SKY-E145"), ("name,weight_x\na,heavy\n", "SKY-E144")):
        if table is not None:
            (tmp_path / "secret-place" / "t.csv").write_text(table)
        for secret in (str(tmp_path / "secret-place"), f"{tmp_path}//secret-place"):
            _, errors = validate_file(str(spec), {"TABLES": secret})
            assert [e.code for e in errors] == [code]
            assert "secret-place" not in errors[0].render() and "${TABLES}" in errors[0].render()


def test_editors_are_told_what_must_be_there() -> None:
    from skyband.framework.spec.schema.json_schema import schema_text

    topk = json.loads(schema_text())["$defs"]["TopK"]
    assert topk["anyOf"] == [{"required": ["scoring", "k"]}, {"required": ["order", "k"]}, {"required": ["queries_from"]}]
