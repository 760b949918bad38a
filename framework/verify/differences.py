"""The differences that ``verify`` finds, and how they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from skyband.framework.base.counts import counted

MOST: Final = 12
"""The most rows of one side that are printed."""

MOST_KINDS: Final = 40
"""The most kinds of differences of one part that are printed."""
_FIGURES: Final = re.compile(r"\w*\([^()]*\)|'[^']*'|-?(?<![\w])\d[\w.,:+-]*")
"""What is not part of a kind: what stands in parentheses or quotes, and numbers."""

Row = Mapping[str, Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: ``where`` (table or query, key, instant, step) and ``what`` is wrong there.

    ``expected`` and ``found`` are the rows of both sides, None if the difference is not about rows. ``at``: the instant in microseconds,
    if there is one. ``beside``: the label of the rows of ``expected``. ``sort``: the text that tells its kind, ``what`` by default.
    """

    where: str
    what: str
    expected: Sequence[Row] | None = None
    found: Sequence[Row] | None = None
    at: int | None = None
    beside: str = "expected"
    sort: str | None = None

    @property
    def kind(self) -> str:
        """Return what it has in common with others: the table or query, and what is wrong without names and figures."""
        what = self.what if self.sort is None else self.sort
        before = None
        while what != before:
            before, what = what, _FIGURES.sub("…", what)
        return f"{self.where.partition(',')[0]}: {what}"

    def plain(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        rows = [None if side is None else [dict(r) for r in side] for side in (self.expected, self.found)]
        at = None if self.at is None else instant(self.at)
        return {"kind": self.kind, "where": self.where, "what": self.what, "at": at, self.beside: rows[0], "found": rows[1]}

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


def by_kind(differences: Iterable[Difference]) -> dict[str, list[Difference]]:
    """Return the differences by kind, in the order in which kinds appear."""
    found: dict[str, list[Difference]] = {}
    for d in differences:
        found.setdefault(d.kind, []).append(d)
    return found


def format_differences(differences: Sequence[Difference]) -> str:
    """Return the first difference of each kind in full, with the number of the others, indented below a heading."""
    lines = []
    kinds = by_kind(differences)
    for mine in list(kinds.values())[:MOST_KINDS]:
        lines.append(f"    {mine[0].text()}")
        if len(mine) > 1:
            lines.append(f"    and {counted(len(mine) - 1, 'more difference')} of this kind")
    if len(kinds) > MOST_KINDS:
        others = sum(len(mine) for mine in list(kinds.values())[MOST_KINDS:])
        lines.append(f"    and {counted(others, 'difference')} of {counted(len(kinds) - MOST_KINDS, 'more kind')}")
    return "\n".join(lines)


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
