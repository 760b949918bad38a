"""Write the statement with which other engines read the source's rows as the view ``source_rows``."""

from __future__ import annotations

import re
from pathlib import Path

from sqlglot import exp

from skyband.framework.plan.model import Plan
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.text.options import folded
from skyband.framework.tables.sql.dialects import place
from skyband.framework.tables.sql.source_read import header_of, type_of
from skyband.framework.tables.sql.source_read import why_not as not_in_duckdb
from skyband.framework.tables.sql.source_rows import SOURCE


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
