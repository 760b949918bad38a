"""Guesses from its first rows how a CSV file is written: title lines, marks in numbers, escaped quotes."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from skyband.framework.sources.looks import fits_text, stands_for_null
from skyband.framework.sources.text.options import number_form

ENCODINGS: Final = ("utf-8-sig", "windows-1252", "iso-8859-1")
"""Encodings to try in this order; the last one reads any bytes."""
_MOST_TITLES: Final = 50
GROUPS: Final = (".", " ", "'", "\u2019", "\u00a0", "\u202f", "_")
"""Marks between groups of three digits beside a decimal comma."""


def title_lines(head: Sequence[str], separator: str) -> int:
    """Return the number of lines before the header, the first line with as many cells as most lines."""
    counts = [len(next(csv.reader([line], delimiter=separator), [])) for line in head]
    wide = Counter(n for n in counts if n > 1)
    if not wide:
        return 0
    most, lines = wide.most_common(1)[0]
    first = counts.index(most)
    if lines < 2 or first > _MOST_TITLES or any(n > 1 for n in counts[:first]):
        return 0
    return max((i + 1 for i in range(first) if counts[i]), default=0)


def number_marks(columns: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the options ``decimal`` and ``thousands`` with which most columns of numbers parse that otherwise do not.

    Where a comma may be either (``1,000``), it groups thousands. Marks for null do not count, nor do a few other texts.
    """
    filled = [numbers_of(column) for column in columns]
    plain = [column for column in filled if column and all(fits_text("double", c) for c in column)]
    found: list[tuple[int, dict[str, str]]] = []
    for point, group in ((".", ","), (",", None), *((",", g) for g in GROUPS)):
        form = re.compile(number_form(point, group))
        mark = "," if point == "," else group or ""
        mine = [c for c in filled if c and c not in plain and any(mark in v for v in c) and all(form.fullmatch(v) for v in c)]
        if mine and all(form.fullmatch(v) for column in plain for v in column):
            found.append((len(mine), ({"decimal": ","} if point == "," else {}) | ({"thousands": group} if group is not None else {})))
    return max(found, key=lambda f: f[0], default=(0, {}))[1]


def numbers_of(column: Sequence[str]) -> list[str]:
    """Return the values of a column without those that stand for null, and without texts that have no digit if these are few."""
    filled = [c.strip() for c in column if c.strip()]
    there = [c for c in filled if not stands_for_null(c)]
    kept = [c for c in there if any(d.isdigit() for d in c)]
    return kept if len(there) - len(kept) <= few(there) else there


def few(values: Sequence[object]) -> int:
    """Return the number of ``values`` that may be of another kind than their column: one of a hundred."""
    return len(values) // 100


def plain_number(text: str, marks: dict[str, str]) -> str:
    """Return a number without its ``marks``, any other text unchanged."""
    point, group = marks.get("decimal", "."), marks.get("thousands")
    bare = text.strip()
    if re.fullmatch(number_form(point, group), bare) is None:
        return text
    return (bare.replace(group, "") if group is not None else bare).replace(point, ".")


def slashed(head: Sequence[str]) -> bool:
    """Return True if quotes inside quotes are escaped by a backslash and none is doubled."""
    return any('\\"' in line for line in head) and not any(re.search(r'[^,;\t|"]""[^,;\t|"\r\n]', line) for line in head)
