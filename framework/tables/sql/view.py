"""What a view is, and how its SQL spells columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """``sql`` is a ``select`` in DuckDB's SQL over the job's tables by name (``dialects`` has it for others); ``reads`` are these tables.

    ``columns``: own columns, which no table has, with their meaning and unit; the others are those of the table. ``wanted``: what a view
    joined to the source's rows looks for there, a ``select`` over the same tables; "" for the others.
    """

    name: str
    comment: str
    sql: str
    reads: tuple[str, ...]
    columns: Mapping[str, str]
    wanted: str = ""


def free(taken: Iterable[str], *names: str) -> list[str]:
    """``names``, each with underscores behind it if a user's column has it."""
    used, made = {t.lower() for t in taken}, []
    for name in names:
        unused = name
        while unused.lower() in used:
            unused += "_"
        made.append(unused)
        used.add(unused.lower())
    return made


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def listed(columns: Iterable[str]) -> str:
    """``columns`` with commas between, each once."""
    return ", ".join(quoted(c) for c in dict.fromkeys(columns))


def by(prefix: str, columns: Iterable[str]) -> str:
    """``columns`` with a comma behind each."""
    return "".join(f"{prefix}{quoted(c)}, " for c in columns)


def same(a: str, b: str, columns: Iterable[str]) -> str:
    """The condition that rows agree in ``columns``."""
    return " and ".join(f"{a}.{quoted(c)} = {b}.{quoted(c)}" for c in columns) or "1 = 1"
