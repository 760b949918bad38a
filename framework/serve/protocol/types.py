"""The PostgreSQL types that the server supports, with their properties in ``pg_type``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from skyband.framework.serve.protocol.values import ARRAYS, SIZES


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
    Type(16, "bool", "boolean", "B"), Type(17, "bytea", "bytea", "U"), Type(18, "char", '"char"', "Z"),
    Type(19, "name", "name", "S"), Type(20, "int8", "bigint", "N"), Type(21, "int2", "smallint", "N"),
    Type(23, "int4", "integer", "N"), Type(25, "text", "text", "S"), Type(26, "oid", "oid", "N"),
    Type(114, "json", "json", "U"), Type(700, "float4", "real", "N"), Type(701, "float8", "double precision", "N"),
    Type(705, "unknown", "unknown", "X"), Type(1042, "bpchar", "character", "S"),
    Type(1043, "varchar", "character varying", "S"),
    Type(1082, "date", "date", "D"), Type(1083, "time", "time without time zone", "D"),
    Type(1114, "timestamp", "timestamp without time zone", "D"), Type(1184, "timestamptz", "timestamp with time zone", "D"),
    Type(1186, "interval", "interval", "T"), Type(1700, "numeric", "numeric", "N"), Type(2950, "uuid", "uuid", "U"),
    Type(2205, "regclass", "regclass", "N"), Type(2206, "regtype", "regtype", "N"),
)  # fmt: skip
TYPES: Final = (
    *(replace(t, array=ARRAYS.get(t.oid, 0)) for t in _PLAIN),
    *(Type(ARRAYS[t.oid], f"_{t.name}", f"{t.sql}[]", "A", 0, t.oid) for t in _PLAIN if t.oid in ARRAYS),
)
_UNDERSCORED: Final = frozenset({"json", "date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid", "array"})


def procedure(t: Type, what: str) -> str:
    """Return the name of the function that reads or writes values of ``t``: ``what`` is in, out, recv or send."""
    name = "array" if t.element else t.name
    return f"{name}_{what}" if name in _UNDERSCORED else f"{name}{what}"


FUNCTIONS: Final[Mapping[str, int]] = {
    name: 2400 + i for i, name in enumerate(dict.fromkeys(procedure(t, what) for t in TYPES for what in ("in", "out", "recv", "send")))
}
"""The functions that ``pg_type`` names, with their OIDs in ``pg_proc``."""
NAMES: Final[Mapping[int, str]] = {t.oid: t.sql for t in TYPES}
LENGTHS: Final[Mapping[int, int]] = {**SIZES, 18: 1, 19: 64, 2950: 16, 2205: 4, 2206: 4}
"""Bytes of a value, as ``pg_type`` has them."""


def modifier(kind: pa.DataType) -> int:
    """Return the type modifier: precision and scale of a decimal, -1 for what has none."""
    return ((kind.precision << 16) | kind.scale) + 4 if pa.types.is_decimal(kind) else -1


def by_name(name: str) -> int | None:
    """Return the OID of the type with the name ``name``, None if there is none."""
    plain = name.strip().strip('"').lower().removeprefix("pg_catalog.")
    return next((t.oid for t in TYPES if plain in (t.name, t.sql)), None)
