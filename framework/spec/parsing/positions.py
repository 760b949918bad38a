"""Positions in the text of a spec: lines, columns, and the map from characters of a value to those of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from skyband.framework.base.errors import Where

LIVE: Final = "live query "
"""How the names of the texts of live queries begin, which are no files."""

_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_SECRET: Final = re.compile(
    r"passw|passphrase|secret|token$|token[_.-]|credential|private|sasl|jaas|(^|[^a-z])key($|[^a-z])|key$", re.IGNORECASE
)
_LOOKS_SECRET: Final = re.compile(
    r"""((?:passw|passphrase|secret|token|credential|private|sasl|jaas|key)[\w.-]{0,60}["']?\s{0,60}:\s{0,60})("[^"]*"?|'[^']*'?|[^,}\s]+)""",
    re.IGNORECASE,
)
_ESCAPE: Final = {"x": 4, "u": 6, "U": 10}


def is_secret(path: tuple[str | int, ...]) -> bool:
    """Return True if the name of the value at ``path`` is that of a secret (password, token, key, ...); a column's name never is."""
    match path:
        case ("transform", *_) | ("source", "schema", *_) | ("sources", _, "schema", *_) | ("lookups", _, "schema" | "match" | "take", *_):
            return False
        case (*_, str(name)):
            return _SECRET.search(name) is not None
    return False


class Key(NamedTuple):
    """Where a field name stands, 0-based, in ``text``, which need not be its value's."""

    text: SourceText
    line: int
    col: int
    length: int

    @property
    def where(self) -> Where:
        """Return the position for a message."""
        return self.text.where(self.line, self.col, self.length)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands in ``text``, 0-based; ``key`` is where its field name does, ``raw`` and ``style`` as written (scalars).

    ``value`` is what parameters leave of it, ``filled`` whether there were any.
    """

    text: SourceText
    line: int
    col: int
    end_line: int
    end_col: int
    key: Key | None
    raw: str
    style: str
    value: str
    secret: bool
    variables: bool
    filled: bool = False

    @property
    def where(self) -> Where:
        """Return the position for a message."""
        return self.text.where(self.line, self.col, self.length)

    @property
    def length(self) -> int:
        """Characters on the first line."""
        return self.end_col - self.col if self.end_line == self.line else max(1, len(self.raw.split("\n", 1)[0].rstrip()))


class SourceText:
    """The file's text by lines, with secret values masked when lines are shown."""

    def __init__(self, file: str, text: str, careful: bool = False) -> None:
        self.file = file
        self.lines = _BREAK.split(text)
        self.careful = careful  # before the text is parsed: mask whatever looks like a secret's value
        self._masked: set[tuple[int, int, int, int]] = set()
        self._masks: dict[int, list[tuple[int, int, int, int]]] = {}
        self._shown: dict[int, str] = {}

    def mask(self, place: Place) -> None:
        """Mask the value at ``place``. O(its lines)."""
        span = (place.line, place.col, place.end_line, place.end_col)
        if span not in self._masked:
            self._masked.add(span)
            for line in range(place.line, place.end_line + 1):
                self._masks.setdefault(line, []).append(span)
                self._shown.pop(line, None)

    def between(self, line: int, col: int, end_line: int, end_col: int) -> str:
        """Return the text between two positions, lines joined by newlines."""
        if line >= len(self.lines):
            return ""
        if line == end_line:
            return self.lines[line][col:end_col]
        middle = self.lines[line + 1 : end_line]
        last = self.lines[end_line][:end_col] if end_line < len(self.lines) else ""
        return "\n".join([self.lines[line][col:], *middle, last])

    def shown(self, line: int) -> str | None:
        """Return line ``line`` (0-based) with secrets as ``*``, or None beyond the end."""
        if line >= len(self.lines):
            return None
        if self.careful:  # recovery still edits lines
            return self._without_secrets(line)
        if line not in self._shown:
            self._shown[line] = self._without_secrets(line)
        return self._shown[line]

    def _without_secrets(self, line: int) -> str:
        text = self.lines[line]
        if line in self._masks:
            shown = list(text)
            for first, col, last, end_col in self._masks[line]:
                start, end = col if line == first else 0, min(end_col, len(text)) if line == last else len(text)
                shown[start:end] = "*" * (end - start)
            text = "".join(shown)
        return _LOOKS_SECRET.sub(lambda m: m.group(1) + "*" * len(m.group(2)), text) if self.careful else text

    def where(self, line: int, col: int, length: int = 1) -> Where:
        """A ``Where`` of a 0-based line and column."""
        return Where(self.file, line + 1, col + 1, max(1, length), self.shown(line))

    def inside(self, place: Place, start: int, end: int) -> tuple[int, int, int] | None:
        """(line, column, length) of characters ``start`` to ``end`` of a scalar's value, or None if that is unknown."""
        length = max(1, end - start)
        if place.line == place.end_line:
            offsets = _offsets(place)
            if offsets is None or start >= len(offsets):
                return None
            last = offsets[min(end, len(offsets) - 1)]
            return place.line, place.col + offsets[start], max(1, last - offsets[start])
        # Several lines: find the same occurrence of the same text.
        needle = place.value[start:end].split("\n", 1)[0].rstrip()
        if not needle:
            return None
        nth = place.value[: start + len(needle)].count(needle)
        at = -1
        for _ in range(max(nth, 1)):
            at = place.raw.find(needle, at + 1)
            if at < 0:
                return None
        before = place.raw[:at]
        line = place.line + before.count("\n")
        col = at - (before.rfind("\n") + 1) + (place.col if "\n" not in before else 0)
        return line, col, min(length, len(needle))


def _offsets(place: Place) -> list[int] | None:
    """For a scalar on one line: offset in ``raw`` of every character of the value, and of its end."""
    raw = place.raw
    if place.style == "":
        lead = raw.find(place.value)
        return [lead + i for i in range(len(place.value) + 1)] if lead >= 0 else None
    if place.style not in {"'", '"'}:
        return None
    at = raw.find(place.style) + 1
    if at == 0:
        return None
    offsets = []
    while at < len(raw) - 1:
        offsets.append(at)
        if place.style == "'" and raw[at] == "'":
            at += 2
        elif place.style == '"' and raw[at] == "\\":
            at += _ESCAPE.get(raw[at + 1], 2)
        else:
            at += 1
    offsets.append(at)
    return offsets if len(offsets) == len(place.value) + 1 else None
