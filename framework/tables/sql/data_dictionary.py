"""Write the data dictionary of a job as Markdown: every table and view, every column with type, unit and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.base.units import format_duration
from skyband.framework.plan.explain_parts import format_window
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.sql.views import views

_UNITS: Final[Mapping[str, str]] = {"_ms": "ms", "_seconds": "s", "_percent": "%"}
"""Units by the suffix of a column's name. Timestamps are UTC, in microseconds; columns of the source have the source's units."""


def dictionary(plan: Plan, described: Mapping[str, pa.Schema]) -> str:
    """Return the dictionary as Markdown. ``described``: view -> its columns (``statements.described``)."""
    lines = [
        f"# Data dictionary of job {plan.job}", "",
        "Instants are event times in UTC, to the microsecond, unless a column says wall-clock time. Columns that come from the source are "
        "in the source's own units. Null means what the column says; where it says nothing, it does not occur or the source had none.", "",
        "| query | asks for |", "|---|---|", *(f"| {_cell(q.name)} | {_cell(_description(q))} |" for q in plan.every_query),
    ]  # fmt: skip
    meanings: dict[str, dict[str, str]] = {}
    for table in tables(plan):
        meanings[table.name] = {f.name: f.metadata[b"comment"].decode() for f in table.schema}
        lines += ["", f"## {_cell(table.name)}", "", _cell(table.comment), "", *_columns(table.schema, meanings[table.name])]
    for view in views(plan):
        said = {**{n: m for t in view.reads for n, m in meanings[t].items()}, **meanings[view.reads[0]], **view.columns}
        lines += ["", f"## {_cell(view.name)} (view)", "", _cell(view.comment), "", *_columns(described[view.name], said)]
    return "\n".join(lines)


def _columns(schema: pa.Schema, meanings: Mapping[str, str]) -> Iterable[str]:
    yield "| column | type | unit | meaning |"
    yield "|---|---|---|---|"
    for f in schema:
        yield f"| {_cell(f.name)} | {_kind(f.type)} | {_unit(f)} | {_cell(meanings[f.name])} |"


def _kind(kind: pa.DataType) -> str:
    return "timestamp" if pa.types.is_timestamp(kind) else "text" if pa.types.is_string(kind) else str(kind)


def _unit(column: pa.Field) -> str:
    if pa.types.is_timestamp(column.type):
        return "UTC"
    return next((unit for end, unit in _UNITS.items() if column.name.rstrip("_").endswith(end)), "")


def _description(query: QueryNode) -> str:
    """Return what a query computes, in words."""
    window = [f"{counted(query.window.count, 'row')}"] if query.window.count is not None else []
    window += [format_duration(query.window.micros)] if query.window.micros is not None else []
    own = query.window.tumbling is not None or query.window.session is not None
    last = f"windows of {format_window(query.window)}" if own else f"the last {' and '.join(window)}"
    best = f"{query.type}{'' if query.k is None else f', the best {query.k}'} of {last}"
    return best + ("" if query.every_micros is None else f", looked at every {format_duration(query.every_micros)}")


def _cell(text: str) -> str:
    """Return text escaped for a cell of a Markdown table."""
    return "".join("\\" + c if c in "\\`*|<>[]#" else " " if c in "\r\n" else c for c in text)
