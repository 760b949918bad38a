"""Views against brute force over the intervals they are made of, in DuckDB (and once in Spark), for every kind of item."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlglot

from skyband.framework.base.items import rank_key
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.schemas import stream_columns, tables
from skyband.framework.tables.sql import views as module
from skyband.framework.tables.sql.data_dictionary import dictionary
from skyband.framework.tables.sql.dialects import DIALECTS, view
from skyband.framework.tables.sql.source_rows import SOURCE
from skyband.framework.tables.sql.statements import Statements, described
from skyband.framework.tables.sql.view import free
from skyband.framework.tables.sql.views import views
from skyband.jobs.cli import main
from skyband.jobs.reading import views as command
from tests.framework.tables.results.test_reader import job
from tests.framework.tables.results.test_reports import Job
from tests.framework.tables.results.test_trajectories import plan_at, rows_of, write
from tests.framework.tables.sql.test_names import plans
from tests.specs import spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]
Ask = Callable[[str], Rows]


def seconds(span: timedelta) -> float:
    return span / timedelta(microseconds=1) / 1e6


def unordered(rows: Rows) -> list[str]:
    return sorted(repr(sorted(r.items())) for r in rows)


def streams_of(plan: Plan, query: QueryNode, rows: Rows) -> Mapping[tuple[Any, ...], Rows]:
    found: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for r in rows:
        found[tuple(r[c] for c in stream_columns(plan, query))].append(r)
    return found


def alive(row: dict[str, Any], at: datetime) -> bool:
    return bool(row["valid_from"] <= at and (row["valid_to"] is None or at < row["valid_to"]))


def expected_ranks(plan: Plan, query: QueryNode, rows: Rows) -> Rows:
    """By definition: the result at every instant at which it changes, ranked, and neighbours of one rank put together."""
    made: Rows = []
    key = rank_key(query.item, query.direction == "min")
    for members in streams_of(plan, query, rows).values():
        instants = sorted({t for r in members for t in (r["valid_from"], r["valid_to"]) if t is not None})
        open_: dict[int, dict[str, Any]] = {}
        for at in instants:
            inside = sorted((r for r in members if alive(r, at)), key=key)
            ranked = {id(r): (n, r) for n, r in enumerate(inside, 1)}
            for i in [i for i, told in open_.items() if ranked.get(i, (None,))[0] != told["rank"]]:
                open_.pop(i)["valid_to"] = at
            for i, (n, r) in ranked.items():
                if i not in open_:
                    shown = {c: v for c, v in r.items() if c not in ("from_step", "to_step", "is_current")}
                    open_[i] = shown | {"rank": n, "valid_from": at, "valid_to": None}
                    made.append(open_[i])
    return made


def expected_summary(plan: Plan, query: QueryNode, rows: Rows, ends: Mapping[tuple[Any, ...], datetime]) -> Rows:
    made = []
    streams = stream_columns(plan, query)
    identity = query.item.identity(plan.intake.partition_by)
    for key, members in streams_of(plan, query, rows).items():
        lasted = [seconds((r["valid_to"] or ends[key]) - r["valid_from"]) for r in members]
        made.append(
            dict(zip(streams, key, strict=True))
            | {
                "items_ever": len({tuple(r[c] for c in identity) for r in members}),
                "entries": len(members),
                "items_now": sum(r["valid_to"] is None for r in members),
                "mean_seconds": rounded(sum(lasted) / len(lasted)),
                "longest_seconds": max(lasted),
                "first_entry": min(r["valid_from"] for r in members),
                "last_change": max(r["valid_to"] or r["valid_from"] for r in members),
            }
        )
    return made


def rounded(seconds: float) -> float:
    """To microseconds; halves go up, in whatever order a mean was summed."""
    return round(seconds + 1e-8, 6)


def held(plan: Plan, ask: Ask) -> int:
    """Asserts that the views of all queries give what the definitions do; how many rows of ranks there were."""
    count = 0
    for query in plan.queries:
        rows = ask(f'select * from "{query.name}"')
        streams = stream_columns(plan, query)
        now = ask(f'select * from "{query.name}_now"')
        ends = {key: max(r["as_of"] for r in members) for key, members in streams_of(plan, query, now).items()}
        history = [r | {"lasted_seconds": seconds((r["valid_to"] or ends[tuple(r[c] for c in streams)]) - r["valid_from"])} for r in rows]
        assert unordered(ask(f'select * from "{query.name}_history"')) == unordered(history) and history
        summary = [r | {"mean_seconds": rounded(r["mean_seconds"])} for r in ask(f'select * from "{query.name}_summary"')]
        assert unordered(summary) == unordered(expected_summary(plan, query, rows, ends))
        if not query.item.varies:
            ranks = ask(f'select * from "{query.name}_ranks"')
            assert unordered(ranks) == unordered(expected_ranks(plan, query, rows))
            count += len(ranks)
    return count


def in_duckdb(plan: Plan) -> Ask:
    statements = Statements(plan)
    return lambda sql: statements.ask(sql).to_pylist()


@pytest.mark.parametrize("keys", [(), ("grp",)])
@pytest.mark.parametrize("roles", [("older", "newer"), ("a", "b")])
def test_views_are_what_they_say_in_duckdb(tmp_path: Path, keys: tuple[str, ...], roles: tuple[str, ...]) -> None:
    plan, _ = job(tmp_path, keys, roles)
    assert held(plan, in_duckdb(plan)) > 50


@pytest.mark.spark
def test_views_are_what_they_say_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ("grp",))
    for v in (v for v in views(plan) if not v.source_keys):
        spark.sql(view(plan, v.name, v.sql, "spark").replace("CREATE VIEW", "CREATE OR REPLACE TEMPORARY VIEW", 1))

    def ask(sql: str) -> Rows:
        at = re.sub(
            r'(?<=from )"(\w+?)(_now)?"$',
            lambda m: m[0].strip(chr(34)) if "_" in m[1] else f"delta.`{tmp_path}/{m[1]}{m[2] or ''}`",
            sql,
        )
        found: Rows = spark.sql(at).toArrow().to_pylist()
        return found

    assert held(plan, ask) > 50


def test_values_that_move_have_no_ranks_over_time(tmp_path: Path) -> None:
    plan = plan_at(tmp_path)
    write(plan, rows_of(1, 90), [10, 40], {0, 1})
    assert held(plan, in_duckdb(plan)) == 0
    assert not [v.name for v in views(plan) if v.name.endswith("_ranks")] and len(views(plan)) == 2 * len(plan.queries)


@pytest.mark.parametrize("keyed", [False, True])
def test_what_is_told_once_has_a_summary(tmp_path: Path, keyed: bool) -> None:
    told = Job(tmp_path, keyed)
    assert [v.name for v in views(told.plan)] == ["near_summary", "near_rows", "near3_summary", "near3_rows"]
    rows = Reader(told.plan).read("near_changes").to_pylist()
    expected = [
        dict(zip(stream_columns(told.plan, told.plan.queries[0]), key, strict=True))
        | {
            "items_ever": len(mine),
            "arrivals": len({r["step"] for r in mine}),
            "first_told": min(r["changed_at"] for r in mine),
            "last_told": max(r["changed_at"] for r in mine),
        }
        for key, mine in streams_of(told.plan, told.plan.queries[0], rows).items()
    ]
    ask = in_duckdb(told.plan)
    assert unordered(ask("select * from near_summary")) == unordered(expected)
    assert ask("select * from near3_summary") == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_view_of_every_kind_is_written_for_every_engine(dialect: str) -> None:
    kinds = plans()
    assert {q.item.lasting for p in kinds for q in p.queries} == {q.item.varies for p in kinds for q in p.queries} == {True, False}
    for plan in kinds:
        for v in views(plan):
            text = view(plan, v.name, v.sql, dialect)
            assert "seconds_between" not in text.lower() and "__skyband" not in text
            assert {t for t in v.reads if f"/{t}" in text} == set(v.reads) and f"/{SOURCE}" not in text
            bare = re.sub(r"OPENROWSET\(BULK '.*?', FORMAT = 'DELTA'\)", "t", text)
            assert sqlglot.parse_one(bare, read=dialect).sql(dialect)


def test_a_column_of_the_user_keeps_its_name_and_a_table_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free(["entries", "Items_Ever"], "items_ever", "entries", "x") == ["items_ever_", "entries_", "x"]
    plan, _ = job(tmp_path, ())
    monkeypatch.setattr(module, "tables", lambda p: [type("T", (), {"name": "near_ranks"})()])
    assert "near_ranks" not in [v.name for v in views(plan)] and len(views(plan)) == 7
    assert module.left_out(plan) == ["near_ranks"] and "near_ranks: a query's table" in module.said_left_out("near_ranks")


QUERY_CALLED_LIKE_A_VIEW = spec_text(
    "clash",
    "{id: string, at: timestamp, x: double}",
    options="{header: true}",
    event_time="{column: at, watermark: 1 minute}",
    window="{count: 100}",
    scoring="{high: {expression: x, direction: max}}",
    queries={
        "top": "{type: topk, scoring: high, k: 2}",
        "top_rows": "{type: topk, scoring: high, k: 1}",
    },
)


@pytest.mark.parametrize("name", ["told", "ended", "placed", "found", "instants", "rows", "r", "e", "i", "moved", "stays"])
def test_a_query_may_have_any_name_beside_those_of_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Views have names of their own inside, which no query's table has."""
    monkeypatch.chdir(tmp_path)
    text = QUERY_CALLED_LIKE_A_VIEW.replace("  top_rows: {type: topk, scoring: high, k: 1}\n", "").replace("  top:", f"  {name}:")
    job, errors = validate_text(text, {})
    assert job is not None, errors
    assert set(described(compile_job(job))) == {f"{name}_{view}" for view in ("history", "ranks", "summary", "rows")}


