"""``<query>_rows`` by definition: every row of a result beside the source's row of its id and time, where there is one such row."""

from __future__ import annotations

import csv
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, Plan, SourceNode
from skyband.framework.sources.registry import source_format
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.sql import source_rows
from skyband.framework.tables.sql.data_dictionary import source as source_sql
from skyband.framework.tables.sql.statements import Statements
from skyband.framework.tables.sql.views import views
from tests.framework.streaming import checkpoints
from tests.framework.tables.plans import DAY
from tests.framework.tables.results.test_reader import job
from tests.framework.tables.results.test_reports import Job
from tests.framework.tables.results.test_trajectories import plan_at
from tests.framework.tables.sql.test_readers import HOSTILE, hostile

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = ("id", "ts", "grp", "day", "price", "x")


def at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def taken(plan: Plan, files: Sequence[Path]) -> None:
    """What Spark's log says of the files that a job has taken."""
    lines = [json.dumps({"path": f.as_uri(), "timestamp": 1, "batchId": 0}) for f in files]
    checkpoints.write(Path(plan.sink) / "_skyband" / "checkpoint" / "sources" / "0" / "0", "\n".join(["v1", *lines]))


def source_of(rows: Sequence[dict[str, Any]], text_id: bool = False) -> pa.Table:
    kinds = {"id": pa.string() if text_id else pa.int64(), "ts": pa.timestamp("us", "UTC"), "grp": pa.string(), "day": pa.date32()}
    kinds |= {"price": pa.decimal128(10, 2), "x": pa.float64()}
    return pa.table({c: pa.array([r[c] for r in rows], kinds[c]) for c in COLUMNS})


def as_parquet(directory: Path, rows: pa.Table) -> tuple[str, list[Path]]:
    half = rows.num_rows // 2
    pq.write_table(rows.slice(0, half), directory / "a[1].parquet")
    pq.write_table(rows.slice(half), directory / "b.parquet")
    return str(directory), [directory / "a[1].parquet", directory / "b.parquet"]


def as_orc(directory: Path, rows: pa.Table) -> tuple[str, list[Path]]:
    pa.orc.write_table(rows, directory / "a.orc")
    return str(directory), [directory / "a.orc"]


def as_csv(directory: Path, rows: pa.Table) -> tuple[str, list[Path]]:
    pa.csv.write_csv(rows, directory / "a.csv", pa.csv.WriteOptions(quoting_style="needed"))
    (directory / "not taken.csv").write_text((directory / "a.csv").read_text())
    return str(directory), [directory / "a.csv"]


def as_json(directory: Path, rows: pa.Table) -> tuple[str, list[Path]]:
    lines = [json.dumps({c: v if isinstance(v, int | float | None) else str(v) for c, v in r.items()}) for r in rows.to_pylist()]
    (directory / "a.json").write_text("\n".join([*lines[:3], "{no json", *lines[3:]]))
    return str(directory), [directory / "a.json"]


def as_delta(directory: Path, rows: pa.Table) -> tuple[str, list[Path]]:
    write_deltalake(directory / "t", rows)
    return str(directory / "t"), []


WRITERS: dict[str, Callable[[Path, pa.Table], tuple[str, list[Path]]]] = {
    "parquet": as_parquet, "orc": as_orc, "csv": as_csv, "json": as_json, "delta": as_delta,
}  # fmt: skip


def laid(plan: Plan, directory: Path, form: str, rows: pa.Table, fields: Sequence[Field] | None = None) -> Plan:
    """``plan`` with a source of that format that holds ``rows``, all of it taken."""
    directory.mkdir()
    path, files = WRITERS[form](directory, rows)
    if files:
        taken(plan, files)
    options = (("header", "true"), ("escape", '"')) if form == "csv" else ()
    if options:
        said = Path(plan.sink) / "_skyband" / "job.json"
        said.write_text(json.dumps(json.loads(said.read_text()) | {"header": list(COLUMNS)}))
    return replace(plan, source=SourceNode(form, path, options, tuple(fields or plan.source.fields)))


def expected(plan: Plan, name: str, parts: Sequence[str], source: Sequence[dict[str, Any]]) -> list[str]:
    """By definition, from all rows of the result and all of the source."""
    query = next(q for q in plan.queries if q.name == name)
    table = name if query.item.lasting else f"{name}_changes"
    keys = plan.intake.partition_by
    under: dict[tuple[Any, ...], set[tuple[Any, ...]]] = defaultdict(set)
    for s in source:
        under[(*(s[k] for k in keys), s["id"], s["ts"])].add(tuple(s[c] for c in COLUMNS))
    made = []
    for row in Reader(plan).read(table).to_pylist():
        more: dict[str, Any] = {}
        for p in parts:
            found = under[(*(row[k] for k in keys), row[p + "id"], row[p + "time"])]
            one = dict(zip(COLUMNS, next(iter(found)), strict=True)) if len(found) == 1 else dict.fromkeys(COLUMNS)
            more[p + "source_rows"] = len(found)
            more |= {p + c: one[c] for c in COLUMNS if c not in ("id", "ts", *keys, *query.carry)}
        made.append(repr(sorted((row | more).items())))
    return sorted(made)


