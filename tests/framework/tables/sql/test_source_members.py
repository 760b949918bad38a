"""Rows joined to their source have members of objects, too."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.registry import source_format
from skyband.framework.tables.sql.source_read import _member


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_member_of_an_object(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a.{form}"
    if form == "json":
        path.write_text('{"id": 1, "user": {"score": 5, "in": {"s": "x"}}}\n{"id": 2, "user": null}\n{"id": 3}\n')
    else:
        user = pa.array([{"score": 5, "in": {"s": "x"}}, None, None])
        pq.write_table(pa.table({"id": [1, 2, 3], "user": user}), path)
    fields = (
        Field("id", "bigint", "int", "id"),
        Field("score", "double", "float", "user.score"),
        Field("s", "string", "text", "user.in.s"),
    )
    source = SourceNode(form, str(tmp_path), (), fields)
    duck = duckdb.connect()
    relation = source_format(source.format).duckdb_call(source, [str(path)], None)
    there = {c.lower(): c for c in duck.sql(f"select * from {relation} limit 0").columns}
    members = [_member(source, name, there) for name in ("user.score", "user.in.s")]
    assert None not in members and _member(source, "id", there) is None
    found = duck.sql(f"select try_cast({members[0]} as double), {members[1]} from {relation}").fetchall()
    assert found == [(5.0, "x"), (None, None), (None, None)]
