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
