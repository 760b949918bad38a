"""Edit the expected rows of tests in the text of a spec, and keep all other text, comments and layout.

Edits use the positions that the YAML parser reports. ``recording`` reads the result again and discards it unless it says exactly what was
to be recorded and nothing else changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from skyband.framework.spec.parsing.document import Path
from skyband.framework.spec.parsing.positions import Place

Lines = Sequence[str]
"""Rows in YAML, one per line."""

_INDENT: Final = "  "


class CannotEdit(Exception):
    """The text cannot be edited safely; the message says why."""


class Edits:
    """Edits of one text, located by the positions of its values before the edits."""

    def __init__(self, text: str, places: Mapping[Path, Place]) -> None:
        self.text = text
        self.places = places
        self.lines = re.split("(?<=\n)", text)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._edits: list[tuple[int, int, str]] = []

    def expect(self, test: int, table: str, rows: Lines) -> None:
        """Set the rows of ``table`` that test number ``test`` expects. Raises CannotEdit."""
        at: Path = ("tests", test)
        existing: Path = (*at, "expect", table)
        if existing in self.places:
            self._replace(existing, rows)
        elif (*at, "expect") in self.places:
            self._add((*at, "expect"), [f"{table}:{_flow(rows)}"] if not rows else [f"{table}:", *(f"{_INDENT}- {r}" for r in rows)])
        else:
            raise CannotEdit("the test is in another file")

    def first(self, test: int, tables: Mapping[str, Lines]) -> None:
        """Add the field ``expect`` to test number ``test``. Raises CannotEdit."""
        if ("tests", test) not in self.places:
            raise CannotEdit("the test is in another file")
        lines = ["expect:"]
        for table, rows in tables.items():
            lines += [f"{_INDENT}{table}:{_flow(rows)}"] if not rows else [f"{_INDENT}{table}:", *(f"{_INDENT * 2}- {r}" for r in rows)]
        self._add(("tests", test), lines)

    def made(self) -> str:
        """Return the text with all edits."""
        text = self.text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _offset(self, line: int, col: int) -> int:
        return self.starts[line] + col

    def _replace(self, path: Path, rows: Lines) -> None:
        """Replace the value at ``path`` in the layout of the old value."""
        place = self.places[path]
        if place.key is None:
            raise CannotEdit("a table's rows come from an alias")
        _, line, col, length = place.key
        start, end = self._offset(place.line, place.col), self._end(path)
        if self.text[start : start + 1] == "[":
            if rows and self._block(path[:-1]):
                # Replace everything after the key by a block list.
                tail = self.text[self._offset(line, col + length) : start]
                if "#" in tail or "\n" in tail:
                    raise CannotEdit("a list in brackets does not begin on the line of its name")
                begin = start - (len(tail) - len(tail.rstrip(" ")))
                self._edits.append((begin, end, "".join(f"{self.newline}{' ' * (col + 2)}- {r}" for r in rows)))
                return
            self._edits.append((start, end, _flow(rows).strip()))
            return
        if not rows:
            self._edits.append((start, end, "[]"))
            return
        indent = self.newline + " " * place.col
        self._edits.append((start, end, indent.join(f"- {r}" for r in rows)))

    def _add(self, path: Path, lines: Lines) -> None:
        """Append fields to the mapping at ``path``."""
        if not self._block(path):
            raise CannotEdit("a test is in braces on one line")
        end = self._end(path)
        behind = self.text.find("\n", end)
        place = self.places[path]
        made = [" " * place.col + text for text in lines]
        if behind < 0:
            self._edits.append((len(self.text), len(self.text), self.newline + self.newline.join(made) + self.newline))
        else:
            self._edits.append((behind + 1, behind + 1, self.newline.join(made) + self.newline))

    def _block(self, path: Path) -> bool:
        place = self.places[path]
        return self.text[self._offset(place.line, place.col) :][:1] not in ("{", "[")

    def _end(self, path: Path) -> int:
        """Return the end of the value at ``path``. PyYAML counts comments after a block as part of it."""
        place = self.places[path]
        inside = [p for p in self.places if len(p) == len(path) + 1 and p[: len(path)] == path]
        if self._block(path) and inside:
            return max(self._end(p) for p in inside)
        end = self._offset(place.end_line, place.end_col)
        return end if not place.style or place.style in "'\"" else len(self.text[:end].rstrip())


def _flow(rows: Lines) -> str:
    return " [" + ", ".join(rows) + "]"
