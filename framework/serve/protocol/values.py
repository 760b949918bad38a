"""Convert Arrow columns to PostgreSQL's types: OIDs, and values in the text and binary formats."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from skyband.framework.serve.protocol.wire import BINARY, Refused

BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 25, 26, 114, 700, 701
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID = 1082, 1083, 1114, 1184, 1186, 1700, 2950
SIZES: Final = {
    BOOL: 1,
    INT8: 8,
    INT2: 2,
    INT4: 4,
    OID: 4,
    FLOAT4: 4,
    FLOAT8: 8,
    DATE: 4,
    TIME: 8,
    TIMESTAMP: 8,
    TIMESTAMPTZ: 8,
    INTERVAL: 16,
}
"""Bytes of the types whose values all have one size; -1 for the others."""

ARRAYS: Final = {
    BOOL: 1000, BYTEA: 1001, 18: 1002, 19: 1003, INT8: 1016, INT2: 1005, INT4: 1007, TEXT: 1009, OID: 1028, JSON: 199, FLOAT4: 1021,
    FLOAT8: 1022, 1042: 1014, 1043: 1015, DATE: 1182, TIME: 1183, TIMESTAMP: 1115, TIMESTAMPTZ: 1185, INTERVAL: 1187, NUMERIC: 1231,
    UUID: 2951, 2205: 2210, 2206: 2211,
}  # fmt: skip
"""OID of a type -> that of its arrays."""
ELEMENTS: Final = {array: element for element, array in ARRAYS.items()}
"""OID of an array's type -> that of its elements."""
_EPOCH: Final = datetime(1970, 1, 1)
_DAYS_TO_2000: Final = 10957
MICROS_TO_2000: Final = 10957 * 86_400_000_000
_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_FOREVER_DAYS: Final = 2**31 - 1
_FOREVER: Final = 2**63 - 1
_FIRST_SECOND: Final = -62_135_510_400
_LAST_SECOND: Final = 253_402_210_800
"""Seconds since 1970 between which Python has every local time: a day within the years 1 and 9999."""
_NULL: Final = b"\xff\xff\xff\xff"
_SPECIAL: Final = re.compile(rb'[{}",\\\s]')
"""What an element of an array has to be quoted for."""


