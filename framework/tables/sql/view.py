"""The definition of a view, and helpers for column lists in its SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A view. ``sql`` is a ``select`` in DuckDB's SQL over the tables ``reads`` (``dialects`` translates it).

    ``columns``: the columns that no table has, with meaning and unit. ``source_keys``: for a view joined to the source, a
    ``select`` of the keys of its rows; "" for others.
    """

    name: str
    comment: str
    sql: str
    reads: tuple[str, ...]
    columns: Mapping[str, str]
    source_keys: str = ""


def free(taken: Iterable[str], *names: str) -> list[str]:
    """Return ``names``, each with underscores appended until no column in ``taken`` has it."""
    used, unique = {t.lower() for t in taken}, []
    for name in names:
        unused = name
        while unused.lower() in used:
            unused += "_"
        unique.append(unused)
        used.add(unused.lower())
    return unique


def quoted(name: str) -> str:
    """Return a quoted name."""
    return '"' + name.replace('"', '""') + '"'


def listed(columns: Iterable[str]) -> str:
    """Return ``columns`` separated by commas, each once."""
    return ", ".join(quoted(c) for c in dict.fromkeys(columns))


def by(prefix: str, columns: Iterable[str]) -> str:
    """Return ``columns`` with a comma after each."""
    return "".join(f"{prefix}{quoted(c)}, " for c in columns)


def same(a: str, b: str, columns: Iterable[str]) -> str:
    """Return the condition that two rows are equal in ``columns``."""
    return " and ".join(f"{a}.{quoted(c)} = {b}.{quoted(c)}" for c in columns) or "1 = 1"
