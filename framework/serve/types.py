"""The PostgreSQL types that the server supports, with their properties in ``pg_type``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skyband.framework.serve.values import SIZES


@dataclass(frozen=True, slots=True)
class Type:
    """A type: ``sql`` is its name in SQL, ``category`` PostgreSQL's letter, ``array`` the OID of its arrays, ``element`` that of theirs."""

    oid: int
    name: str
    sql: str
    category: str
    array: int = 0
    element: int = 0


_PLAIN: Final = (
    Type(16, "bool", "boolean", "B", 1000), Type(17, "bytea", "bytea", "U", 1001), Type(18, "char", '"char"', "Z", 1002),
    Type(19, "name", "name", "S", 1003), Type(20, "int8", "bigint", "N", 1016), Type(21, "int2", "smallint", "N", 1005),
    Type(23, "int4", "integer", "N", 1007), Type(25, "text", "text", "S", 1009), Type(26, "oid", "oid", "N", 1028),
    Type(114, "json", "json", "U", 199), Type(700, "float4", "real", "N", 1021), Type(701, "float8", "double precision", "N", 1022),
    Type(705, "unknown", "unknown", "X"), Type(1042, "bpchar", "character", "S", 1014),
    Type(1043, "varchar", "character varying", "S", 1015),
    Type(1082, "date", "date", "D", 1182), Type(1083, "time", "time without time zone", "D", 1183),
    Type(1114, "timestamp", "timestamp without time zone", "D", 1115), Type(1184, "timestamptz", "timestamp with time zone", "D", 1185),
    Type(1186, "interval", "interval", "T", 1187), Type(1700, "numeric", "numeric", "N", 1231), Type(2950, "uuid", "uuid", "U", 2951),
    Type(2205, "regclass", "regclass", "N", 2210), Type(2206, "regtype", "regtype", "N", 2211),
)  # fmt: skip
TYPES: Final = (*_PLAIN, *(Type(t.array, f"_{t.name}", f"{t.sql}[]", "A", 0, t.oid) for t in _PLAIN if t.array))
NAMES: Final[Mapping[int, str]] = {t.oid: t.sql for t in TYPES}
LENGTHS: Final[Mapping[int, int]] = {**SIZES, 18: 1, 19: 64, 26: 4, 2950: 16, 2205: 4, 2206: 4}
"""Bytes of a value, as ``pg_type`` has them."""


def modifier(kind: pa.DataType) -> int:
    """Return the type modifier: precision and scale of a decimal, -1 for what has none."""
    return ((kind.precision << 16) | kind.scale) + 4 if pa.types.is_decimal(kind) else -1


def by_name(name: str) -> int | None:
    """Return the OID of the type with the name ``name``, None if there is none."""
    plain = name.strip().strip('"').lower().removeprefix("pg_catalog.")
    return next((t.oid for t in TYPES if plain in (t.name, t.sql)), None)
