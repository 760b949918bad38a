"""The types as which Spark reads columns of Parquet files, ORC files and Delta tables. Imports no Spark.

A test holds the rules for Parquet against Spark, type by type.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

INT96: Final = "INT96"
_DIGITS: Final = {"int": 10, "bigint": 20}
"""Digits before the point that Spark requires of a decimal for Parquet's whole numbers."""


def parquet_reads(kind: pa.DataType, physical: str, declared: str) -> bool:
    """Return True if Spark reads a Parquet column of Arrow type ``kind`` and physical type ``physical`` as ``declared``, values intact."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return declared in ("int", "bigint", "double", "date")
    if pa.types.is_decimal(kind):
        wanted = _decimal(declared)
        return wanted is not None and wanted[1] >= kind.scale and wanted[0] - wanted[1] >= kind.precision - kind.scale
    if pa.types.is_timestamp(kind):
        if physical == INT96:
            return declared == "timestamp"
        return declared == "bigint" or (declared == "timestamp" and kind.unit != "ns")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return declared.startswith("array<") and parquet_reads(kind.value_type, physical, declared.removeprefix("array<")[:-1])
    if (digits := _whole(kind)) is not None and (wanted := _decimal(declared)) is not None:
        return (pa.types.is_signed_integer(kind) and wanted[0] - wanted[1] >= digits) or (kind == pa.uint64() and wanted == (20, 0))
    return declared in _READS.get(str(kind), ())


_SMALL: Final = ("int", "bigint", "double", "date")
_READS: Final = {
    "int8": _SMALL, "int16": _SMALL, "int32": _SMALL, "uint8": _SMALL, "uint16": _SMALL, "int64": ("bigint",), "uint32": ("bigint",),
    "float": ("float", "double"), "double": ("double",), "bool": ("boolean",), "string": ("string",), "large_string": ("string",),
    "string_view": ("string",), "binary": ("string",), "large_binary": ("string",), "date32[day]": ("date", "int", "bigint", "double"),
    "time64[us]": ("bigint",), "time64[ns]": ("bigint",),
}  # fmt: skip


def declare(kind: pa.DataType, physical: str = "") -> str | None:
    """Return the type to declare for a column of Arrow type ``kind``; None if specs have none for it."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        return "bigint" if kind.unit == "ns" and physical != INT96 else "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})" if kind.precision <= 38 and 0 <= kind.scale <= kind.precision else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = declare(kind.value_type)
        return f"array<{inner}>" if inner in ("int", "bigint", "string", "float", "double") else None
    if kind == pa.uint64():
        return "decimal(20,0)"
    found = {"float": "float", "double": "double"}.get(str(kind), (*_READS.get(str(kind), ()), None)[0])
    return None if pa.types.is_time(kind) else found


def values(column: pa.ChunkedArray, declared: str) -> list[Any] | None:
    """Return the values of a column (instants in microseconds, dates in days); None if Spark may read them differently."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    try:
        if pa.types.is_timestamp(kind):
            unit = kind.unit if declared == "bigint" else "us"
            whole = column.cast(pa.timestamp("ms" if unit == "s" else unit, kind.tz), safe=False).cast(pa.int64())
            return list(whole.to_pylist()) if declared in ("timestamp", "bigint") else None
        if pa.types.is_date(kind) or (declared == "date" and pa.types.is_integer(kind)):
            days = column.cast(pa.int32()).to_pylist()
            return [float(d) if d is not None and declared == "double" else d for d in days]
        if pa.types.is_binary(kind):
            return list(column.cast(pa.string()).to_pylist())
        if pa.types.is_null(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return list(column.to_pylist())
        if pa.types.is_time(kind):
            return list(column.cast(pa.int64()).to_pylist())
        return list(column.cast(_arrow(declared)).to_pylist())
    except pa.ArrowInvalid:
        return None


def twice(names: list[str]) -> dict[str, list[str]]:
    """Return the columns whose names differ only by case, which Spark does not distinguish: lower case -> spellings."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.lower(), []).append(name)
    return {low: spelled for low, spelled in found.items() if len(spelled) > 1}


def member(schema: pa.Schema, path: tuple[str, ...]) -> pa.Field | None:
    """Return the column or member at ``path``, ignoring case; None if there is none."""
    fields: list[pa.Field] = list(schema)
    found: pa.Field | None = None
    for n, name in enumerate(path):
        found = next((f for f in fields if f.name.lower() == name.lower()), None)
        if found is None or (n < len(path) - 1 and not pa.types.is_struct(found.type)):
            return None
        fields = list(found.type) if pa.types.is_struct(found.type) else []
    return found


def take(table: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray | None:
    """Return the values of the column or member at ``path``; None if there is none."""
    at = next((i for i, n in enumerate(table.column_names) if n.lower() == path[0].lower()), None)
    column = None if at is None else table.column(at)
    for name in path[1:]:
        if column is None or not pa.types.is_struct(column.type):
            return None
        inside = next((f.name for f in column.type if f.name.lower() == name.lower()), None)
        column = None if inside is None else pc.struct_field(column, [inside])
    return column


def _whole(kind: pa.DataType) -> int | None:
    if not pa.types.is_integer(kind):
        return None
    return _DIGITS["bigint" if kind.bit_width == 64 else "int"]


def _decimal(declared: str) -> tuple[int, int] | None:
    m = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", declared)
    return None if m is None else (int(m[1]), int(m[2]))


def _arrow(declared: str) -> pa.DataType:
    wanted = _decimal(declared)
    if wanted is not None:
        return pa.decimal128(*wanted)
    return {"int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_()}.get(
        declared, pa.string()
    )
