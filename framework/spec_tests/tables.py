"""The tables that tests compare: rows as plain values, in an order that depends only on the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skyband.framework.base.cells import cell, spelled
from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec.models.job import SpecTest
from skyband.framework.spec.models.source import kind_of
from skyband.framework.tables.schemas import changes_name, final_name, identity_columns, now_name, stream_columns, trajectory_name
from skyband.framework.tables.schemas import tables as table_specs
from skyband.operators.base import Kind

Row = dict[str, Any]
Tables = Mapping[str, pa.Table]
REJECTED: Final = "rejected"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TestedTable:
    """A table that tests compare. ``types`` of its columns; ``shown``: recorded columns; ``ordered``: whether order counts."""

    def __init__(self, name: str, types: Mapping[str, pa.DataType], shown: Sequence[str], order: Sequence[str], ordered: bool) -> None:
        self.name = name
        self.types = types
        self.shown = tuple(shown)
        self.ordered = ordered
        self._order = tuple(order)

    def rows(self, tables: Tables) -> list[Row]:
        """Return all rows in order. O(n log n)."""
        found = tables[self.name].to_pylist()
        return sorted(found, key=lambda r: tuple(_sortable(r[c]) for c in self._order))

    def plain(self, value: Any, column: str) -> Any:
        """Return a value of a table or of a test in a form in which equal values compare equal."""
        return plain_value(value, self.types[column])

    def native(self, value: Any, column: str) -> Any:
        """Return a value of a test as the table holds it."""
        plain = self.plain(value, column)
        if isinstance(plain, int) and kind_of_arrow(self.types[column]) == "time":
            at = _EPOCH + timedelta(microseconds=plain)
            return at.date() if pa.types.is_date(self.types[column]) else at
        return value if plain == "nan" or isinstance(plain, tuple) else plain


class _Rejected(TestedTable):
    """Table ``rejected``, with the columns of rows that parsed, read from their text."""

    def rows(self, tables: Tables) -> list[Row]:
        """See ``Looked.rows``."""
        made = []
        for row in tables[REJECTED].to_pylist():
            try:
                parsed = json.loads(row["text"])
            except ValueError:
                parsed = {}
            values = {c: self._value(parsed[c], c) for c in self.types if c in parsed}
            made.append((row, {**dict.fromkeys(self.types), "event_time": row["event_time"], **values, "reason": row["reason"]}))
        made.sort(key=lambda m: (_sortable(m[0]["event_time"]), m[0]["reason"], m[0]["text"]))
        return [values for _, values in made]

    def _value(self, value: Any, column: str) -> Any:
        kind = kind_of_arrow(self.types[column])
        if value is None:
            return None
        if kind == "float":
            return float(value)
        return self.native(value, column) if kind == "time" else value


def tested_table(plan: Plan, table: str) -> TestedTable:
    """Return ``table`` as tests compare it. Raises KeyError for an unknown table."""
    if table == REJECTED:
        types = {"event_time": STAMP, **{f.name: arrow_type(f.type) for f in plan.intake.fields}, "reason": pa.string()}
        return _Rejected(REJECTED, types, ("reason", *plan.intake.id), (), False)
    types = next({f.name: f.type for f in t.schema} for t in table_specs(plan) if t.name == table)
    query = next(q for q in plan.every_query if table in tables_of_query(q))
    plan = plan.of(query.name)
    streams, items = stream_columns(plan, query), _named(plan, query)
    values = [v.name for v in query.item.values]
    if table == changes_name(query.name):
        lasting = (("change",), ("cause",)) if query.item.lasting else ((), ())
        shown = (*streams, "changed_at", "step", *lasting[0], *items, *values, *lasting[1])
        return TestedTable(table, types, shown, ("changed_at", *streams, "step", "pos"), True)
    if table == now_name(query.name):
        return TestedTable(table, types, (*streams, "rank", *items, *values), (*streams, "rank"), True)
    identity = identity_columns(plan, query)
    if table == trajectory_name(query.name):
        return TestedTable(table, types, (*streams, "valid_from", *items, *values), ("valid_from", *streams, *identity), False)
    if table == final_name(query.name):
        shown = (*streams, "window_start", "window_end", "rank", *items, *values)
        return TestedTable(table, types, shown, ("window_end", *streams, "rank"), True)
    return TestedTable(
        table, types, (*streams, "valid_from", "valid_to", *items, *values), ("valid_from", *streams, "from_step", *identity), False
    )


def tables_of_query(query: QueryNode) -> tuple[str, ...]:
    """Return the names of a query's tables that tests may name, existing or not."""
    return (changes_name(query.name), query.name, now_name(query.name), trajectory_name(query.name), final_name(query.name))


