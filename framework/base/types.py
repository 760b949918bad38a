"""Spark DDL types as Arrow types."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

STAMP: Final = pa.timestamp("us", "UTC")
"""The type of all instants in all tables."""

_ARROW: Final[dict[str, pa.DataType]] = {
    "string": pa.string(), "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(), "short": pa.int16(), "int": pa.int32(),
    "integer": pa.int32(), "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(), "real": pa.float32(), "double": pa.float64(),
    "boolean": pa.bool_(), "timestamp": STAMP, "date": pa.date32(), "binary": pa.binary(),
}  # fmt: skip
_DECIMAL: Final = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(\d+))?\))?")


YEARS: Final[dict[str, tuple[int, int]]] = {
    "date": (-719_162, 2_932_896), "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}  # fmt: skip
"""The first and the last value of the years 1 to 9999, in days and microseconds since 1970: what all readers of tables can show."""


def arrow_type(ddl: str) -> pa.DataType:
    """Return the Arrow type of a Spark DDL type (any case, spaces ignored). Raises ValueError for a type that no column has."""
    name = ddl.lower().replace(" ", "")
    if name in _ARROW:
        return _ARROW[name]
    if name.startswith("array<"):
        return pa.list_(arrow_type(name.removeprefix("array<").removesuffix(">")))
    decimal = _DECIMAL.fullmatch(name)
    if decimal is None:
        raise ValueError(f"no table column can have the type {ddl!r}")
    return pa.decimal128(int(decimal[1] or 10), int(decimal[2] or 0))


def unreadable_columns(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return the columns with dates or instants outside of the years 1 to 9999, each with True or null for the others. O(rows)."""
    # Spec checks import this module, and compute nothing.
    import pyarrow.compute as pc

    found = {}
    for i, f in enumerate(rows.schema):
        if pa.types.is_date32(f.type) or f.type in (STAMP, pa.timestamp("us")):
            days = pa.types.is_date32(f.type)
            number, (first, last) = rows[i].cast(pa.int32() if days else pa.int64()), YEARS["date" if days else "timestamp"]
            within = pc.and_(pc.greater_equal(number, first), pc.less_equal(number, last))
            if pc.any(pc.invert(within)).as_py():
                found[f.name] = within
    return found


def readable(rows: pa.Table) -> pa.Table:
    """Return ``rows`` with null for dates and instants outside of the years 1 to 9999, of which Python makes no value. O(rows)."""
    import pyarrow.compute as pc

    for name, within in unreadable_columns(rows).items():
        i = rows.column_names.index(name)
        rows = rows.set_column(i, name, pc.if_else(within, rows[i], pa.scalar(None, rows.schema[i].type)))
    return rows


def readable_as_text(rows: pa.Table) -> pa.Table:
    """Return ``rows`` with texts in the columns that have dates or instants outside of the years 1 to 9999. O(rows)."""
    for name in unreadable_columns(rows):
        i = rows.column_names.index(name)
        rows = rows.set_column(i, name, rows[i].cast(pa.string()))
    return rows
