"""The rows of a job's source as DuckDB reads them: the files that the job has taken, or its Delta table.

Only rows that results name are kept. Text is read by the rules of Spark as far as both have them: a row that DuckDB cannot cut into
cells is none, a cell that is no value of its column's type is null, and a source with options that only Spark knows is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.base.system_failures import one_line
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.sources.duckdb_sql import text
from skyband.framework.sources.files.format import files_to_read
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.nested import path_of
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.job_file_header import read_job_file_header
from skyband.framework.tables.sql.source_rows import found_by, source_schema
from skyband.framework.tables.sql.view import quoted

with extra("sql", "rows joined to their source"):
    import duckdb

READING: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
"""Settings of the connection that reads the source's files: it runs no statement of anyone's, and hands on only what it found."""
_PLAIN: Final = {"encoding": "utf-8", "charset": "utf-8", "timezone": "utc"}
"""Options that may only say what holds without them."""


def why_not(source: SourceNode) -> str | None:
    """Why DuckDB does not read the rows of ``source`` as Spark does, in words; None if it does."""
    known = source_format(source.format).duckdb_options
    if known is None:
        return f"rows of format {source.format} are known to Spark alone"
    options = {k.lower(): v for k, v in source.options}
    for name, value in options.items():
        if name not in known or (name in _PLAIN and value.lower() != _PLAIN[name]):
            return f"the source is read with the option {name}, which DuckDB does not have in Spark's sense"
    return None if "://" not in str(source.path).removeprefix("file://") else "the source is not on this machine"


def rows(plan: Plan, wanted: pa.Table) -> pa.Table:
    """The different rows of the source, as the spec names and types them, whose id, time and key are in ``wanted``. O(the source).

    ``wanted``: columns ``found_by``. SkybandError SKY-E301 if the source cannot be read.
    """
    duck = duckdb.connect(config=READING)
    duck.execute("set timezone = 'UTC'")
    duck.register("wanted", wanted)
    try:
        return _rows(duck, plan)
    except (duckdb.Error, OSError, pa.ArrowException) as e:
        raise SkybandError("SKY-E301", f"the rows of the source cannot be read: {one_line(e)}", hint="views named _rows need them") from e


def _rows(duck: duckdb.DuckDBPyConnection, plan: Plan) -> pa.Table:
    source = plan.source
    relation = _relation(duck, plan)
    if relation is None:
        return source_schema(plan).empty_table()
    there = {c.lower(): c for c in duck.sql(f"select * from {relation} limit 0").columns}
    columns = []
    # To Spark also in quotes.
    nothing = source_format(source.format).null_text(source)
    for f in source.fields:
        column = there.get(str(f.source_name).lower())
        member = _member(source, str(f.source_name), there)
        if member is not None:
            value = member if column is None else f"coalesce({quoted(column)}, {member})"
            columns.append(f"try_cast({value} as {type_of(f.type)}) as {quoted(f.name)}")
            continue
        cell = "null" if column is None else f"nullif({quoted(column)}, {text(nothing)})" if nothing else quoted(column)
        columns.append(f"try_cast({cell} as {type_of(f.type)}) as {quoted(f.name)}")
    cut = source_format(source.format).duckdb_condition(source, list(there.values()))
    on = " and ".join(f"told.{quoted(c)} = wanted.{quoted(c)}" for c in found_by(plan))
    return duck.sql(
        f"with told as (select {', '.join(columns)} from {relation}{cut}) select distinct told.* from told semi join wanted on {on}"
    ).to_arrow_table()


def _member(source: SourceNode, name: str, there: Mapping[str, str]) -> str | None:
    """The member of an object that ``name`` may name, as DuckDB has it; None if there is none. ``there``: columns by lower case."""
    path = path_of(source, name)
    if path is None or path[0].lower() not in there:
        return None
    top = quoted(there[path[0].lower()])
    return source_format(source.format).duckdb_member(top, path[1:])


def _relation(duck: duckdb.DuckDBPyConnection, plan: Plan) -> str | None:
    """What DuckDB reads the source's rows from, None if there are none."""
    source = plan.source
    format_ = source_format(source.format)
    if format_.of_table:
        duck.register("at_rest", format_.dataset(source, []))
        return "at_rest"
    home = Path(plan.sink.removeprefix("file://")) / "_skyband"
    files = taken_files(source, home)
    if not files:
        return None
    # A name of a file is no pattern.
    call = format_.duckdb_call(source, [re.sub(r"([*?\[])", r"[\1]", f) for f in files], header_of(home))
    if call is None:
        duck.register("at_rest", format_.dataset(source, files))
        return "at_rest"
    return call


def taken_files(source: SourceNode, home: Path) -> list[str]:
    """The files that a job has taken, that are still there, and that were not set aside. ``home``: ``_skyband`` of its sink."""
    aside = Ledger.load(home).aside
    paths = [local_path(url) for url in files_to_read(source, home / "checkpoint") if url not in aside]
    return [p for p in paths if p is not None and Path(p).is_file()]


def header_of(home: Path) -> list[str] | None:
    """The columns of a job's CSV files as its first run found them."""
    kept = read_job_file_header(home)
    return None if kept is None else kept.header


def type_of(ddl: str) -> str:
    """A column type of a spec as DuckDB has it."""
    known = {
        "timestamp": "timestamptz",
        "string": "varchar",
        "float": "real",
        "int": "integer",
        "boolean": "boolean",
        "array<string>": "varchar[]",
    }
    assert re.fullmatch(r"[a-z]+(\(\d+,\s*\d+\)|<string>)?", ddl), ddl
    return known.get(ddl, ddl)
