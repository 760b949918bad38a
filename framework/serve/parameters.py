"""Convert parameters of prepared statements from the client's bytes to literals of the syntax tree.

A value becomes a literal node, never a piece of SQL text: DuckDB writes the text from the tree. A parameter without a type is a literal of
unknown type, as in PostgreSQL, and takes the type of what it is compared with.
"""

from __future__ import annotations

import re
import struct
from datetime import date, timedelta
from typing import Any, Final

from skyband.framework.serve import values as pg
from skyband.framework.serve.wire import BINARY, Refused, decoded

Node = dict[str, Any]

_CASTS: Final = {
    pg.BOOL: "BOOLEAN", pg.BYTEA: "BLOB", pg.INT8: "BIGINT", pg.INT2: "SMALLINT", pg.INT4: "INTEGER", 26: "BIGINT", pg.TEXT: "VARCHAR",
    1043: "VARCHAR", 1042: "VARCHAR", 18: "VARCHAR", 19: "VARCHAR", pg.JSON: "VARCHAR", 3802: "VARCHAR", pg.FLOAT4: "FLOAT",
    pg.FLOAT8: "DOUBLE", pg.DATE: "DATE", pg.TIME: "TIME", pg.TIMESTAMP: "TIMESTAMP", pg.TIMESTAMPTZ: "TIMESTAMPTZ",
    pg.INTERVAL: "INTERVAL", 2950: "UUID",
}  # fmt: skip
"""OID of a parameter's type -> DuckDB's type."""
_ARRAYS: Final = {
    1000: pg.BOOL, 1005: pg.INT2, 1007: pg.INT4, 1016: pg.INT8, 1009: pg.TEXT, 1015: 1043, 1014: 1042, 1021: pg.FLOAT4, 1022: pg.FLOAT8,
    1182: pg.DATE, 1115: pg.TIMESTAMP, 1185: pg.TIMESTAMPTZ, 1231: pg.NUMERIC,
}  # fmt: skip
"""OID of an array's type -> that of its elements."""
_UNKNOWN: Final = (0, 705)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ELEMENT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"\\]+)')


_ELEMENTS: Final = 20_000
"""Elements of an array at most: a statement has no more parts."""


def literal(raw: bytes | None, oid: int, form: int) -> Node:
    """Return the node of one value. Raises Refused for a type or a value that the server does not know."""
    if oid not in _CASTS and oid not in _ARRAYS and oid != pg.NUMERIC and oid not in _UNKNOWN:
        raise Refused("0A000", f"parameters of the type with OID {oid} are not taken", "send the value as text")
    if raw is None:
        return constant("NULL_LITERAL", "") if oid not in _CASTS else cast(constant("NULL_LITERAL", ""), _CASTS[oid])
    if form == BINARY and oid in _ARRAYS:
        raise Refused("0A000", "arrays in the binary format are not taken", "send the array as text")
    text = _from_binary(raw, oid) if form == BINARY else decoded(raw)
    if oid in _ARRAYS:
        return function("list_value", [_scalar(e, _ARRAYS[oid]) for e in _elements(text)])
    return _scalar(text, oid)


def array(text: str) -> Node:
    """Return the node of an array of texts, as PostgreSQL writes one."""
    return function("list_value", [_scalar(e, 0) for e in _elements(text)])


def _scalar(text: str | None, oid: int) -> Node:
    if text is None:
        return constant("NULL_LITERAL", "")
    if "\0" in text:
        raise Refused("22021", "a text with a zero byte is not taken")
    if oid in _UNKNOWN:
        return constant("STRING", text)
    if oid == pg.NUMERIC:
        if not _NUMBER.fullmatch(text.strip()):
            raise Refused("22P02", "a numeric parameter is no number")
        negative, digits = text.strip().startswith("-"), text.strip().lstrip("+-")
        kind = "INTEGER" if digits.isdigit() else "NUMERIC"
        number = constant(kind, digits)
        return function("-", [number], operator=True) if negative else number
    if oid == pg.BYTEA:
        text = _escaped(text)
    return cast(constant("STRING", text), _CASTS[oid])


def _escaped(text: str) -> str:
    """Return PostgreSQL's text of bytes as DuckDB's: ``\\x0102`` is ``\\x01\\x02`` there."""
    if not text.startswith("\\x"):
        raise Refused("22P02", "bytes are taken in the hex format only (\\x...)")
    try:
        return "".join(f"\\x{b:02X}" for b in bytes.fromhex(text[2:]))
    except ValueError as e:
        raise Refused("22P02", "the bytes of a parameter are not in the hex format") from e


