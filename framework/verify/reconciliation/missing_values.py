"""Values that no run leaves out: where one is missing a table cannot be replayed, and ``verify`` says so before it tries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import (
    changes_name,
    changes_schema,
    now_name,
    now_schema,
    results_schema,
    trajectory_name,
    trajectory_schema,
)
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.stored import Stored, row_of

_RUNS = ("batch_id", "rows_in", "rejected", "accepted", "pending", "pending_change", "changes")
_MAY_BE_NULL = ("valid_to", "to_step", "as_of")


def missing(stored: Stored) -> list[Difference]:
    """The first row of every column that lacks a value it must have, and names of queries that the spec does not have."""
    found = [*_nulls(stored, "rejected", ("reason", "batch_id")), *_nulls(stored, "runs", _RUNS)]
    for query in stored.plan.queries:
        for name, schema in _tables(stored, query):
            found += _nulls(stored, name, (n for n in schema.names if n not in _carried(stored, query) and n not in _MAY_BE_NULL))
            if query.members:
                known = pc.is_in(stored.table(name)[QUERY_COLUMN], pa.array(query.members))
                found += _first(stored, name, pc.invert(known), "the spec has no such query")
    return found


def _tables(stored: Stored, query: QueryNode) -> Iterator[tuple[str, pa.Schema]]:
    plan = stored.plan
    yield changes_name(query.name), changes_schema(plan, query)
    if query.item.lasting:
        yield query.name, results_schema(plan, query)
        yield now_name(query.name), now_schema(plan, query)
    if query.item.moving:
        yield trajectory_name(query.name), trajectory_schema(plan, query)


def _carried(stored: Stored, query: QueryNode) -> set[str]:
    intake = stored.plan.intake
    return {c.name for c in query.item.columns(intake.id, query.carry, intake.partition_by) if c.what == "carry"}


def _nulls(stored: Stored, name: str, columns: Iterable[str]) -> Iterator[Difference]:
    table = stored.table(name)
    for column in columns:
        if column in table.column_names and table[column].null_count:
            yield from _first(stored, name, pc.is_null(table[column]), f"a value is missing: {column}")


def _first(stored: Stored, name: str, wrong: pa.ChunkedArray, said: str) -> Iterator[Difference]:
    where = pc.index(pc.fill_null(wrong, True), True).as_py()
    if where >= 0:
        yield Difference(place(f"table {name}"), said, None, [row_of(stored.table(name), where)])
