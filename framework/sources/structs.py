"""Builds Spark's schemas from objects. Schemas given as text would load Spark's parser, in the driver and in every task with state."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import BinaryType, BooleanType, DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

_TYPES: Final[dict[str, type[DataType]]] = {
    "int": IntegerType, "bigint": LongType, "string": StringType, "binary": BinaryType, "timestamp": TimestampType,
    "boolean": BooleanType,
}  # fmt: skip


def struct(**columns: str) -> StructType:
    """Columns by name with their types, of ``_TYPES``."""
    return StructType([StructField(name, _TYPES[type_]()) for name, type_ in columns.items()])