def _elements(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array in PostgreSQL's text format."""
    if not (text.startswith("{") and text.endswith("}")):
        raise Refused("22P02", "an array parameter has to be written as {a,b}")
    inner, made, at = text[1:-1], list[str | None](), 0
    while at < len(inner):
        if len(made) >= _ELEMENTS:
            raise Refused("54000", f"an array parameter has at most {_ELEMENTS} elements")
        found = _ELEMENT.match(inner, at)
        if found is None:
            raise Refused("22P02", "an array parameter is malformed, or has more than one dimension")
        quoted, bare = found.groups()
        made.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else None if bare.upper() == "NULL" else bare)
        at = found.end() + 1
        if inner[found.end() : at] not in (",", ""):
            raise Refused("22P02", "an array parameter is malformed")
    return made


def _from_binary(raw: bytes, oid: int) -> str:
    try:
        if oid in (pg.INT2, pg.INT4, pg.INT8, 26, pg.FLOAT4, pg.FLOAT8):
            form = {pg.INT2: "!h", pg.INT4: "!i", pg.INT8: "!q", 26: "!I", pg.FLOAT4: "!f", pg.FLOAT8: "!d"}[oid]
            return str(struct.unpack(form, raw)[0])
        if oid == pg.BOOL:
            return "true" if struct.unpack("!?", raw)[0] else "false"
        if oid == pg.BYTEA:
            return "\\x" + raw.hex()
        if oid == pg.DATE:
            return (date(2000, 1, 1) + timedelta(days=struct.unpack("!i", raw)[0])).isoformat()
        if oid in (pg.TIME, pg.TIMESTAMP, pg.TIMESTAMPTZ):
            micros = int(struct.unpack("!q", raw)[0])
            if oid == pg.TIME:
                return pg.clock(micros)
            return pg.instant(micros + pg.MICROS_TO_2000, "+00" if oid == pg.TIMESTAMPTZ else "").decode()
        if oid == 2950 and len(raw) == 16:
            return raw.hex()
        if oid == pg.NUMERIC:
            return _number(raw)
        if oid == pg.INTERVAL:
            micros, days, months = struct.unpack("!qii", raw)
            return f"{months} months {days} days {micros} microseconds"
    except (struct.error, OverflowError, ValueError) as e:
        raise Refused("22P03", "a parameter in the binary format has the wrong length or value") from e
    if oid == 2950:
        raise Refused("22P03", "a parameter in the binary format has the wrong length")
    return decoded(raw)


def _number(raw: bytes) -> str:
    count, weight, sign, scale = struct.unpack("!hhHh", raw[:8])
    groups = struct.unpack(f"!{count}h", raw[8:])
    if sign not in (0, 0x4000) or abs(weight) > 5000 or scale > 5000:
        raise ValueError("no number")
    digits = "".join(f"{g:04d}" for g in groups)
    whole = digits[: 4 * (weight + 1)].ljust(4 * max(0, weight + 1), "0") if weight >= 0 else ""
    part = digits[4 * (weight + 1) :] if weight >= 0 else "0" * (4 * (-weight - 1)) + digits
    part = part.ljust(scale, "0")[:scale]
    return ("-" if sign else "") + (whole or "0") + (f".{part}" if part else "")


def constant(kind: str, text: str) -> Node:
    """Return the node of a literal."""
    return {**node("CONSTANT", "VALUE_CONSTANT"), "literal": {"kind": kind, "text": text}}


def cast(child: Node, kind: str) -> Node:
    """Return the node of ``child`` cast to the type ``kind``."""
    named = {**node("TYPE", "TYPE"), "catalog": "", "schema": "", "type_name": kind, "children": [], "qualified_name": {"path": [kind]}}
    return {**node("CAST", "OPERATOR_CAST"), "child": child, "try_cast": False, "type_expr": named}


def function(name: str, arguments: list[Node], operator: bool = False) -> Node:
    """Return the node of a call."""
    return {
        **node("FUNCTION", "FUNCTION"),
        "function_name": name, "schema": "", "catalog": "", "filter": None, "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
        "distinct": False, "is_operator": operator, "export_state": False, "qualified_name": {"path": [name]},
        "arguments": [{"name": "", "expression": a} for a in arguments],
    }  # fmt: skip


def node(kind: str, of: str) -> Node:
    """Return what all nodes of expressions have."""
    return {"class": kind, "type": of, "alias": "", "query_location": 0, "query_location_length": 0}
