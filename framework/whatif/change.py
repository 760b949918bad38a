"""The change that is supposed: rejected rows put back, rows left out, an edited spec."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.plan.model import Plan
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.why.item import value_of

Flags = npt.NDArray[np.bool_]
REJECTED: Final = "rejected"


@dataclass(frozen=True, slots=True)
class Left:
    """Rows to leave out: those with these values (see ``plain_value``), by column. ``said``: as they were named."""

    said: str
    values: Mapping[str, Any]

    def matching(self, rows: pa.Table) -> Flags:
        """Return which of ``rows`` have the values. O(rows)."""
        found = np.ones(rows.num_rows, np.bool_)
        for column, value in self.values.items():
            type_ = rows.schema.field(column).type
            found &= np.fromiter((plain_value(v, type_) == value for v in rows[column].to_pylist()), np.bool_, rows.num_rows)
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """What is supposed. ``put_back``: None, or the reasons whose rows are put back, "" for all. ``settings``: of the edited spec."""

    put_back: tuple[str, ...] = ()
    without: tuple[Left, ...] = ()
    settings: tuple[str, ...] = ()

    def puts_back(self, reason: str) -> bool:
        """Return True if rows that were rejected for ``reason`` are put back."""
        return any(p in ("", reason) or reason.startswith(f"{p}:") for p in self.put_back)

    @property
    def said(self) -> list[str]:
        """Return the parts of the change, as they are written."""
        found = [f"--with {REJECTED}{f':{p}' if p else ''}" for p in self.put_back]
        return [*found, *(f"--without {w.said}" for w in self.without), *(f"--set {s}" for s in self.settings)]


def change_of(plan: Plan, with_: Sequence[str], without: Sequence[str], settings: Sequence[str]) -> Change:
    """Parse the arguments. Raises SkybandError SKY-E201 for what is none, and if nothing is supposed."""
    if not (with_ or without or settings):
        raise SkybandError("SKY-E201", "nothing is to be other", hint="add --with rejected, --without ID or --set PATH=VALUE")
    put_back = []
    for text in with_:
        what, colon, reason = text.partition(":")
        if what != REJECTED or (colon and not reason):
            hint = "--with rejected, or of one reason --with rejected:late"
            raise SkybandError("SKY-E201", f"--with takes {REJECTED} or {REJECTED}:REASON, not {text!r}", hint=hint)
        put_back.append(reason)
    return Change(tuple(put_back), tuple(_left(plan, text) for text in without), tuple(settings))


def _left(plan: Plan, text: str) -> Left:
    """Parse ``value,value`` in the order of ``source.id``, or ``column=value,...`` of any columns."""
    columns = [f.name for f in plan.intake.fields]
    cells = next(csv.reader([text]), [])
    named = [c.partition("=") for c in cells]
    ids = plan.intake.id
    if cells and all(equals and name.strip() in columns for name, equals, _ in named):
        given = {name.strip(): value for name, _, value in named}
    elif cells and len(cells) == len(ids):
        given = dict(zip(ids, cells, strict=True))
    else:
        hint = did_you_mean(named[0][0].strip(), columns) if cells and named[0][1] else None
        said = (
            f"--without {text!r} names no row: it takes a value of {one_of(ids)}" if len(ids) == 1 else f"--without {text!r} names no row"
        )
        raise SkybandError("SKY-E201", said, hint=hint or f"write {','.join(ids)}, or COLUMN=VALUE,... of any columns")
    try:
        return Left(text, {c: value_of(plan, c, v) for c, v in given.items()})
    except SkybandError as e:
        near = did_you_mean(named[0][0].strip(), columns) if named[0][1] else None
        raise SkybandError(e.code, f"--without: {e.message}", hint=near or e.hint) from None


def check_reasons(change: Change, known: Sequence[str]) -> None:
    """Raise SkybandError SKY-E201 if no row was rejected for a reason that is to be put back. ``known``: the reasons of the table."""
    for reason in change.put_back:
        if reason and not any(k == reason or k.startswith(f"{reason}:") for k in known):
            hint = did_you_mean(reason, known) or (f"reasons: {one_of(known)}" if known else "no row was rejected")
            raise SkybandError("SKY-E201", f"no row was rejected for {reason!r}", hint=hint)