def oid_of(kind: pa.DataType) -> int:
    """Return the OID of PostgreSQL's type for values of ``kind``.

    Lists of plain values are arrays, other nested values are JSON. Unsigned integers are the next wider type, those of 4 bytes OIDs.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return JSON if "json" in str(kind.extension_name) else oid_of(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return oid_of(kind.value_type)
    if _is_list(kind) and (element := oid_of(kind.value_type)) != JSON and element in ARRAYS:
        return ARRAYS[element]
    for found, oid in _KINDS:
        if found(kind):
            return oid
    return TEXT


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


_KINDS: Final[tuple[tuple[Callable[[pa.DataType], bool], int], ...]] = (
    (pa.types.is_boolean, BOOL),
    (lambda t: t in (pa.int8(), pa.int16(), pa.uint8()), INT2),
    (lambda t: t in (pa.int32(), pa.uint16()), INT4),
    (pa.types.is_int64, INT8),
    (pa.types.is_uint32, OID),
    (lambda t: t == pa.uint64() or pa.types.is_decimal(t), NUMERIC),
    (lambda t: t in (pa.float16(), pa.float32()), FLOAT4),
    (pa.types.is_float64, FLOAT8),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t), BYTEA),
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME),
    (lambda t: pa.types.is_timestamp(t) and t.tz is not None, TIMESTAMPTZ),
    (pa.types.is_timestamp, TIMESTAMP),
    (pa.types.is_interval, INTERVAL),
    (pa.types.is_duration, INTERVAL),
    (pa.types.is_nested, JSON),
)


def columns_of(schema: pa.Schema) -> list[tuple[str, int, int]]:
    """Return (name, OID, size) of each column, as RowDescription has them."""
    return [(f.name, (oid := oid_of(f.type)), SIZES.get(oid, -1)) for f in schema]


def encoded(column: pa.ChunkedArray, form: int, zone: ZoneInfo | None = None) -> list[bytes | None]:
    """Return the values of ``column`` in the format ``form``, None for nulls. O(values).

    ``zone``: that of instants as text, None for UTC.
    """
    oid = oid_of(column.type)
    if oid in ELEMENTS:
        return [v for chunk in column.chunks for v in _arrays(chunk, ELEMENTS[oid], form, zone)]
    if oid == TIMESTAMPTZ and zone is not None and form != BINARY:
        return [None if v is None else _local_instant(v, zone) for v in _plain(column, oid)]
    write = (_BINARY if form == BINARY else _TEXT)[oid]
    return [None if v is None else write(v) for v in _plain(column, oid)]


def _arrays(lists: pa.Array, element: int, form: int, zone: ZoneInfo | None) -> Iterator[bytes | None]:
    """Yield the values of a column of lists as arrays of one dimension."""
    items = iter(encoded(pa.chunked_array([lists.flatten()]), form, zone))
    fixed = lists.type.list_size if pa.types.is_fixed_size_list(lists.type) else None
    lengths = lists.value_lengths().to_pylist() if fixed is None else [fixed if v else None for v in lists.is_valid().to_pylist()]
    for length in lengths:
        if length is None:
            yield None
            continue
        values = list(islice(items, length))
        if form != BINARY:
            yield b"{" + b",".join(b"NULL" if v is None else _quoted_element(v) for v in values) + b"}"
        elif not values:
            yield struct.pack("!iiI", 0, 0, element)
        else:
            head = struct.pack("!iiIii", 1, int(None in values), element, len(values), 1)
            yield head + b"".join(_NULL if v is None else struct.pack("!i", len(v)) + v for v in values)


def _quoted_element(text: bytes) -> bytes:
    """Return an element, quoted where needed, for the text form of an array."""
    if text and text.upper() != b"NULL" and not _SPECIAL.search(text):
        return text
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _plain(column: pa.ChunkedArray, oid: int) -> Sequence[Any]:
    """Return the values as Python has them; instants, dates and times as the integers that they are."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column = pa.chunked_array([c.storage for c in column.chunks], kind.storage_type)
    elif pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    kind = column.type
    values: Sequence[Any]
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        values = column.cast(pa.int64()).to_pylist()
        factor = _MICROS.get(kind.unit)
        if factor != 1:
            values = [v if v is None or abs(v) >= _FOREVER else v * factor if factor else v // 1000 for v in values]
    elif oid == DATE:
        days = column if kind == pa.date32() else column.cast(pa.date32())
        values = days.cast(pa.int32()).to_pylist()
    elif oid == TIME:
        values = column.cast(pa.time64("us"), safe=False).cast(pa.int64()).to_pylist()
    elif oid == FLOAT4:
        values = column.cast(pa.float32()).to_pylist()
    elif oid == TEXT:
        values = [None if v is None else v if isinstance(v, str) else str(v) for v in column.to_pylist()]
    else:
        try:
            values = column.to_pylist()
        except (OverflowError, ValueError) as e:
            said = "a date or an instant inside of a list, a struct or a map is outside of the years 1 to 9999"
            raise Refused("22008", said, "cast(... as varchar)") from e
    return values


def _float8(v: float) -> bytes:
    if v != v:
        return b"NaN"
    if v in (float("inf"), float("-inf")):
        return b"Infinity" if v > 0 else b"-Infinity"
    return repr(v).removesuffix(".0").encode()


def _float4(v: float) -> bytes:
    return _float8(v) if v - v != 0 else str(np.float32(v)).removesuffix(".0").encode()


def _numeric(v: Decimal | int) -> bytes:
    return format(v, "f").encode() if isinstance(v, Decimal) else str(v).encode()


def _day(days: int) -> str:
    try:
        return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()
    except (ValueError, OverflowError):
        year, month, day = str(np.datetime64(days, "D")).rsplit("-", 2)
        n = int(year)
        return f"{n:04d}-{month}-{day}" if n > 0 else f"{1 - n:04d}-{month}-{day} BC"


def _date(days: int) -> bytes:
    if abs(days) >= _FOREVER_DAYS:
        return b"infinity" if days > 0 else b"-infinity"
    return _day(days).encode()


def clock(micros: int) -> str:
    """Return a time of day as text."""
    seconds, rest = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{rest:06d}".rstrip("0") if rest else "")


def instant(micros: int, zone: str = "") -> bytes:
    """Return an instant, in microseconds since 1970, as text."""
    if abs(micros) >= _FOREVER - 1:
        return b"infinity" if micros > 0 else b"-infinity"
    days, rest = divmod(micros, 86_400_000_000)
    day, bc, _ = _day(days).partition(" BC")
    return f"{day} {clock(rest)}{zone}{bc}".encode()


def _local_instant(micros: int, zone: ZoneInfo) -> bytes:
    """Return an instant as text in ``zone``; outside of the years that Python has, with the offset of the nearest of them."""
    if abs(micros) >= _FOREVER - 1:
        return instant(micros)
    near = min(max(micros // 1_000_000, _FIRST_SECOND), _LAST_SECOND)
    offset = datetime.fromtimestamp(near, zone).utcoffset() or timedelta()
    seconds = offset.days * 86_400 + offset.seconds
    minutes, rest = divmod(abs(seconds), 60)
    shown = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}" + (f":{minutes % 60:02d}" if minutes % 60 or rest else "")
    return instant(micros + seconds * 1_000_000, shown + (f":{rest:02d}" if rest else ""))


def _interval_parts(v: Any) -> tuple[int, int, int]:
    """Return (months, days, microseconds)."""
    if isinstance(v, timedelta):
        return 0, v.days, v.seconds * 1_000_000 + v.microseconds
    months, days, nanos = v
    return months, days, nanos // 1000


def _interval(v: Any) -> bytes:
    months, days, micros = _interval_parts(v)
    parts = [f"{months} mons"] if months else []
    if days:
        parts.append(f"{days} days")
    if micros or not parts:
        parts.append(("-" if micros < 0 else "") + clock(abs(micros)))
    return " ".join(parts).encode()


def jsonable(value: Any) -> Any:
    """Return ``value`` as JSON has it: NaN, infinities, decimals, instants and bytes are text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + value.hex()
    return value.isoformat() if isinstance(value, (date, datetime, time)) else str(value)


def _json(v: Any) -> bytes:
    return v.encode() if isinstance(v, str) else json.dumps(jsonable(v), ensure_ascii=False).encode("utf-8", "replace")


def _text(v: str) -> bytes:
    return v.encode("utf-8", "replace")


_TEXT: Final[dict[int, Callable[[Any], bytes]]] = {
    BOOL: lambda v: b"t" if v else b"f",
    BYTEA: lambda v: b"\\x" + v.hex().encode(),
    **dict.fromkeys((INT2, INT4, INT8, OID), lambda v: b"%d" % v),
    TEXT: _text,
    JSON: _json,
    FLOAT4: _float4,
    FLOAT8: _float8,
    DATE: _date,
    TIME: lambda v: clock(v).encode(),
    TIMESTAMP: instant,
    TIMESTAMPTZ: lambda v: instant(v, "+00"),
    INTERVAL: _interval,
    NUMERIC: _numeric,
}


def _day_number(days: int) -> bytes:
    if abs(days) >= _FOREVER_DAYS:
        return struct.pack("!i", _FOREVER_DAYS if days > 0 else -(2**31))
    return _packed("!i", days - _DAYS_TO_2000)


def _instant_number(micros: int) -> bytes:
    if abs(micros) >= _FOREVER - 1:
        return struct.pack("!q", _FOREVER if micros > 0 else -(2**63))
    return _packed("!q", micros - MICROS_TO_2000)


def _interval_number(v: Any) -> bytes:
    months, days, micros = _interval_parts(v)
    return struct.pack("!qii", micros, days, months)


def _numeric_number(v: Decimal | int) -> bytes:
    sign, digits, exponent = Decimal(v).as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    text = ("".join(map(str, digits)) + "0" * max(0, exponent)).rjust(scale, "0")
    whole, part = text[: len(text) - scale], text[len(text) - scale :]
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    groups = [int((whole + part)[i : i + 4]) for i in range(0, len(whole) + len(part), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight if groups else 0, 0x4000 if sign else 0, scale, *groups)


def _packed(form: str, value: Any) -> bytes:
    try:
        return struct.pack(form, value)
    except struct.error as e:
        raise Refused("22008", f"the value {value} does not fit into PostgreSQL's type", "cast(... as varchar)") from e


_BINARY: Final[dict[int, Callable[[Any], bytes]]] = {
    BOOL: lambda v: b"\1" if v else b"\0",
    BYTEA: bytes,
    INT2: lambda v: struct.pack("!h", v),
    INT4: lambda v: struct.pack("!i", v),
    INT8: lambda v: struct.pack("!q", v),
    OID: lambda v: struct.pack("!I", v),
    TEXT: _text,
    JSON: _json,
    FLOAT4: lambda v: struct.pack("!f", v),
    FLOAT8: lambda v: struct.pack("!d", v),
    DATE: _day_number,
    TIME: lambda v: struct.pack("!q", v),
    TIMESTAMP: _instant_number,
    TIMESTAMPTZ: _instant_number,
    INTERVAL: _interval_number,
    NUMERIC: _numeric_number,
}


# The PostgreSQL types that the server supports, with their properties in ``pg_type``.


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
