"""The parts of a report: figures, each with its numbers as a table and, where useful, a chart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.counts import number_text
from skyband.framework.base.errors import printable
from skyband.framework.tables.render import instant_text, values_of

CELL: Final = 120
"""The most characters of a text that are shown."""

_NUMBER: Final = re.compile(r"-?(\d[\d,]*(\.\d+)?(e[+-]\d+)?|inf)|nan")

Chart = dict[str, Any]
"""A chart as a Vega-Lite specification. No expression in it comes from a table."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure. ``said``: one sentence that describes it. ``left_out``: what the limits omit. ``text``: preformatted lines."""

    title: str
    said: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    chart: Chart | None = None
    left_out: str = ""
    text: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return for each column of the rows whether all that it has is numbers."""
        return tuple(all(not c or _NUMBER.fullmatch(c) for c in column) for column in zip(*self.rows, strict=True))


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the figures below it."""

    title: str
    said: str
    figures: list[Figure] = field(default_factory=list)


def text(value: Any) -> str:
    """Return a value as text for a cell: one line, no control characters, at most ``CELL`` characters."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    # Cut long texts first.
    shown = " ".join(printable(str(value)[: 2 * CELL]).split())
    return shown if len(shown) <= CELL else shown[: CELL - 1] + "…"


def cells(rows: pa.Table) -> tuple[tuple[str, ...], ...]:
    """Return all rows as cells."""
    return tuple(tuple(text(v) for v in row) for row in zip(*(values_of(c) for c in rows.columns), strict=True)) if rows.num_columns else ()


def few_of(shown: int, total: int, what: str) -> str:
    """Return a note if not everything is shown."""
    return f"Shown are {shown:,} of {total:,} {what}." if shown < total else ""


def millis(at: datetime | None) -> float | None:
    """Return an instant in milliseconds since 1970, for charts."""
    return None if at is None else at.timestamp() * 1000
