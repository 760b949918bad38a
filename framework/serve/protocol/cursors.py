"""Cursors: ``declare``, ``fetch``, ``move`` and ``close``, as PostgreSQL has them, forward only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from skyband.framework.serve.protocol.wire import Refused

NAME: Final = r'(?:[A-Za-z_]\w*|"(?:[^"]|"")+")'
_DECLARE: Final = re.compile(
    rf"declare\s+(?P<name>{NAME})(?P<kind>(?:\s+(?:binary|insensitive|asensitive|no\s+scroll|scroll))*)\s+cursor"
    r"(?:\s+(?P<hold>with|without)\s+hold)?\s+for\s+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER: Final = r"[+-]?\s*\d{1,18}"
_FETCH: Final = re.compile(
    rf"(?P<verb>fetch|move)\s+(?:(?P<way>next|prior|first|last|all|(?:forward|backward)\s+(?:{_NUMBER}|all)|forward|backward|"
    rf"(?:absolute|relative)\s+{_NUMBER}|{_NUMBER})\s+)?(?:(?:from|in)\s+)?(?P<name>{NAME})",
    re.IGNORECASE,
)
_CLOSE: Final = re.compile(rf"close\s+(?P<name>{NAME})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Declare:
    """A cursor over ``query``. ``binary``: its rows are sent in the binary format; ``hold``: it outlives its transaction."""

    name: str
    query: str
    binary: bool
    hold: bool


@dataclass(frozen=True, slots=True)
class Fetch:
    """Rows to take from a cursor, or, if ``move``, to pass over: after ``skip`` rows ``count`` rows, None for all that are left.

    ``row``: the row at which the cursor is to stand, in place of ``skip``; None if it counts from where it stands.
    """

    name: str
    move: bool
    count: int | None = 1
    skip: int = 0
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """A cursor to close, None for all."""

    name: str | None


def parsed(sql: str) -> Declare | Fetch | Close | None:
    """Return the command about cursors that ``sql`` is, None if it is none.

    Raises Refused 55000 for a cursor that is to go backward.
    """
    if found := _DECLARE.fullmatch(sql):
        hold = (found["hold"] or "").lower() == "with"
        return Declare(_folded(found["name"]), found["query"], "binary" in found["kind"].lower().split(), hold)
    if found := _CLOSE.fullmatch(sql):
        return Close(None if found["name"].lower() == "all" else _folded(found["name"]))
    if found := _FETCH.fullmatch(sql):
        return _fetch(_folded(found["name"]), found["verb"].lower() == "move", (found["way"] or "next").lower())
    return None


def _fetch(name: str, move: bool, way: str) -> Fetch:
    words = way.replace("+", " ").replace("-", " -").split()
    if len(words) > 1 and words[-2] == "-":
        words[-2:] = ["-" + words[-1]]
    kind = words[0] if words[0].isalpha() else "forward"
    last = words[-1]
    number = int(last) if last.lstrip("-").isdigit() else None
    if kind == "first":
        return Fetch(name, move, row=1)
    if kind == "absolute" and number is not None and number > 0:
        return Fetch(name, move, row=number)
    if kind == "relative" and number is not None and number > 0:
        return Fetch(name, move, skip=number - 1)
    if last == "all" and kind in ("all", "forward"):
        return Fetch(name, move, None)
    if kind in ("next", "forward") and (number is None or number > 0):
        return Fetch(name, move, 1 if number is None else number)
    raise Refused("55000", "a cursor goes forward only, by one row at least", f"fetch forward N from {name[:60]}")


def _folded(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
