"""Read the rows of a job's source with DuckDB: the files that the job has processed, or its Delta table.

Only rows that results name are kept. Text is read by the rules of Spark where DuckDB has them too: a row that cannot be split into cells is
skipped, a cell that does not fit the type of its column is null, and a source with options that only Spark supports is not read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.base.system_failures import one_line
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.sources.duckdb_sql import text
from skyband.framework.sources.files.format import files_to_read
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.nested import path_of
from skyband.framework.sources.position import FILE, ROW, FileNames, position_values
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.values import arrow_table
from skyband.framework.storage.records import read_job_file_header
from skyband.framework.tables.sql.source_rows import found_by, source_schema
from skyband.framework.tables.sql.view import quoted

# Find rows of the source again by their position, for jobs with ``source.id: position``. Uses the readers of ``skyband preview``.


def numbered_rows(source: SourceNode, files: Sequence[str], keys: pa.Table) -> pa.Table:
    """Return the rows at the positions in ``keys``, with the source's columns and those of the position. O(rows before the last one).

    ``files``: local paths. Only those that ``keys`` name are read, each to the last row that is needed. Rows that only Spark reads, and
    rows that do not parse, are left out. Raises SkybandError and the errors of ``SourceFormat.first_rows``.
    """
    wanted: dict[str, set[int]] = defaultdict(set)
    columns = {f.source_name: keys[f.name].to_pylist() for f in source.position}
    for file, row in zip(columns[FILE], columns[ROW], strict=True):
        wanted[file].add(row)
    names, made = FileNames.of(source), list[dict[str, Any]]()
    for path in files:
        name = names.name(path)
        if name in wanted:
            found = FirstRows()
            source_format(source.format).first_rows(source, path, max(wanted[name]), found)
            made += [
                {**row, **position_values(source.position, name, number)}
                for row, number, reason in zip(found.rows, found.numbers, found.reasons, strict=True)
                if reason is None and number in wanted[name]
            ]
    return arrow_table(made, (*source.fields, *source.position))


with extra("sql", "rows joined to their source"):
    import duckdb

READING: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
"""Settings of the connection that reads the source's files. It runs no statements of users."""
_PLAIN: Final = {"encoding": "utf-8", "charset": "utf-8", "timezone": "utc"}
"""Options that may only have their default value."""


def why_not(source: SourceNode) -> str | None:
    """Return why DuckDB cannot read the rows of ``source`` as Spark does, in words; None if it can."""
    format_ = source_format(source.format)
    known = format_.preview_options if source.position else format_.duckdb_options
    if known is None:
        return f"rows of format {source.format} are known to Spark alone"
    options = {k.lower(): v for k, v in source.options}
    for name, value in options.items():
        if source.position and name not in known:
            return f"the source is read with the option {name}, with which only Spark numbers rows"
        if name not in known or (not source.position and name in _PLAIN and value.lower() != _PLAIN[name]):
            return f"the source is read with the option {name}, which DuckDB does not support as Spark does"
    return None if "://" not in str(source.path).removeprefix("file://") else "the source is not on this machine"


def rows(plan: Plan, keys: pa.Table) -> pa.Table:
    """Return the distinct rows of the source, with the columns of the spec, whose id, time and key are in ``keys``. O(the source).

    ``keys``: the columns ``found_by``. SkybandError SKY-E301 if the source cannot be read.
    """
    duck = duckdb.connect(config=READING)
    duck.execute("set timezone = 'UTC'")
    duck.register("source_keys", keys)
    try:
        return _rows(duck, plan, keys)
    except (duckdb.Error, OSError, EOFError, LookupError, ValueError, pa.ArrowException) as e:
        raise SkybandError("SKY-E301", f"the rows of the source cannot be read: {one_line(e)}", hint="views named _rows need them") from e