def test_a_view_whose_name_is_taken_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.yaml").write_text(QUERY_CALLED_LIKE_A_VIEW)
    assert main(["views", "spec.yaml"]) == 0
    said = capsys.readouterr()
    assert said.err == "there is no view top_rows: a query's table has that name (to have both, rename the query)\n"
    assert "\n" + said.out.splitlines()[0] == "\n-- " + said.err.splitlines()[0] and "VIEW top_rows_rows" in said.out.replace('"', "")
    assert main(["sql", "spec.yaml", "select * from top_rows"]) == 2
    assert said.err in capsys.readouterr().err
    assert main(["sql", "spec.yaml", "select * from top_history"]) == 2
    assert "there is no view" not in capsys.readouterr().err


def test_the_dictionary_has_every_column_with_its_meaning() -> None:
    for plan in plans():
        text = dictionary(plan, described(plan))
        for table in tables(plan):
            section = text.replace("\\", "").split(f"\n## {table.name}\n", 1)[1].split("\n## ")[0]
            for f in table.schema:
                assert f"| {f.name} |" in section
        assert not re.search(r"\|\s*\|$", text, re.MULTILINE), "a column without a meaning"
        for name, schema in described(plan).items():
            section = text.replace("\\", "").split(f"\n## {name} (view)\n", 1)[1].split("\n## ")[0]
            assert [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines()[5:] if line] == schema.names


def test_the_command_prints_statements_and_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, _ = job(tmp_path, ())
    monkeypatch.setattr(command, "load_plan", lambda spec: plan)
    assert main(["views", "spec.yaml", "--dialect", "spark"]) == 0
    out = capsys.readouterr().out
    assert out.count("CREATE VIEW") == len(views(plan)) == 8 and f"delta.`{tmp_path}/near`" in out
    assert "-- source_rows: the rows of the csv source at in\n-- with the columns id bigint, ts timestamp, " in out
    assert main(["views", "spec.yaml", "--dictionary"]) == 0
    assert capsys.readouterr().out.startswith("# Data dictionary of job tests\n")