def recorded_tables(plan: Plan, tables: Tables) -> list[str]:
    """Return the tables to record for a test without ``expect``: changes, and rejected rows if there are any."""
    return [*(changes_name(q.name) for q in plan.every_query), *([REJECTED] if tables[REJECTED].num_rows else [])]


def plain_value(value: Any, type_: pa.DataType) -> Any:
    """Return a value of a column of ``type_`` (of a table or a test) in a form in which equal values compare equal."""
    if isinstance(value, datetime):
        value = (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    elif isinstance(value, date):
        value = (value - _EPOCH.date()).days * 86_400_000_000
    elif isinstance(value, Decimal):
        value = float(value)
    elif not (pa.types.is_timestamp(type_) or pa.types.is_date(type_)) or isinstance(value, str):
        value = cell(value, kind_of_arrow(type_))
    if isinstance(value, float):
        value = float(np.float32(value)) if type_ == pa.float32() else value
        return "nan" if value != value else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def kind_of_arrow(type_: pa.DataType) -> Kind:
    """Return the kind of a table's column."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "time"
    if pa.types.is_integer(type_):
        return "int"
    named = {"string": "string", "bool": "boolean"}.get(str(type_))
    return kind_of(named) if named else "list" if pa.types.is_list(type_) else "float"


def _named(plan: Plan, query: QueryNode) -> Iterable[str]:
    """Return the columns that identify an item for a user: ids, not seqs."""
    columns = query.item.columns(plan.intake.id, query.carry, plan.intake.partition_by)
    return [c.name for c in columns if c.what in ("id", "object")]


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


# Compare the tables of a test with the expected ones, in the columns that the test names.

_AROUND: Final = 2
"""Equal rows shown before and after a difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of one table. ``lines``: rows in YAML, ``-`` for expected, ``+`` for actual, a space for equal ones."""

    table: str
    expected: int
    came: int
    lines: tuple[str, ...]


def compare_tables(plan: Plan, test: SpecTest, tables: Tables) -> list[Difference]:
    """Return the differences of tables that are not as expected. O(rows squared) where they differ."""
    found = (_compare(tested_table(plan, name), rows, tables, test) for name, rows in test.expect.items())
    return [d for d in found if d is not None]


def columns_of(table: TestedTable, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the columns that a test's rows of a table name, in their order, or the recorded columns if it has no rows."""
    return tuple(dict.fromkeys(c for row in rows for c in row)) or table.shown


def row_text(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return a row in YAML."""
    return "{" + ", ".join(f"{c}: {spelled(row.get(c))}" for c in columns) + "}"


def _compare(table: TestedTable, expected: Sequence[Row], tables: Tables, test: SpecTest) -> Difference | None:
    columns = columns_of(table, expected)
    came = table.rows(tables)
    keys = [_keys(table, rows, columns, test) for rows in (expected, came)]
    order = [list(range(len(k))) for k in keys]
    if not table.ordered:
        order = [sorted(o, key=lambda i, k=k: repr(k[i])) for o, k in zip(order, keys, strict=True)]  # type: ignore[misc]
    left, right = ([k[i] for i in o] for k, o in zip(keys, order, strict=True))
    if left == right:
        return None
    shown = [{c: table.native(row.get(c), c) for c in columns} for row in expected]
    rows = [[row_text(source[i], columns) for i in o] for source, o in zip((shown, came), order, strict=True)]
    return Difference(table.name, len(expected), len(came), tuple(_lines(left, right, rows[0], rows[1])))


def _keys(table: TestedTable, rows: Sequence[Row], columns: Sequence[str], test: SpecTest) -> list[tuple[Any, ...]]:
    try:
        return [tuple(table.plain(row.get(c), c) for c in columns) for row in rows]
    except ValueError as e:
        raise SkybandError("SKY-E530", f"test {test.name!r} expects a value that table {table.name} cannot hold: it {e}") from e


def _lines(left: list[Any], right: list[Any], expected: list[str], came: list[str]) -> list[str]:
    lines: list[str] = []
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    for n, (what, i1, i2, j1, j2) in enumerate(blocks):
        if what != "equal":
            lines += [f"- {t}" for t in expected[i1:i2]] + [f"+ {t}" for t in came[j1:j2]]
            continue
        head = _AROUND if n else 0
        tail = _AROUND if n + 1 < len(blocks) else 0
        if i2 - i1 <= head + tail + 1:
            lines += [f"  {t}" for t in expected[i1:i2]]
            continue
        lines += [f"  {t}" for t in expected[i1 : i1 + head]]
        lines.append(f"  ... {counted(i2 - i1 - head - tail, 'row')} alike")
        lines += [f"  {t}" for t in expected[i2 - tail : i2]] if tail else []
    return lines