def _rows(duck: duckdb.DuckDBPyConnection, plan: Plan, keys: pa.Table) -> pa.Table:
    if plan.source.position:
        duck.register("numbered_rows", numbered_rows(plan.source, taken_files(plan.source, _home(plan)), keys))
        found = "select * from numbered_rows"
    else:
        relation = _relation(duck, plan)
        if relation is None:
            return source_schema(plan).empty_table()
        found = _select(duck, plan.source, relation)
    on = " and ".join(f"source_rows.{quoted(c)} = source_keys.{quoted(c)}" for c in found_by(plan))
    return duck.sql(
        f"with source_rows as ({found}) select distinct source_rows.* from source_rows semi join source_keys on {on}"
    ).to_arrow_table()


def _select(duck: duckdb.DuckDBPyConnection, source: SourceNode, relation: str) -> str:
    """Return the statement that gives the rows of ``relation`` the columns and types of the spec."""
    by_lower_case = {c.lower(): c for c in duck.sql(f"select * from {relation} limit 0").columns}
    columns = []
    # Spark replaces the text for null also within quotes.
    nothing = source_format(source.format).null_text(source)
    for f in source.fields:
        column = by_lower_case.get(str(f.source_name).lower())
        member = _member(source, str(f.source_name), by_lower_case)
        if member is not None:
            value = member if column is None else f"coalesce({quoted(column)}, {member})"
            columns.append(f"try_cast({value} as {type_of(f.type)}) as {quoted(f.name)}")
            continue
        cell = "null" if column is None else f"nullif({quoted(column)}, {text(nothing)})" if nothing else quoted(column)
        columns.append(f"try_cast({cell} as {type_of(f.type)}) as {quoted(f.name)}")
    cut = source_format(source.format).duckdb_condition(source, list(by_lower_case.values()))
    return f"select {', '.join(columns)} from {relation}{cut}"


def _member(source: SourceNode, name: str, by_lower_case: Mapping[str, str]) -> str | None:
    """Return DuckDB's expression for the member of an object that ``name`` names; None if it names none."""
    path = path_of(source, name)
    if path is None or path[0].lower() not in by_lower_case:
        return None
    top = quoted(by_lower_case[path[0].lower()])
    return source_format(source.format).duckdb_member(top, path[1:])


def _relation(duck: duckdb.DuckDBPyConnection, plan: Plan) -> str | None:
    """Return the relation that DuckDB reads the source's rows from, None if there are no rows."""
    source = plan.source
    format_ = source_format(source.format)
    if format_.of_table:
        duck.register("source_table", format_.dataset(source, []))
        return "source_table"
    home = _home(plan)
    files = taken_files(source, home)
    if not files:
        return None
    # Escape the names of files, which are not patterns.
    call = format_.duckdb_call(source, [re.sub(r"([*?\[])", r"[\1]", f) for f in files], header_of(home))
    if call is None:
        duck.register("source_table", format_.dataset(source, files))
        return "source_table"
    return call


def _home(plan: Plan) -> Path:
    return Path(plan.sink.removeprefix("file://")) / "_skyband"


def taken_files(source: SourceNode, home: Path) -> list[str]:
    """Return the files that a job has processed, that still exist, and that were not set aside. ``home``: ``_skyband`` of its sink."""
    paths = map(local_path, files_to_read(source, home / "checkpoint"))
    return [p for p in paths if p is not None and Path(p).is_file()]


def header_of(home: Path) -> list[str] | None:
    """Return the columns of a job's CSV files as its first run found them."""
    kept = read_job_file_header(home)
    return None if kept is None else kept.header


def type_of(ddl: str) -> str:
    """Return a column type of a spec as a type of DuckDB."""
    if ddl.startswith("array<"):
        return f"{type_of(ddl.removeprefix('array<').removesuffix('>'))}[]"
    known = {"timestamp": "timestamptz", "string": "varchar", "float": "real", "int": "integer", "boolean": "boolean"}
    assert re.fullmatch(r"[a-z]+(\(\d+,\s*\d+\))?", ddl), ddl
    return known.get(ddl, ddl)
