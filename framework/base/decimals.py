"""The decimal types of columns, as a plan spells them. Uses the standard library only."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Final

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_UP)
"""Enough digits for every decimal of a column, and for what is rounded to one."""


def decimal_digits(type_: str | None) -> tuple[int, int] | None:
    """Return precision and scale of ``decimal(p,s)``: the number of all digits, and of those after the point. None for other types."""
    found = _DECIMAL.fullmatch(type_ or "")
    return None if found is None else (int(found[1]), int(found[2]))


def fitted(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """Return ``number`` as a value of ``decimal(precision,scale)``, rounded half up as Spark does; None if it is too large."""
    if number and number.adjusted() >= precision - scale:
        return None
    try:
        found = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except InvalidOperation:
        return None
    return None if abs(found) >= Decimal(1).scaleb(precision - scale) else found
