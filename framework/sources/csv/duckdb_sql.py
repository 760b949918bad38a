"""CSV files as DuckDB reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.duckdb_sql import columns_of, list_of, text
from skyband.framework.sources.files.bad_files import separator_of
from skyband.framework.sources.text.options import folded, skipped, slashed


def call(source: SourceNode, files: Sequence[str], header: Sequence[str] | None) -> str:
    """Return the call of ``read_csv`` for ``files``."""
    options = folded(source.options)
    columns = columns_of(source, header if header is not None else [str(f.source_name) for f in source.fields])
    nulls = ", ".join(map(text, dict.fromkeys(["", options.get("nullvalue", "")])))
    quote = _quote(options)
    escape = quote if slashed(options) else options["escape"]
    headed = "true" if options.get("header", "").lower() == "true" else "false"
    return (
        f"read_csv({list_of(files)}, auto_detect = false, header = {headed}, columns = {columns}, "
        f"delim = {text(separator_of(options))}, quote = {text(quote)}, "
        f"escape = {text(escape)}, skip = {skipped(options)}, nullstr = [{nulls}], allow_quoted_nulls = false, ignore_errors = true)"
    )


def condition(source: SourceNode, columns: Sequence[str]) -> str:
    """Return the ``where`` clause that leaves out rows with cells that DuckDB and Spark read differently.

    Only DuckDB lets a cell go on in the next line, unless ``multiLine`` is set. If a backslash is the escape character, the two differ in
    cells with a backslash or with a quote inside.
    """
    options = folded(source.options)
    marks = "" if options.get("multiline", "false").lower() == "true" else "\\r\\n"
    if slashed(options):
        marks += "\\\\" + "".join(f"\\{c}" for c in _quote(options))
    if not marks:
        return ""
    quoted = ('"' + c.replace('"', '""') + '"' for c in columns)
    return " where not " + " and not ".join(f"coalesce(regexp_matches({c}, {text(f'[{marks}]')}), false)" for c in quoted)


def _quote(options: Mapping[str, str]) -> str:
    return options.get("quote", '"')
