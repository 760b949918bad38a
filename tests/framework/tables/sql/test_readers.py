"""What other tools see: the same rows by delta-rs, DuckDB, Polars and Skyband, whatever stands in ids; plain Delta, reader version 1."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Field, Plan
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.schemas import changes_schema, tables
from skyband.framework.tables.sql.statements import Statements
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import DAY, make_plan, to_table, without
from tests.framework.tables.writing.test_sink import instant

HOSTILE = (
    "'; drop table near; --", '"quoted" \'twice\'', "</script><img src=x onerror=alert(1)>", "a\x00b\x1b[31m\u202e",
    "two\nlines\r\n\tand a tab", "${HOME} $(id) `id` %s {0}", "=1+1", "-1", "\\x41\\", "Ω 中文 👩\u200d🚀 e\u0301", "", " ", "NULL",
    "null", "../../etc/passwd", "a,b;c|d", "\ufeffbom", string.punctuation,
)  # fmt: skip


def hostile(directory: Path) -> Plan:
    """A job whose ids and key are strings that mean something to somebody."""
    plan = make_plan(str(directory), ("grp",), ("",))
    text = Field("id", "string", "text", "id")
    plan = replace(plan, intake=replace(plan.intake, fields=(text, *plan.intake.fields[1:])))
    (directory / "_skyband").mkdir(parents=True)
    (directory / "_skyband" / "job.json").write_text(json.dumps(asdict(JobFile(plan.job, "g", fingerprint(plan), 2, None))))
    sink = Sink(plan, DriverWriter(directory), "g")
    sink.ensure_all()
    query, rows = plan.queries[0], []
    for step, name in enumerate(HOSTILE, 1):
        row = {"grp": name, "changed_at": DAY + step, "step": 1, "pos": 0, "change": "+", "id": name, "seq": 0, "time": DAY + step}
        rows.append(
            row | {"x": None if step % 2 else step / 3, "price": None, "score": float("inf") if step == 3 else 0.1, "cause": "arrival"}
        )
    heads = [{"grp": n, "bucket": 0, "last_seq": 0, "last_time": DAY + i, "as_of": DAY + i} for i, n in enumerate(HOSTILE, 1)]
    blocks = {
        "changes:near": to_table(rows, without(changes_schema(plan, query), "batch_id")),
        "heads": to_table(heads, sink.specs["heads"].schema),
        "runs": sink.runs_row({"batch_id": 0, "frontier": instant(DAY + 100), "counters": "{}"}),
    }
    sink.commit(0, blocks)
    derive(sink, 0)
    return plan


def by_delta_rs(directory: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(DeltaTable(str(directory / table)).to_pyarrow_table()).to_pylist()
    return rows


def by_duckdb(directory: Path, table: str) -> list[dict[str, Any]]:
    """By its own reader of Parquet: its extension for Delta is no part of the package."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    files = [u.removeprefix("file://") for u in DeltaTable(str(directory / table)).file_uris()]
    rows = connection.execute("select * from read_parquet(?, hive_partitioning = true)", [files]).to_arrow_table().to_pylist()
    return [r | ({"is_current": str(r["is_current"]).lower() == "true"} if "is_current" in r else {}) for r in rows]


def by_polars(directory: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = polars.read_delta(str(directory / table)).to_dicts()
    return rows


def by_skyband(plan: Plan) -> Callable[[Path, str], list[dict[str, Any]]]:
    statements = Statements(plan)
    return lambda directory, table: statements.ask(f'select * from "{table}"').to_pylist()


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted((n, v.timestamp() if hasattr(v, "timestamp") else v) for n, v in r.items())) for r in rows)


@pytest.mark.parametrize("reader", ["delta-rs", "duckdb", "polars", "skyband"])
def test_hostile_ids_come_back_as_they_went_in(tmp_path: Path, reader: str) -> None:
    plan = hostile(tmp_path)
    read = {"delta-rs": by_delta_rs, "duckdb": by_duckdb, "polars": by_polars, "skyband": by_skyband(plan)}[reader]
    for table in ("near_changes", "near", "near_now"):
        rows = read(tmp_path, table)
        assert sorted(r["id"] for r in rows) == sorted(HOSTILE), table
        assert sorted(r["grp"] for r in rows) == sorted(HOSTILE), table
        expected = DriverWriter(tmp_path).read(table).to_pylist()
        assert comparable(rows) == comparable(expected)
    statements = Statements(plan)
    for name in HOSTILE:
        if "\x00" not in name:
            spelled = name.replace("'", "''")
            found = statements.ask(f"select id, \"rank\" from near_now where grp = '{spelled}'").to_pylist()
            assert found == [{"id": name, "rank": 1}]


def test_every_table_is_plain_delta(tmp_path: Path) -> None:
    plan = hostile(tmp_path)
    for spec in tables(plan):
        table = DeltaTable(str(tmp_path / spec.name))
        assert table.protocol().min_reader_version == 1 and not table.protocol().reader_features
        assert table.metadata().configuration["delta.enableDeletionVectors"] == "false"
        assert not table.deletion_vectors().read_all().num_rows
        assert table.metadata().description == spec.comment
