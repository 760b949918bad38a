"""Values of rows in YAML: convert and check them by the kind of their column."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any, Final

from skyband.framework.base.decimals import decimal_digits
from skyband.operators.base import Kind

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?( ?(Z|UTC|[+-]\d\d:\d\d))?")
_MICROSECOND: Final = timedelta(microseconds=1)
_DOUBLE_DIGITS: Final = 15
"""Numbers of so many digits that differ have different nearest doubles. YAML reads numbers as doubles."""

_ELEMENTS: Final[Mapping[str, tuple[Kind, str]]] = {
    "array<string>": ("text", "texts in quotes"), "array<int>": ("int", "whole numbers"), "array<bigint>": ("int", "whole numbers"),
    "array<float>": ("float", "numbers"), "array<double>": ("float", "numbers"),
}  # fmt: skip
"""Type of a list -> the kind of its elements, and their name."""


def cell(value: Any, kind: Kind, type_: str = "") -> Any:
    """Return the value as the column holds it; instants and dates as microseconds since 1970. Raises ValueError for invalid ones.

    The message goes on after the column's name. ``type_``: the column's type, if decimals are to keep all their digits, and lists are to
    be checked.
    """
    if value is None:
        return None
    if (digits := decimal_digits(type_)) is not None:
        return _decimal(value, type_, *digits)
    match kind:
        case "text":
            if not isinstance(value, str):
                raise ValueError("takes text: put it in quotes")
            return value
        case "bool":
            if not isinstance(value, bool):
                raise ValueError("takes true or false")
            return value
        case "int":
            if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
                raise ValueError("takes a whole number")
            return value
        case "float":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError("takes a number")
            try:
                return float(value)
            except OverflowError as e:
                raise ValueError("takes a number, and this one is too large") from e
        case "time":
            return instant(value)
    if not isinstance(value, list):
        raise ValueError("takes a list, such as [a, b]")
    of = _ELEMENTS.get(type_)
    return value if of is None else [_element(x, *of) for x in value]


def _element(value: Any, kind: Kind, what: str) -> Any:
    """Return an element of a list as the column holds it. Raises ValueError."""
    try:
        return cell(value, kind)
    except ValueError as e:
        shown = repr(value) if isinstance(value, str) else spelled(value)
        raise ValueError(f"takes a list of {what}, and {shown} is none") from e


def _decimal(value: Any, type_: str, precision: int, places: int) -> Decimal:
    """Return a number, or a text with its digits, as a column of ``type_`` holds it; Spark, too, rounds halves up. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("takes a number")
    try:
        number = Decimal(str(value).strip())
    except (InvalidOperation, ValueError) as e:
        raise ValueError("takes a number") from e
    if not number.is_finite() or (number and number.adjusted() >= precision - places):
        raise ValueError(f"takes a {type_}")
    if isinstance(value, float) and number.adjusted() >= _DOUBLE_DIGITS - places:
        raise ValueError("takes a number of so many digits in quotes")
    with localcontext(prec=precision + 1):
        rounded = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    if abs(rounded) >= Decimal(10) ** (precision - places):
        raise ValueError(f"takes a {type_}")
    return rounded


def instant(value: Any) -> int:
    """Return the microseconds since 1970 of ``2013-01-01 06:00`` (UTC), seconds, fraction and offset optional, or of a date."""
    if not isinstance(value, str) or _INSTANT.fullmatch(value.strip()) is None:
        raise ValueError("takes an instant, such as 2013-01-01 06:00:00 (UTC), or a date")
    try:
        found = datetime.fromisoformat(re.sub(r" ?(Z|UTC)$", "+00:00", value.strip()).replace(" +", "+").replace(" -", "-"))
    except ValueError as e:
        raise ValueError(f"takes an instant, and the calendar has no {value}") from e
    at = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return (at - _EPOCH) // _MICROSECOND


def spelled(value: Any) -> str:
    """Return a value of a table in YAML such that ``cell`` reads the same value. Instants are datetimes, dates are dates."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        at = value.astimezone(UTC)
        text = at.strftime("%H:%M:%S") + (f".{at.microsecond:06}" if at.microsecond else "")
        return f"{at.year:04}-{at.month:02}-{at.day:02} {text.removesuffix(':00') if not at.microsecond else text}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        text = repr(value)
        # YAML 1.1 takes a number with an exponent for text unless it has a point.
        return text if "." in text else text.replace("e", ".0e")
    if isinstance(value, list):
        return "[" + ", ".join(map(spelled, value)) + "]"
    return _text(value) if isinstance(value, str) else str(value)


_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]*( [A-Za-z0-9_./-]+)*")
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def _text(value: str) -> str:
    """Return ``text`` plain if YAML reads it as the same text, else in double quotes."""
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not value.endswith(":") and ": " not in value:
        return value
    made = "".join(_escaped(c) for c in value.replace("${", "$${"))
    return f'"{made}"'


def _escaped(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    if not c.isprintable():
        return f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}"
    return c