def found(plan: Plan, name: str) -> list[str]:
    return sorted(repr(sorted(r.items())) for r in Statements(plan).ask(f'select * from "{name}_rows"').to_pylist())


def random_source(rng: random.Random, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of ids that results have and of others: written twice, twice with a difference, of another time or key, or not there."""
    rows = []
    for seq in range(12):
        row = {"id": seq * 10, "ts": at(DAY + seq), "day": None, "price": None, "x": rng.choice([None, 1.5, -0.25])}
        for n, key in enumerate("abc" if keys else "z"):
            mine = row | {"grp": key, "day": (at(DAY) + timedelta(days=rng.randrange(9))).date()}
            what = (seq + n) % 6
            rows += [] if what == 0 else [mine]
            rows += [mine] if what == 1 else [mine | {"x": 77.0}] if what == 2 else [mine | {"ts": at(DAY + 500)}] if what == 3 else []
    rng.shuffle(rows)
    return rows


@pytest.mark.parametrize("form", list(WRITERS))
def test_pairs_have_both_rows_beside_them(tmp_path: Path, form: str) -> None:
    rng = random.Random(form)
    keys, roles = rng.choice([(), ("grp",)]), rng.choice([("older", "newer"), ("a", "b")])
    (tmp_path / "out").mkdir()
    plan, _ = job(tmp_path / "out", keys, roles)
    rows = random_source(rng, keys)
    plan = laid(plan, tmp_path / "in", form, source_of(rows))
    counts = set()
    for name in ("near", "near3"):
        wanted = expected(plan, name, [f"{r}_" for r in roles], rows)
        assert found(plan, name) == wanted and wanted
        counts |= set(Statements(plan).ask(f"select {roles[0]}_source_rows as n from {name}_rows")["n"].to_pylist())
    assert {0, 1, 2} <= counts


@pytest.mark.parametrize("form", list(WRITERS))
def test_hostile_ids_find_their_rows(tmp_path: Path, form: str) -> None:
    (tmp_path / "out").mkdir()
    plan = hostile(tmp_path / "out")
    rows = [
        {"id": n, "ts": at(DAY + i), "grp": n, "day": None, "price": None, "x": i / 3} for i, n in enumerate(HOSTILE, 1)
    ]  # fmt: skip
    plan = laid(plan, tmp_path / "in", form, source_of(rows, text_id=True), plan.intake.fields)
    # A cell with a line break is none that Spark has read.
    lost = {n for n in HOSTILE if set(n) & {"\n", "\r"}} if form == "csv" else set()
    wanted = [s for s in expected(plan, "near", [""], rows) if not any(repr(n) in s for n in lost)]
    assert len(wanted) == len(HOSTILE) - len(lost)
    assert [s for s in found(plan, "near") if not any(repr(n) in s for n in lost)] == wanted


def test_what_is_told_once_is_joined_too(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    told = Job(tmp_path / "out", False)
    query, declared = told.plan.queries[0], told.plan.source.fields
    items = Reader(told.plan).read("near_changes").to_pylist()
    prefix = query.item.parts[0].prefix
    ids = {(r[prefix + "id"], r[prefix + "time"]) for r in items}
    rows = pa.table({"id": [i for i, _ in ids], "ts": [t for _, t in ids]})
    plan = laid(told.plan, tmp_path / "in", "parquet", rows)
    joined = Statements(plan).ask("select * from near_rows")
    assert joined.num_rows == len(items) and set(joined[f"{prefix}source_rows"].to_pylist()) == {1}
    assert declared == plan.source.fields


def test_columns_that_a_transform_makes_join_nothing(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ())
    fields = tuple(replace(f, source_name=None) if f.name == "ts" else f for f in plan.intake.fields)
    made = replace(plan, intake=replace(plan.intake, fields=fields))
    assert source_rows.why_not(plan) is None and "ts, by which" in str(source_rows.why_not(made))
    assert not [v for v in views(made) if v.name.endswith("_rows")]
    with pytest.raises(SkybandError) as e:
        Statements(made).ask("select * from near_rows")
    assert e.value.code == "SKY-E404" and "transform" in str(e.value.hint)


@pytest.mark.parametrize("options", [{"timestampFormat": "dd.MM.yyyy"}, {"encoding": "UTF-16"}, {"comment": "#"}])
def test_options_that_only_the_engine_has_are_told(tmp_path: Path, options: dict[str, str]) -> None:
    plan, _ = job(tmp_path, ())
    plan = replace(plan, source=replace(plan.source, options=tuple(options.items())))
    with pytest.raises(SkybandError) as e:
        Statements(plan).ask("select * from near_rows")
    assert e.value.code == "SKY-E404" and f"the option {next(iter(options)).lower()}" in str(e.value.hint)
    assert Statements(plan).ask("select count(*) as n from near_history")["n"].to_pylist()[0]


def test_options_and_names_are_values_and_no_sql(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    plan, _ = job(tmp_path / "out", ())
    (tmp_path / "secret").write_text("id\n0\n")
    steer = f"', filename = true) union select * from read_text('{tmp_path}/secret') --"
    (tmp_path / f"a{steer.replace('/', '_')}.csv").write_text("id,ts\n")
    taken(plan, [tmp_path / f"a{steer.replace('/', '_')}.csv"])
    for options in ({"header": f"true{steer[1:]}"}, {"sep": steer}, {"quote": steer}, {"escape": steer}, {"nullValue": steer}):
        fields = (*plan.source.fields[:-1], replace(plan.source.fields[-1], source_name=f'x"{steer}'))
        read = replace(plan, source=SourceNode("csv", str(tmp_path), tuple(options.items()), fields))
        call = source_format(read.source.format).duckdb_call(read.source, [steer], None)
        # As DuckDB reads it: one call, no comment, and everything of the spec's within a text.
        bare = re.sub(r"'(?:[^']|'')*'", "''", call)
        assert re.fullmatch(
            r"read_csv\(\[''\], auto_detect = false, header = (true|false), columns = \{[':, ]*\}, [\w =',\[\]]*\)", bare
        ), bare
        try:
            rows = Statements(read).ask("select * from near_rows").to_pylist()
        except SkybandError as e:
            assert e.code == "SKY-E301"
        else:
            assert rows and all(r["older_source_rows"] == 0 for r in rows)


def test_a_source_that_is_gone_leaves_rows_without_columns(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ())
    rows = Statements(plan).ask("select older_source_rows as n, older_day as day from near_rows").to_pylist()
    assert rows and all(r == {"n": 0, "day": None} for r in rows)
    delta = replace(plan, source=replace(plan.source, format="delta", path=str(tmp_path / "nowhere")))
    with pytest.raises(SkybandError, match="SKY-E400"):
        Statements(delta).ask("select * from near_rows")


def test_a_statement_reaches_the_source_by_its_view_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    plan, _ = job(tmp_path / "out", ())
    plan = laid(plan, tmp_path / "in", "csv", source_of(random_source(random.Random(1), ())))
    asked = Statements(plan)
    asked.ask("select * from near_rows")
    for statement in ("select * from read_csv('{0}/a.csv')", "select * from '{0}/a.csv'", "select * from source_rows"):
        with pytest.raises(SkybandError, match="SKY-E404"):
            asked.ask(statement.format(tmp_path / "in"))


def test_other_engines_are_told_where_the_source_lies(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    plan, _ = job(tmp_path / "out", ())
    source = replace(plan.source, path="/data/it's here", format="parquet")
    said = {d: source_sql(replace(plan, source=source), d) for d in ("duckdb", "spark", "postgres")}
    assert "read_parquet(['/data/it''s here/*']" in said["duckdb"] and "FROM parquet.`/data/it's here`;" in said["spark"]
    assert said["postgres"].startswith("-- source_rows: the rows of the parquet source at /data/it's here\n-- with the columns id bigint")
    delta = replace(plan, source=replace(source, format="delta"))
    assert "delta_scan('/data/it''s here')" in source_sql(delta, "duckdb") and "FORMAT = 'DELTA'" in source_sql(delta, "tsql")
    broken = replace(plan, source=replace(source, format="csv", path="/a\ndrop table near; --"))
    assert all(line.startswith("--") for line in source_sql(broken, "postgres").splitlines())


def test_csv_text_is_cut_as_the_spec_says(tmp_path: Path) -> None:
    """What Spark reads in these lines, cell by cell, is in ``tests/spark/test_source_rows.py``."""
    (tmp_path / "out").mkdir()
    plan, _ = job(tmp_path / "out", ())
    directory = tmp_path / "in"
    directory.mkdir()
    with open(directory / "a.csv", "w", newline="") as f:
        csv.writer(f, delimiter=";", lineterminator="\n").writerows(
            [["x", "id", "ts", "grp", "more"], ["0.5", 0, at(DAY), "a;b", ""], ["NA", 10, at(DAY + 1), "", "z"], ["too", "few"]]
        )
    (Path(plan.sink) / "_skyband" / "job.json").write_text(
        json.dumps(json.loads((Path(plan.sink) / "_skyband" / "job.json").read_text()) | {"header": ["x", "id", "ts", "grp", "more"]})
    )
    taken(plan, [directory / "a.csv"])
    options = (("header", "true"), ("sep", ";"), ("nullValue", "NA"))
    plan = replace(plan, source=SourceNode("csv", str(directory), options, plan.source.fields))
    rows = Statements(plan).ask(
        "select distinct older_id, older_source_rows as n, older_grp, older_day from near_rows where older_id <= 20"
    )
    assert sorted(rows.to_pylist(), key=lambda r: int(r["older_id"])) == [
        {"older_id": 0, "n": 1, "older_grp": "a;b", "older_day": None}, {"older_id": 10, "n": 1, "older_grp": None, "older_day": None},
        {"older_id": 20, "n": 0, "older_grp": None, "older_day": None},
    ]  # fmt: skip


def test_objects_that_many_rows_report_on_have_no_row(tmp_path: Path) -> None:
    assert not [v.name for v in views(plan_at(tmp_path)) if v.name.endswith("_rows")]
