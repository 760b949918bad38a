"""Columns that are members of objects: ``from: user.score`` names the member ``score`` of the object ``user``. Imports no Spark.

A column whose own name is ``user.score`` comes first: a row that has one needs no object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from skyband.framework.plan.model import SourceNode

FORMATS: Final = frozenset({"json", "parquet", "orc", "delta"})
"""Formats whose values may be objects."""
_ABSENT: Final = object()


class NoObject(ValueError):
    """Raised for a value that should have a member and is no object."""


def path_of(source: SourceNode, name: str) -> tuple[str, ...] | None:
    """Return the path from the outermost object that the source's column ``name`` may name; None if it only names a column."""
    parts = tuple(name.split("."))
    if source.format not in FORMATS or len(parts) < 2 or not all(parts):
        return None
    return None if any(str(f.source_name).lower() == parts[0].lower() for f in source.fields) else parts


def paths_of(source: SourceNode) -> list[tuple[tuple[str, ...], str]]:
    """Return (path, type) of the columns of ``source`` that may be members of objects."""
    return [(path, f.type) for f in source.fields if (path := path_of(source, str(f.source_name))) is not None]


def value_of(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of the column or member ``name`` of a row; None if it has neither. Raises NoObject."""
    return found_in(row, name)[0]


def found_in(row: Mapping[str, Any], name: str) -> tuple[Any, bool]:
    """Return (the value of the column ``name``, whether the row has it). Raises NoObject if a value on its path is no object."""
    if row.get(name) is not None:
        return row[name], True
    at: Any = row
    parts = name.split(".")
    if len(parts) > 1 and all(parts):
        for part in parts:
            if at is None:
                break
            if not isinstance(at, Mapping):
                raise NoObject
            at = at.get(part, _ABSENT)
            if at is _ABSENT:
                break
        else:
            return at, True
    return None, name in row


def tree(columns: Iterable[tuple[tuple[str, ...], str]]) -> dict[str, Any]:
    """Return members, (path, type), as nested objects: name -> type or object. A path that ends in an object is left out."""
    made: dict[str, Any] = {}
    for path, type_ in sorted(columns, key=lambda c: -len(c[0])):
        at = made
        for part in path[:-1]:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                break
        else:
            at.setdefault(path[-1], type_)
    return made
