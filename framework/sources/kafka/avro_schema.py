"""A schema of Avro that a spec gives: rebuilt from what is known of it, and what its fields may be read as. Imports no Spark.

Nothing else of the text reaches the library: there are properties that name classes (``java-class``), and defaults that are parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

MOST: Final = 100_000
"""Characters of a schema."""
_DEEP: Final = 20
_NAME: Final = re.compile(r"(?!skyband_)[A-Za-z_][A-Za-z0-9_]{0,99}")
_READ: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("string",), "enum": ("string",), "int": ("int", "bigint", "double"), "long": ("bigint",), "float": ("float", "double"),
    "double": ("double",), "boolean": ("boolean",), "int/date": ("date",), "long/timestamp-millis": ("timestamp",),
    "long/timestamp-micros": ("timestamp",), "array of string": ("array<string>",), "array of int": ("array<int>", "array<bigint>"),
    "array of long": ("array<bigint>",), "array of float": ("array<float>", "array<double>"), "array of double": ("array<double>",),
}  # fmt: skip
"""A field's type (with its logical type, if that counts) -> what a column of it may be declared as: nothing is lost by any."""
_LOGICAL: Final = frozenset(name for name in _READ if "/" in name)
_PLAIN: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def rebuilt(text: str) -> dict[str, Any]:
    """The record that ``text`` (JSON) declares, with nothing but names, types and logical types. ValueError, in words, if it is none.

    O(its size).
    """
    if len(text) > MOST:
        raise ValueError(f"longer than {MOST:,} characters")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ValueError("not JSON") from e
    made = _type(said, set(), 0)
    if not isinstance(made, dict) or made["type"] != "record":
        raise ValueError("not a record")
    return made


def columns(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Field of a rebuilt record -> the types that a column of it may have; none if no column can be made of it."""
    return {f["name"]: _READ.get(_said(f["type"]), ()) for f in schema["fields"]}


def _said(type_: Any) -> str:
    """A field's type in a word or two; null beside it makes no difference."""
    if isinstance(type_, list):
        others = [t for t in type_ if t != "null"]
        return _said(others[0]) if len(others) == 1 else "union"
    if isinstance(type_, str):
        return type_
    name = f"{type_['type']}/{type_.get('logicalType')}"
    return f"array of {_said(type_['items'])}" if type_["type"] == "array" else name if name in _LOGICAL else str(type_["type"])


def _type(said: Any, known: set[str], depth: int, in_union: bool = False) -> Any:
    if depth > _DEEP:
        raise ValueError(f"deeper than {_DEEP} levels")
    if isinstance(said, str):
        # Outside a union nothing at all would stand for it: a few bytes could claim a billion of them.
        if (said in _PLAIN and (said != "null" or in_union)) or said in known:
            return said
        raise ValueError(f"'{said[:64]}' is no type that is known there")
    if isinstance(said, list):
        return [_type(t, known, depth + 1, in_union=True) for t in said]
    if not isinstance(said, dict):
        raise ValueError("a type is a name, a list of types, or an object")
    kind = said.get("type")
    if not isinstance(kind, str):
        return _type(kind, known, depth + 1, in_union)
    if (kind in _PLAIN and kind != "null") or kind in ("array", "map"):
        inner = {"array": "items", "map": "values"}.get(kind)
        made: dict[str, Any] = {"type": kind}
        if inner is not None:
            made[inner] = _type(said.get(inner), known, depth + 1)
        return made | _logical(kind, said)
    if kind in ("record", "enum", "fixed"):
        return _named(kind, said, known, depth)
    return _type(kind, known, depth + 1, in_union)


def _named(kind: str, said: dict[str, Any], known: set[str], depth: int) -> dict[str, Any]:
    name = _name(said.get("name"))
    if name in known:
        raise ValueError(f"two types named '{name}'")
    if kind == "enum":
        made: dict[str, Any] = {"symbols": [_name(s) for s in _list(said, "symbols")]}
    elif kind == "fixed":
        size = said.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= 1_000_000:
            raise ValueError(f"the fixed '{name}' needs a size")
        made = {"size": size}
    else:
        fields = [f for f in _list(said, "fields") if isinstance(f, dict)]
        made = {"fields": [{"name": _name(f.get("name")), "type": _type(f.get("type"), known, depth + 1)} for f in fields]}
        if len(fields) != len(said["fields"]) or len({f["name"] for f in made["fields"]}) != len(fields):
            raise ValueError(f"fields of '{name}' need names, each its own")
    # Only now: a type that holds itself has no columns.
    known.add(name)
    return {"type": kind, "name": name, **made}


def _logical(kind: Any, said: dict[str, Any]) -> dict[str, str]:
    name = f"{kind}/{said.get('logicalType')}"
    return {"logicalType": name.partition("/")[2]} if name in _LOGICAL else {}


def _list(said: dict[str, Any], what: str) -> list[Any]:
    found = said.get(what)
    if not isinstance(found, list) or not found:
        raise ValueError(f"a type without {what}")
    return found


def _name(said: Any) -> str:
    # A name with a namespace is found by its last part, as long as no two are equal.
    if not isinstance(said, str) or _NAME.fullmatch(said.rpartition(".")[2]) is None:
        raise ValueError(f"'{str(said)[:64]}' is no name")
    return said.rpartition(".")[2]
