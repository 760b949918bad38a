"""Rows of Parquet and ORC files that Arrow reads: columns found by name as Spark finds them, and values that both read alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import Field
from skyband.framework.sources.files.arrow import UnsupportedFile

ROWS: Final = 65_536
"""Rows of a table."""
_OLD: Final = -2_208_988_800
"""1900-01-01 in seconds: Spark may read older instants by another calendar."""
_DAY: Final = 86_400
_UNITS: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

WIDENED: Final[dict[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.int32(): (pa.int8(), pa.int16()),
    pa.int64(): (pa.int8(), pa.int16(), pa.int32()),
    pa.float64(): (pa.float32(),),
    pa.string(): (pa.large_string(),),
}
"""What a file may hold, beside the very type, for a column that is declared as the key."""


def column_names(fields: Sequence[Field], schema: pa.Schema, reads: Callable[[str, pa.DataType, Field], bool]) -> list[str | None]:
    """Return the name of each field in a file, ignoring case as Spark does; None if it is missing, which reads as null.

    ``reads``: whether Spark reads a column, by its name and type, as a field, with the values of Arrow. Raises UnsupportedFile.
    """
    spelled: dict[str, list[str]] = {}
    for name in schema.names:
        spelled.setdefault(name.lower(), []).append(name)
    names: list[str | None] = []
    for f in fields:
        found = spelled.get(str(f.source_name).lower(), [])
        if len(found) > 1 or (found and "." in found[0]):
            raise UnsupportedFile(f"column {f.name} is there twice, or its name has a dot")
        if not found and str(f.source_name).partition(".")[0].lower() in spelled and "." in str(f.source_name):
            raise UnsupportedFile(f"column {f.name} is a member of an object")
        there = schema.field(found[0]).type if found else None
        if there is not None and not reads(found[0], there, f):
            raise UnsupportedFile(f"a file has {there} where {f.name} is {f.type}")
        names.append(found[0] if found else None)
    if not any(names):
        raise UnsupportedFile("a file has none of the columns")
    return names


def rows_of(batch: pa.RecordBatch, fields: Sequence[Field], names: Sequence[str | None]) -> pa.Table:
    """Return rows with the names and types of the fields. ``names``: see ``column_names``. Raises UnsupportedFile."""
    columns = []
    for f, name in zip(fields, names, strict=True):
        type_ = arrow_type(f.type)
        column = pa.nulls(batch.num_rows, type_) if name is None else batch.column(name)
        _check_values(column, f)
        columns.append(column if column.type == type_ else column.cast(type_))
    return pa.table(columns, [f.name for f in fields])


def _check_values(column: pa.Array, f: Field) -> None:
    """Raises UnsupportedFile for what both may read, but not alike."""
    kind = column.type
    if pa.types.is_list(kind):
        column = column.flatten()
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as e:
            raise UnsupportedFile(f"column {f.name} holds bytes that are no text") from e
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if pa.types.is_date(kind):
            whole, least = column.cast(pa.int32()), _OLD // _DAY
        else:
            whole, least = column.cast(pa.int64()), _OLD * _UNITS[kind.unit]
        first = pc.min(whole).as_py()
        if first is not None and first < least:
            raise UnsupportedFile(f"column {f.name} has instants before 1900")
