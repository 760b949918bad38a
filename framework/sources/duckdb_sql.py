"""What the formats share that DuckDB reads: options without an effect on rows, text literals, column lists. Imports no DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from skyband.framework.plan.model import SourceNode

LOCKED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
"""Settings that confine statements: no files, no network, no extensions. They are set before the first statement, and locked."""

NEUTRAL: Final = frozenset({"pathglobfilter", "recursivefilelookup", "mergeschema", "maxcolumns", "maxcharspercolumn"})
"""Options that do not change the rows of a file that was taken."""


def text(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def list_of(files: Sequence[str]) -> str:
    """Return the names of files as an SQL list."""
    return f"[{', '.join(map(text, files))}]"


def columns_of(source: SourceNode, names: Sequence[str], more: Mapping[str, str] | None = None) -> str:
    """Return the columns ``names`` with their types as an SQL struct. ``more``: columns of other types than text."""
    types = {name: "VARCHAR" for name in names} | dict(more or {})
    types |= {str(f.source_name): "VARCHAR[]" for f in source.fields if f.type.startswith("array<")}
    return "{" + ", ".join(f"{text(name)}: '{type_}'" for name, type_ in types.items()) + "}"
