"""Write the data dictionary of a job as Markdown: every table and view, every column with type, unit and meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from sqlglot import exp

from skyband.framework.base.counts import counted
from skyband.framework.base.units import format_duration
from skyband.framework.plan.explain_parts import format_window
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.text.options import folded
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.sql.dialects import place
from skyband.framework.tables.sql.source_read import header_of, type_of
from skyband.framework.tables.sql.source_read import why_not as not_in_duckdb
from skyband.framework.tables.sql.source_rows import SOURCE
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


# Write the statement with which other engines read the source's rows as the view ``source_rows``.


def source(plan: Plan, dialect: str) -> str:
    """Return ``create view`` in ``dialect`` over the source's path, or comments that describe the view if that is not possible.

    Reads no rows of the source; for CSV files in DuckDB it reads the job file.
    """
    relation = _relation(plan, dialect)
    if relation is None:
        columns = ", ".join(f"{f.name} {f.type}" for f in (*plan.source.fields, *plan.source.position))
        options = "".join(f", {name} = {value!r}" for name, value in plan.source.options)
        lines = [f"{SOURCE}: the rows of the {plan.source.format} source at {plan.source.path}{options}", f"with the columns {columns}"]
        # A line break in a path or an option must not end the comment.
        return "\n".join("-- " + re.sub(r"[\r\n]", " ", line) for line in lines)
    columns = ",\n  ".join(_column(str(f.source_name), f.name, f.type, dialect) for f in plan.source.fields)
    return f"-- The rows of the source.\nCREATE VIEW {SOURCE} AS\nSELECT\n  {columns}\nFROM {relation};"


def _column(source_name: str, name: str, ddl: str, dialect: str) -> str:
    named = exp.to_identifier(source_name, quoted=True).sql(dialect=dialect)
    if dialect == "duckdb":
        named = f"try_cast({named} as {type_of(ddl)})"
    return f"{named} AS {exp.to_identifier(name, quoted=True).sql(dialect=dialect)}"


def _relation(plan: Plan, dialect: str) -> str | None:
    """Return the relation from which ``dialect`` reads the source, None if it cannot be one expression."""
    source, path = plan.source, str(plan.source.path).removeprefix("file://")
    format_ = source_format(source.format)
    if source.position:
        return None
    if format_.of_table:
        return place(path, dialect)
    named = format_.spark_relation(path) if dialect == "spark" else None
    if named is not None or dialect != "duckdb" or not_in_duckdb(source) is not None:
        return named
    header = header_of(Path(plan.sink.removeprefix("file://")) / "_skyband")
    if format_.columns_by_position and header is None and folded(source.options).get("header", "").lower() == "true":
        return None
    return format_.duckdb_call(source, [path.rstrip("/") + "/*"], header)
