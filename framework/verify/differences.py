"""The differences that ``verify`` finds, and how they are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from skyband.framework.base.counts import counted

MOST: Final = 12
"""The most rows of one side that are printed."""

Row = Mapping[str, Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: ``where`` (table or query, key, instant, step) and ``what`` is wrong there.

    ``expected`` and ``found`` are the rows of both sides, None if the difference is not about rows. ``at``: the instant in microseconds,
    if there is one. ``beside``: the label of the rows of ``expected``.
    """

    where: str
    what: str
    expected: Sequence[Row] | None = None
    found: Sequence[Row] | None = None
    at: int | None = None
    beside: str = "expected"

    def text(self) -> str:
        """Return the difference as lines of text."""
        lines = [f"{self.where}: {self.what}"]
        for side, rows in ((self.beside, self.expected), ("found", self.found)):
            if rows is None:
                continue
            lines += [f"      {side}  {_row(r)}" for r in rows[:MOST]] or [f"      {side}  no row"]
            if len(rows) > MOST:
                lines.append(f"      {side}  and {counted(len(rows) - MOST, 'more row')}")
        return "\n".join(lines)


def format_differences(differences: Sequence[Difference]) -> str:
    """Return the first difference in full and the number of the others, indented below a heading."""
    if not differences:
        return ""
    others = len(differences) - 1
    return "    " + differences[0].text() + (f"\n    and {counted(others, 'more difference')}" if others else "")


def place(what: str, streams: Sequence[str] = (), key: Sequence[Any] = (), at: int | None = None, step: int | None = None) -> str:
    """Return a location such as ``table best_changes, grp 'p', 2020-01-01 00:10:00 UTC, step 3``."""
    parts = [what, *(f"{n} {_value(v)}" for n, v in zip(streams, key, strict=True))]
    parts += [instant(at)] if at is not None else []
    return ", ".join([*parts, f"step {step:,}"] if step is not None else parts)


def instant(micros: int) -> str:
    """Return an instant in UTC; one outside of the calendar as a number of microseconds."""
    try:
        at = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} microseconds from 1970"
    return at.strftime("%Y-%m-%d %H:%M:%S") + (f".{at.microsecond:06}" if at.microsecond else "") + " UTC"


def _row(row: Row) -> str:
    return ", ".join(f"{n} {_value(v)}" for n, v in row.items())


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return instant((value - _EPOCH) // timedelta(microseconds=1))
    if isinstance(value, date):
        return value.isoformat()
    return "null" if value is None else repr(value) if isinstance(value, str | float) else str(value)
