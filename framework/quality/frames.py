"""Read the columns and rows of a table that a check needs, in pieces of at most ``MOST`` values; ``row_condition`` selects rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from skyband.framework.plan.output_nodes import Check
from skyband.framework.quality.expectations import COLUMN, COLUMNS, EXPECTATIONS, ROW_CONDITION, SHAPE, WHOLE, takes
from skyband.framework.tables.delta.delta_read import dataset
from skyband.framework.verify.brute_force.expressions import holds
from skyband.framework.verify.brute_force.objects import values_of
from skyband.operators.base import Kind
from skyband.operators.expressions.canonical import attributes
from skyband.operators.expressions.parser import parse

MOST: Final = 5_000_000
"""The most values (rows times columns) of a check in memory: about 500 MB of texts, or 40 MB of numbers."""


def pieces(opened: DeltaTable, check: Check, first: int | None, last: int) -> Iterator[pa.Table]:
    """Yield the rows of a table that ``check`` is about, with the columns it needs, in at least one piece (maybe without rows).

    ``first`` and ``last``: the batches to read (``first`` None: the whole table). The caller stops after the first piece if the check needs
    all rows at once. O(rows of the files that may have such batches).
    """
    schema = pa.schema(opened.schema().to_arrow())
    given = json.loads(check.arguments)
    if check.expectation in SHAPE:
        yield schema.empty_table()
        return
    condition = given.get(ROW_CONDITION)
    columns = [n for n in named(check.expectation, given) if n in schema.names]
    needed = columns + [n for n in _of_condition(condition, schema) if n not in columns]
    # At least one column must be read to count the rows.
    read = needed or [next((f.name for f in schema if pa.types.is_integer(f.type)), schema.names[0])]
    where = None if first is None else (pc.field("batch_id") >= first) & (pc.field("batch_id") <= last)
    most = max(1, MOST // len(read))
    collected: list[pa.RecordBatch] = []
    rows, yielded = 0, False
    empty = pa.schema([schema.field(n) for n in read])
    for batch in dataset(opened).to_batches(columns=read, filter=where):
        found = pa.Table.from_batches([batch])
        found = found if condition is None else rows_where(found, condition)
        if collected and rows + found.num_rows > most:
            yield _one(collected, empty)
            collected, rows, yielded = [], 0, True
        collected += found.to_batches()
        rows += found.num_rows
    if collected or not yielded:
        yield _one(collected, empty)


def _one(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema).replace_schema_metadata(None)


def named(expectation: str, given: dict[str, Any]) -> list[str]:
    """Return the columns that the arguments of an expectation name."""
    found: list[str] = []
    known = takes(expectation) or {}
    for name, value in given.items():
        reads = known.get(name)
        found += [value] if reads is COLUMN and isinstance(value, str) else list(value) if reads is COLUMNS and value else []
    return list(dict.fromkeys(found))


def by_row(expectation: str) -> bool:
    """Return True if an expectation evaluates every row by itself, so that the results of pieces can be added up."""
    return "mostly" in EXPECTATIONS.get(expectation, {}) and expectation not in WHOLE


def _of_condition(condition: str | None, schema: pa.Schema) -> list[str]:
    if condition is None:
        return []
    return [c.name for c in attributes(parse(condition, kinds_of(schema.empty_table()), ("",), "predicate"))]


def kinds_of(table: pa.Table) -> dict[str, Kind]:
    """Return the kind, in expressions, of every column that has one."""
    return {f.name: kind for f in table.schema if (kind := _kind(f.type)) is not None}


def rows_where(table: pa.Table, condition: str) -> pa.Table:
    """Return the rows for which ``condition`` is true. Raises ExpressionErrors if it does not fit the table's columns. O(rows)."""
    from skyband.operators.expressions.canonical import attributes
    from skyband.operators.expressions.parser import parse

    node = parse(condition, kinds_of(table), ("",), "predicate")
    values = {c.name: values_of(table[c.name], c.kind) for c in attributes(node)}
    return table.filter(pa.array(np.broadcast_to(holds(node)(values, values), table.num_rows)))


def _kind(type_: pa.DataType) -> Kind | None:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_integer(type_):
        return "int"
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "time"
    return "float" if pa.types.is_floating(type_) or pa.types.is_decimal(type_) else None
