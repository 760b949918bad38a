"""Split SQL text into statements and find their first words. Everything else is decided by the syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKENS: Final = re.compile(
    r"""(?P<line>--[^\n]*) | (?P<block>/\*) | (?P<text>[eE]?'(?:[^']|'')*'?) | (?P<name>"(?:[^"]|"")*"?)
    | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$) | (?P<end>;) | (?P<word>\w+) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"[eE]'(?:[^'\\]|''|\\.)*'?", re.DOTALL)


def split(sql: str) -> list[str]:
    """Return the statements of ``sql``, without comments before and behind them; empty ones are left out. O(length)."""
    statements, parts = list[str](), list[str]()
    for kind, start, end in _parts(sql):
        if kind in ("line", "block"):
            parts.append(" ")
        elif kind == "end":
            statements.append("".join(parts).strip())
            parts = []
        else:
            parts.append(sql[start:end])
    return [s for s in (*statements, "".join(parts).strip()) if s]


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a statement: its kind (``word``, ``name`` and ``text`` are those in quotes, ``other``), its text and its place."""

    kind: str
    text: str
    start: int
    end: int


def tokens(sql: str) -> list[Token]:
    """Return the parts of one statement as ``split`` returns it, without blanks. O(length)."""
    return [Token(kind, sql[start:end], start, end) for kind, start, end in _parts(sql) if not sql[start:end].isspace()]


def _parts(sql: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, begin and end of each part of ``sql``: a comment, what is in quotes, a word, another character."""
    at = 0
    while at < len(sql):
        found = _TOKENS.match(sql, at)
        assert found is not None
        kind, end = str(found.lastgroup), found.end()
        if kind == "block":
            end = _block_end(sql, end)
        elif kind == "dollar":
            close = sql.find(found.group(), end)
            end = len(sql) if close < 0 else close + len(found.group())
        elif kind == "text" and found.group()[0] in "eE":
            escaped = _ESCAPED.match(sql, at)
            assert escaped is not None
            end = escaped.end()
        yield kind, at, end
        at = end


def _block_end(sql: str, at: int) -> int:
    """Return where a comment ends that begins before ``at``. PostgreSQL's may hold others."""
    depth = 1
    for found in re.compile(r"/\*|\*/").finditer(sql, at):
        depth += 1 if found.group() == "/*" else -1
        if not depth:
            return found.end()
    return len(sql)


def unquoted(value: str) -> str:
    """Return a value of ``set`` without its quotes."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace(value[0] * 2, value[0])
    return value
