"""What of a table a check looks at: the columns it names, the rows it is about, a piece at a time; never more at once than ``MOST``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from skyband.framework.plan.model import Check
from skyband.framework.quality.expectations import COLUMN, COLUMNS, EXPECTATIONS, ROW_CONDITION, SHAPE, WHOLE, takes
from skyband.framework.quality.rows import kinds_of, rows_where
from skyband.framework.tables.delta.delta_read import dataset
from skyband.operators.expressions.canonical import attributes
from skyband.operators.expressions.parser import parse

MOST: Final = 5_000_000
"""Values (rows times columns) that a look has in memory at once: some 500 MB of texts, 40 MB of numbers."""


class TooLarge(Exception):
    """A check that needs all of its rows at once has more than ``MOST`` values; the message is for the user."""


def pieces(opened: DeltaTable, check: Check, first: int | None, last: int) -> Iterator[pa.Table]:
    """The rows of a table that ``check`` is about, at least one piece (maybe without rows), with the columns it needs.

    ``first``: the first batch whose rows are looked at (None: the whole table), ``last``: the last. A check that looks at every row by
    itself gets as many pieces as there are; any other gets one, or TooLarge is raised. O(rows of the files that may hold such batches).
    """
    schema = pa.schema(opened.schema().to_arrow())
    given = json.loads(check.arguments)
    if check.expectation in SHAPE:
        yield schema.empty_table()
        return
    condition = given.get(ROW_CONDITION)
    wanted = [n for n in named(check.expectation, given) if n in schema.names]
    needed = wanted + [n for n in _of_condition(condition, schema) if n not in wanted]
    # Some column has to be read for its rows to be counted.
    read = needed or [next((f.name for f in schema if pa.types.is_integer(f.type)), schema.names[0])]
    where = None if first is None else (pc.field("batch_id") >= first) & (pc.field("batch_id") <= last)
    most = max(1, MOST // len(read))
    held: list[pa.RecordBatch] = []
    rows, told = 0, False
    empty = pa.schema([schema.field(n) for n in read])
    for batch in dataset(opened).to_batches(columns=read, filter=where):
        found = pa.Table.from_batches([batch])
        found = found if condition is None else rows_where(found, condition)
        if held and rows + found.num_rows > most:
            yield _one(held, empty, check)
            held, rows, told = [], 0, True
        held += found.to_batches()
        rows += found.num_rows
    if held or not told:
        yield _one(held, empty, check)


def _one(held: list[pa.RecordBatch], schema: pa.Schema, check: Check) -> pa.Table:
    return pa.Table.from_batches(held, held[0].schema if held else schema).replace_schema_metadata(None)


def named(expectation: str, given: dict[str, Any]) -> list[str]:
    """The columns that the arguments of an expectation name."""
    found: list[str] = []
    known = takes(expectation) or {}
    for name, value in given.items():
        reads = known.get(name)
        found += [value] if reads is COLUMN and isinstance(value, str) else list(value) if reads is COLUMNS and value else []
    return list(dict.fromkeys(found))


def by_row(expectation: str) -> bool:
    """Whether an expectation looks at every row by itself: then what is found in pieces of a table adds up."""
    return "mostly" in EXPECTATIONS.get(expectation, {}) and expectation not in WHOLE


def _of_condition(condition: str | None, schema: pa.Schema) -> list[str]:
    if condition is None:
        return []
    return [c.name for c in attributes(parse(condition, kinds_of(schema.empty_table()), ("",), "predicate"))]
