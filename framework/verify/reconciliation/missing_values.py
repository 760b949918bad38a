"""Detect nulls where no run writes one: such a table cannot be replayed, so ``verify`` checks this first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import changes_name, now_name, tables, trajectory_name
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.stored import Stored, row_of


def missing_values(stored: Stored) -> list[Difference]:
    """Return the first null of every column that must have a value, and the names of queries that the spec does not have."""
    required = {table.name: table.required for table in tables(stored.job_plan)}
    found = [d for name in ("rejected", "runs") for d in _nulls(stored, name, required[name])]
    for query in stored.job_plan.every_query:
        for name in _tables(query):
            found += _nulls(stored, name, required[name])
            if query.members:
                known = pc.is_in(stored.table(name)[QUERY_COLUMN], pa.array(query.members))
                found += _first(stored, name, pc.invert(known), "the spec has no such query")
    return found


def _tables(query: QueryNode) -> Iterator[str]:
    yield changes_name(query.name)
    if query.item.lasting:
        yield query.name
        yield now_name(query.name)
    if query.item.varies:
        yield trajectory_name(query.name)


def _nulls(stored: Stored, name: str, columns: Iterable[str]) -> Iterator[Difference]:
    table = stored.table(name)
    for column in columns:
        if column in table.column_names and table[column].null_count:
            yield from _first(stored, name, pc.is_null(table[column]), f"a value is missing: {column}")


def _first(stored: Stored, name: str, wrong: pa.ChunkedArray, said: str) -> Iterator[Difference]:
    where = pc.index(pc.fill_null(wrong, True), True).as_py()
    if where >= 0:
        yield Difference(place(f"table {name}"), said, None, [row_of(stored.table(name), where)])
