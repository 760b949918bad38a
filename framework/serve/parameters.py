"""Convert parameters of prepared statements from the client's bytes to literals of the syntax tree.

A value becomes a literal node, never a piece of SQL text: DuckDB writes the text from the tree. A parameter without a type is a literal of
unknown type, as in PostgreSQL, and takes the type of what it is compared with.
"""

from __future__ import annotations

import re
import struct
from datetime import date, timedelta
from typing import Any, Final

from skyband.framework.serve.protocol import values as pg
from skyband.framework.serve.protocol.wire import BINARY, Refused, decoded

Node = dict[str, Any]

_CASTS: Final = {
    pg.BOOL: "BOOLEAN", pg.BYTEA: "BLOB", pg.INT8: "BIGINT", pg.INT2: "SMALLINT", pg.INT4: "INTEGER", pg.OID: "UINTEGER",
    pg.TEXT: "VARCHAR",
    1043: "VARCHAR", 1042: "VARCHAR", 18: "VARCHAR", 19: "VARCHAR", pg.JSON: "VARCHAR", 3802: "VARCHAR", pg.FLOAT4: "FLOAT",
    pg.FLOAT8: "DOUBLE", pg.DATE: "DATE", pg.TIME: "TIME", pg.TIMESTAMP: "TIMESTAMP", pg.TIMESTAMPTZ: "TIMESTAMPTZ",
    pg.INTERVAL: "INTERVAL", pg.UUID: "UUID",
}  # fmt: skip
"""OID of a parameter's type -> DuckDB's type."""
_UNKNOWN: Final = (0, 705)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ELEMENT: Final = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*|([^,{}"\\]+)')
_LENGTH: Final = "an array parameter in the binary format has the wrong length"
_ELEMENTS: Final = 20_000
"""Elements of an array at most: a statement has no more parts."""


def literal(raw: bytes | None, oid: int, form: int) -> Node:
    """Return the node of one value. Raises Refused for a type or a value that the server does not know."""
    element = pg.ELEMENTS.get(oid)
    if not is_taken(oid):
        raise Refused("0A000", f"parameters of the type with OID {oid} are not taken", "send the value as text")
    if raw is None:
        null = constant("NULL_LITERAL", "")
        if element in _CASTS:
            return cast(null, _CASTS[element], many=True)
        return cast(null, _CASTS[oid]) if oid in _CASTS else null
    if element is not None:
        elements = _binary_elements(raw, element) if form == BINARY else _elements(decoded(raw))
        made = function("list_value", [_scalar(e, element) for e in elements])
        # The elements have the type; a list without any needs it.
        return cast(made, _CASTS[element], many=True) if element in _CASTS else made
    return _scalar(_from_binary(raw, oid) if form == BINARY else decoded(raw), oid)


def is_taken(oid: int) -> bool:
    """Return whether parameters of the type are taken."""
    return any(of in _CASTS or of in _UNKNOWN or of == pg.NUMERIC for of in (oid, pg.ELEMENTS.get(oid)))


def array(text: str) -> Node:
    """Return the node of an array of texts, as PostgreSQL writes one."""
    return function("list_value", array_elements(text))


def array_elements(text: str) -> list[Node]:
    """Return the nodes of the elements of an array of texts, as PostgreSQL writes one."""
    return [_scalar(e, 0) for e in _elements(text)]


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
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise Refused("22P02", "an array parameter has to be written as {a,b}")
    inner, made, at = text[1:-1].strip(), list[str | None](), 0
    while inner:
        if len(made) >= _ELEMENTS:
            raise Refused("54000", f"an array parameter has at most {_ELEMENTS} elements")
        found = _ELEMENT.match(inner, at)
        if found is None or not (found[1] is not None or found[2].strip()):
            raise Refused("22P02", "an array parameter is malformed, or has more than one dimension")
        quoted, bare = found[1], (found[2] or "").strip()
        made.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else None if bare.upper() == "NULL" else bare)
        at = found.end()
        if at == len(inner):
            break
        if inner[at] != ",":
            raise Refused("22P02", "an array parameter is malformed")
        at += 1
    return made


def _binary_elements(raw: bytes, element: int) -> list[str | None]:
    """Return the elements of an array of one dimension in PostgreSQL's binary format, as texts."""
    try:
        dimensions, _, kind = struct.unpack_from("!iiI", raw)
        if dimensions == 0 and len(raw) == 12:
            return []
        count, at = struct.unpack_from("!i", raw, 12)[0], 20
        if dimensions != 1 or count < 0 or kind != element:
            raise Refused("22P03", "an array parameter in the binary format has more than one dimension, or elements of another type")
        if count > _ELEMENTS:
            raise Refused("54000", f"an array parameter has at most {_ELEMENTS} elements")
        made = list[str | None]()
        for _ in range(count):
            size = int(struct.unpack_from("!i", raw, at)[0])
            at += 4
            if size < -1 or at + max(size, 0) > len(raw):
                raise Refused("22P03", _LENGTH)
            made.append(None if size == -1 else _from_binary(raw[at : at + size], element))
            at += max(size, 0)
    except struct.error as e:
        raise Refused("22P03", _LENGTH) from e
    if at != len(raw):
        raise Refused("22P03", _LENGTH)
    return made


def _from_binary(raw: bytes, oid: int) -> str:
    try:
        if oid in (pg.INT2, pg.INT4, pg.INT8, pg.OID, pg.FLOAT4, pg.FLOAT8):
            form = {pg.INT2: "!h", pg.INT4: "!i", pg.INT8: "!q", pg.OID: "!I", pg.FLOAT4: "!f", pg.FLOAT8: "!d"}[oid]
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


def cast(child: Node, kind: str, many: bool = False) -> Node:
    """Return the node of ``child`` cast to the type ``kind``, or to a list of it."""
    named = {**node("TYPE", "TYPE"), "catalog": "", "schema": "", "type_name": kind, "children": [], "qualified_name": {"path": [kind]}}
    if many:
        named = {**named, "type_name": "list", "children": [named], "qualified_name": {"path": ["list"]}}
    return {**node("CAST", "OPERATOR_CAST"), "child": child, "try_cast": False, "type_expr": named}


def decimal(child: Node, scale: int) -> Node:
    """Return the node of ``child`` cast to a decimal of 38 digits, ``scale`` of them behind the point."""
    made = cast(child, "DECIMAL")
    made["type_expr"]["children"] = [constant("INTEGER", "38"), constant("INTEGER", str(scale))]
    return made


def subquery(columns: list[Node], alias: str, names: list[str]) -> Node:
    """Return the node of a relation with one row of ``columns``, or with as many as sets in them have."""
    query = {"node": _select(columns), "named_param_map": []}
    return {"type": "SUBQUERY", "alias": alias, "sample": None, **_PLACE, "subquery": query, "column_name_alias": names}


def scalar(column: Node) -> Node:
    """Return the node of a query of one value."""
    query = {"node": _select([column]), "named_param_map": []}
    return {**node("SUBQUERY", "SUBQUERY"), "subquery_type": "SCALAR", "subquery": query, "child": None, "comparison_type": "INVALID"}


_PLACE: Final = {"query_location": 0, "query_location_length": 0}


def _select(columns: list[Node]) -> Node:
    return {
        "type": "SELECT_NODE", "modifiers": [], "cte_map": {"map": []}, "select_list": columns, "where_clause": None,
        "from_table": {"type": "EMPTY", "alias": "", "sample": None, **_PLACE}, "group_expressions": [], "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING", "having": None, "sample": None, "qualify": None,
    }  # fmt: skip


def case(condition: Node, then: Node) -> Node:
    """Return the node of ``then`` where ``condition`` is true, null elsewhere."""
    checks = [{"when_expr": condition, "then_expr": then}]
    return {**node("CASE", "CASE_EXPR"), "case_checks": checks, "else_expr": constant("NULL_LITERAL", "")}


def coalesce(children: list[Node]) -> Node:
    """Return the node of the first of ``children`` that is not null."""
    return {**node("OPERATOR", "OPERATOR_COALESCE"), "children": children}


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
