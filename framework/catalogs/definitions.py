"""The tables of a plan as they are registered: their columns and comments, keys and properties."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from skyband.framework.base.redaction import redact_values
from skyband.framework.base.table_names import JOB_RUNS
from skyband.framework.catalogs.model import JOB, ColumnDefinition, Definition
from skyband.framework.plan.model import Plan
from skyband.framework.storage.location import Location
from skyband.framework.tables.schemas import (
    changes_name,
    final_name,
    identity_columns,
    now_name,
    skyband_name,
    stream_columns,
    tables,
    trajectory_name,
)

_SIMPLE: Final[dict[pa.DataType, tuple[str, str, str]]] = {
    pa.string(): ("STRING", "string", "string"), pa.binary(): ("BINARY", "binary", "binary"), pa.bool_(): ("BOOLEAN", "boolean", "boolean"),
    pa.int8(): ("BYTE", "tinyint", "byte"), pa.int16(): ("SHORT", "smallint", "short"), pa.int32(): ("INT", "int", "integer"),
    pa.int64(): ("LONG", "bigint", "long"), pa.float32(): ("FLOAT", "float", "float"), pa.float64(): ("DOUBLE", "double", "double"),
    pa.date32(): ("DATE", "date", "date"),
}  # fmt: skip
"""Arrow type -> Unity Catalog's name, the name in SQL, the name in Delta's JSON."""


def definitions(plan: Plan, root: Location, job: str) -> list[Definition]:
    """Return every table of ``plan``, whose tables are below ``root``, as it is registered for the job with the id ``job``."""
    roles = {name: (role, query, key) for name, role, query, key in _roles(plan)}
    made = []
    for table in tables(plan):
        role, query, key = roles.get(table.name, (table.name, None, ()))
        properties = {JOB: job, "skyband.name": plan.job, "skyband.table": role}
        properties |= {"skyband.query": query} if query is not None else {}
        properties |= {"skyband.key": ",".join(key)} if key else {}
        columns = tuple(_column(field) for field in table.schema)
        comment = redact_values(table.comment)
        made.append(Definition(table.name, str(root / table.name), comment, columns, tuple(sorted(properties.items()))))
    return made


def _roles(plan: Plan) -> Iterator[tuple[str, str, str | None, tuple[str, ...]]]:
    """Yield for each table its name, what it holds, the query that it is of, and the columns that identify a row of it."""
    for q in plan.every_query:
        one = plan.of(q.name)
        stream, item = stream_columns(one, q), identity_columns(one, q)
        yield changes_name(q.name), "changes", q.name, (*stream, "step", "pos")
        yield q.name, "results", q.name, (*stream, *item, "from_step")
        yield now_name(q.name), "current results", q.name, (*stream, "rank")
        yield trajectory_name(q.name), "trajectories", q.name, (*stream, *item, "valid_from")
        yield final_name(q.name), "final results", q.name, (*stream, "window_start", "rank")
    for one in plan.plans:
        for o in one.operators:
            yield skyband_name(o.name), "skyband", None, ()
    yield "heads", "heads", None, plan.intake.partition_by
    yield "runs", "batches", None, ("batch_id",)
    yield JOB_RUNS, "runs", None, ()


def _column(field: pa.Field) -> ColumnDefinition:
    name, text, spelled = _type(field.type)
    decimal = pa.types.is_decimal(field.type)
    return ColumnDefinition(
        field.name, text, name, json.dumps(spelled), redact_values((field.metadata or {}).get(b"comment", b"").decode()),
        field.type.precision if decimal else 0, field.type.scale if decimal else 0,
    )  # fmt: skip


def _type(kind: pa.DataType) -> tuple[str, str, str]:
    """Return Unity Catalog's name of a type, its name in SQL, and its name in Delta's log. All columns of tables are scalar."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP", "timestamp", "timestamp"
    if pa.types.is_decimal(kind):
        text = f"decimal({kind.precision},{kind.scale})"
        return "DECIMAL", text, text
    return _SIMPLE[kind]
