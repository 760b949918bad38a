"""The columns that Parquet files, ORC files and Delta tables state, with the family of each type. Imports no Spark."""

from __future__ import annotations

from typing import Any

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.protocol import Columns


def parquet_columns(path: str) -> Columns | None:
    """Return the columns of a local Parquet file; None if it cannot be read."""
    # Checking a spec imports this module and needs no Arrow.
    import pyarrow as pa
    import pyarrow.parquet

    try:
        return _columns(pyarrow.parquet.read_schema(path))
    except (OSError, pa.ArrowException):
        return None


def orc_columns(path: str) -> Columns | None:
    """Return the columns of a local ORC file; None if it cannot be read."""
    import pyarrow as pa
    import pyarrow.orc

    try:
        return _columns(pyarrow.orc.ORCFile(path).schema)
    except (OSError, pa.ArrowException):
        return None


def delta_columns(path: str) -> Columns | None:
    """Return the columns of a local Delta table; None if it cannot be read."""
    import pyarrow as pa

    from skyband.framework.storage.delta_logs import library_errors, open_table

    try:
        table = open_table(path)
        with library_errors():
            return _columns(pa.schema(table.schema().to_arrow()))
    except (OSError, SkybandError):
        return None


def _columns(schema: Any) -> Columns:
    return {f.name: _family(f.type) for f in schema}


def _family(type_: Any) -> str:
    """Return the family of a type. Widths and spellings of one kind of value are one family, since values survive them."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return _family(type_.value_type)
    if pa.types.is_integer(type_):
        return "whole numbers"
    if pa.types.is_floating(type_):
        return "fractions"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "text"
    if pa.types.is_timestamp(type_):
        return "instants" if type_.tz is not None else "times without a zone"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"lists of {_family(type_.value_type)}"
    return "null" if pa.types.is_null(type_) else str(type_)
