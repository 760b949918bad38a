"""What a report is made of: figures, each with its numbers as a table and, where it helps, a chart of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.errors import printable
from skyband.framework.tables.render import instant_text

CELL: Final = 120
"""Characters of a text that are shown."""

Chart = dict[str, Any]
"""A chart in Vega-Lite's language: plain data, no expression of which comes from a table."""


@dataclass(frozen=True, slots=True)
class Figure:
    """``said``: one sentence that says what is to be seen; ``left_out``: what the bounds of the report kept out, if anything;

    ``text``: lines that are shown as they are.
    """

    title: str
    said: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    chart: Chart | None = None
    left_out: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what is below it."""

    title: str
    said: str
    figures: list[Figure] = field(default_factory=list)


def text(value: Any) -> str:
    """A value as a cell shows it: one line, no control characters, at most ``CELL`` characters."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    # Texts are long at times: what is not shown is not looked at.
    shown = " ".join(printable(str(value)[: 2 * CELL]).split())
    return shown if len(shown) <= CELL else shown[: CELL - 1] + "…"


def cells(rows: pa.Table) -> tuple[tuple[str, ...], ...]:
    """All rows as cells."""
    return (
        tuple(tuple(text(v) for v in row) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True)) if rows.num_columns else ()
    )


def few_of(shown: int, there: int, what: str) -> str:
    """What to say if not all is shown."""
    return f"Shown are {shown:,} of {there:,} {what}." if shown < there else ""


def millis(at: datetime | None) -> float | None:
    """An instant as charts count it: milliseconds since 1970."""
    return None if at is None else at.timestamp() * 1000
