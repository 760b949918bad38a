"""Rules of Spark SQL that DuckDB has otherwise: decimals, rounding, texts of numbers and instants, and their formats.

Each function gets values that are not null (instants in microseconds, dates in days, decimals as ``Decimal``) and returns Spark's value,
None for null. Unclear is raised for values whose result in Spark is not certain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from functools import lru_cache, partial
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

_MOST: Final = 2**63
_DAY: Final = 86_400_000_000
_BITS: Final = {"int": 32, "bigint": 64}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT: Final = Context(prec=200)
_LONGEST: Final = 1_000_000
"""Characters of a text that a function makes."""
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE: Final = re.compile(r"([+-]?\d+)(\.\d*)?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_ZONES: Final = re.compile(r"UTC|[A-Z][A-Za-z]+(/[A-Z][A-Za-z_-]+)+", re.ASCII)


class Unclear(Exception):
    """An SQL construct that is not evaluated without Spark; the message names it."""


# Decimals. Types and rounding are those of Spark's DecimalPrecision: what does not fit into the type is null.


def digits_of(type_: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type, None for another type."""
    found = re.fullmatch(r"(?:decimal|numeric|dec)(?:\((\d+)(?:, ?(\d+))?\))?", type_)
    return (int(found[1] or 10), int(found[2] or 0)) if found else None


def decimal_type(precision: int, scale: int) -> str:
    """Return the decimal type. Raises Unclear if Spark has none such."""
    if not 0 < precision <= 38 or not 0 <= scale <= precision:
        raise Unclear(f"decimal({precision},{scale})")
    return f"decimal({precision},{scale})"


def unscaled(value: Decimal, scale: int) -> int:
    """Return the digits of a value with ``scale`` places."""
    return int(value.scaleb(scale, _EXACT))


def decimal_result(sign: str, x: tuple[int, int], y: tuple[int, int]) -> str:
    """Return the type of ``x sign y`` of decimals with such precisions and scales."""
    (p, s), (q, t) = x, y
    match sign:
        case "+" | "-":
            scale = max(s, t)
            precision = max(p - s, q - t) + scale + 1
        case "*":
            precision, scale = p + q + 1, s + t
        case "/":
            scale = max(6, s + q + 1)
            precision = p - s + t + scale
        case _:
            scale = max(s, t)
            precision = min(p - s, q - t) + scale
    if precision > 38:  # fractions give way to whole digits, down to six
        scale = max(38 - (precision - scale), min(scale, 6))
        precision = 38
    return decimal_type(precision, scale)


def decimal_arithmetic(sign: str, type_: str, x: Any, y: Any) -> Decimal | None:
    """Return ``x sign y`` as ``type_``."""
    a, b = Decimal(x), Decimal(y)
    match sign:
        case "+":
            found = _EXACT.add(a, b)
        case "-":
            found = _EXACT.subtract(a, b)
        case "*":
            found = _EXACT.multiply(a, b)
        case _ if not b:
            return None
        case "/":  # Spark divides to 39 places, and rounds again
            found = _EXACT.divide(a, b).quantize(Decimal("1e-39"), ROUND_HALF_UP, _EXACT)
        case _:
            found = _EXACT.remainder(a, b)
    return as_decimal(found, type_)


def as_decimal(value: Any, type_: str) -> Decimal | None:
    """Return a number as ``type_``, rounded half up."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = repr(value)
    precision, scale = digits_of(type_) or (10, 0)
    number = Decimal(value)
    if number and number.adjusted() > 38:
        return None
    found = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return None if abs(unscaled(found, scale)) >= 10**precision else found


def rounded_decimal(places: int, value: Decimal) -> Decimal:
    """Return the value with so many places, rounded half up."""
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT)


# Numbers.


def whole(value: float, type_: str) -> int:
    """Cast a double as Java does: towards zero, clamped to the type's range, NaN to 0."""
    if value != value:
        return 0
    half = 1 << (_BITS[type_] - 1)
    return half - 1 if value >= half else -half if value <= -half else int(value)


def whole_of_decimal(value: Decimal, type_: str) -> int:
    """Cast a decimal towards zero."""
    found = int(value.to_integral_value(ROUND_DOWN, _EXACT))
    half = 1 << (_BITS[type_] - 1)
    if not -half <= found < half:
        raise Unclear(f"a decimal beyond the range of {type_}")
    return found


def single(value: Any) -> float:
    """Return the nearest float of 32 bits."""
    with np.errstate(over="ignore"):
        return float(np.float32(float(value)))


def rounded(places: int, value: float) -> float:
    """Round a double as Spark does: its shortest decimal text, halves away from zero; zero has no sign."""
    if not math.isfinite(value):
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, Context(prec=700))) + 0.0


def root(value: float) -> float:
    """Return the square root, NaN below zero."""
    return math.sqrt(value) if value >= 0 else math.nan


def sign(value: float) -> float:
    """Return -1, 0 or 1."""
    return math.copysign(1.0, value) if value > 0 or value < 0 else value


def radians(degrees: float) -> float:
    """Return an angle in radians."""
    return math.radians(degrees)


def floor(value: float) -> int:
    """Return the whole number below."""
    return whole(float(math.floor(value)) if math.isfinite(value) else value, "bigint")


def ceiling(value: float) -> int:
    """Return the whole number above."""
    return whole(float(math.ceil(value)) if math.isfinite(value) else value, "bigint")


def positive_remainder(type_: str, x: int, y: int) -> int | None:
    """Return ``pmod`` of whole numbers of a type, in which their sum wraps."""
    if not y:
        return None
    found = abs(x) % abs(y) * (-1 if x < 0 else 1)
    if found >= 0:
        return found
    half = 1 << (_BITS[type_] - 1)
    again = (found + y + half) % (2 * half) - half
    return abs(again) % abs(y) * (-1 if again < 0 else 1)


# Texts of values.


def _text_of_double(value: float) -> str:
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not value:
        return repr(value)
    text = repr(value)
    if not 1e-3 <= abs(value) < 1e7 or len(text.lstrip("-0.").replace(".", "")) > 15:
        raise Unclear("the text of a double of more than 15 digits, or that Java writes with an exponent")
    return text


def _text_of_date(days: int) -> str:
    return _at(days * _DAY).strftime("%Y-%m-%d").zfill(10)


def _text_of_timestamp(at: int) -> str:
    found = _at(at)
    return found.strftime("%Y-%m-%d %H:%M:%S").zfill(19) + (f".{found.microsecond:06d}".rstrip("0") if found.microsecond else "")


TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "double": _text_of_double, "decimal": str, "date": _text_of_date, "timestamp": _text_of_timestamp,
}  # fmt: skip
"""Type -> its ``cast`` to text."""


def of_text(to: str) -> Callable[[str], Any]:
    """Return the cast of a text to the type: null for a text that is none. Raises Unclear if there is no rule for the type."""
    if digits_of(to):
        return partial(_to_decimal, to)
    found = {"int": _to_int, "bigint": _to_bigint, "double": _to_double, "boolean": _to_boolean, "date": _to_date, "timestamp": _to_time}
    if to not in found:
        raise Unclear(f"a cast of string to {to}")
    return found[to]


def _trimmed(text: str) -> str:
    found = text.strip(" \t\r\n")
    if found and (
        ord(found[0]) <= 0x20 or ord(found[-1]) <= 0x20 or found[0].isspace() or found[-1].isspace() or "\x7f" <= found[-1] <= "\x9f"
    ):
        raise Unclear("a text with control characters or unusual spaces around it")
    return found


def _number_in(text: str) -> str | None:
    found = _trimmed(text)
    if _NUMBER.fullmatch(found):
        return found
    if found == "NaN":
        return found
    if any(c.isdigit() and not c.isascii() for c in found):
        raise Unclear("digits outside of ASCII")
    if re.search(r"\d[dDfF]$|0[xX]|(?i:nan|inf)|[eE][+-]?\d{4}", found) or found.lower() in ("infinity", "+infinity", "-infinity"):
        raise Unclear(f"the text {found[:40]!r} as a number")
    return None


def _to_decimal(type_: str, text: str) -> Decimal | None:
    found = _number_in(text)
    return None if found in (None, "NaN") else as_decimal(found, type_)


def _to_double(text: str) -> float | None:
    found = _number_in(text)
    return None if found is None else float(found)


def _to_whole(text: str, type_: str) -> int | None:
    found = _trimmed(text)
    match = _WHOLE.fullmatch(found)
    if match is None:
        if re.fullmatch(r"[+-]?\.\d*", found, re.ASCII):
            raise Unclear(f"the text {found[:40]!r} as a whole number")
        return None
    if len(match[1]) > 40:
        return None
    half, number = 1 << (_BITS[type_] - 1), int(match[1])
    return number if -half <= number < half else None


def _to_int(text: str) -> int | None:
    return _to_whole(text, "int")


def _to_bigint(text: str) -> int | None:
    return _to_whole(text, "bigint")


def _to_boolean(text: str) -> bool | None:
    found = _trimmed(text).lower()
    return True if found in ("t", "true", "y", "yes", "1") else False if found in ("f", "false", "n", "no", "0") else None


def _to_date(text: str) -> int | None:
    found = _trimmed(text)
    match = _DATE.fullmatch(found)
    if match is None:
        _none_of_digits(found, "date")
        return None
    at = _micros([int(match[1]), int(match[2] or 1), int(match[3] or 1)])
    return None if at is None else at // _DAY


def _to_time(text: str) -> int | None:
    found = _trimmed(text)
    match = _TIME.fullmatch(found)
    if match is None:
        _none_of_digits(found, "timestamp")
        return None
    zone, fraction = match[8], (match[7] or "").ljust(6, "0")
    at = _micros([int(match[n] or 0) for n in range(1, 7)])
    if at is None or zone in (None, "Z"):
        return None if at is None else at + int(fraction)
    hours, minutes = int(zone[1:3]), int(zone[4:])
    if hours > 17 or minutes > 59:
        raise Unclear(f"the text {found!r} as a timestamp")
    return at + int(fraction) - (hours * 60 + minutes) * 60_000_000 * (-1 if zone[0] == "-" else 1)


def _none_of_digits(text: str, type_: str) -> None:
    """Raise Unclear for a text with a digit: Spark reads more of them than there are rules for. Others are null."""
    if re.search(r"[\d:]", text):
        raise Unclear(f"the text {text[:40]!r} as a {type_}")


# Functions of texts.


def in_ascii(function: Callable[[str], str]) -> Callable[[str], str]:
    """Return the function for ASCII: Java and Python know different letters beyond it."""

    def apply(text: str) -> str:
        if not text.isascii():
            raise Unclear("letters outside of ASCII turned into large or small ones")
        return function(text)

    return apply


def substring(text: str, first: int, length: int = 2**31 - 1) -> str:
    """Return characters from ``first`` on, which counts from 1, or from the end if it is negative."""
    start = first - 1 if first > 0 else len(text) + first if first < 0 else 0
    end = start + length
    return text[max(0, start) : max(0, end)] if end > start else ""


def padded(left: bool, text: str, length: int, by: str = " ") -> str:
    """Return the text padded, or cut, to a length."""
    if length <= len(text):
        return text[: max(0, length)]
    _bounded(length)
    fill = (by * (length - len(text)))[: length - len(text)] if by else ""
    return fill + text if left else text + fill


def repeated(text: str, times: int) -> str:
    """Return the text so many times."""
    _bounded(len(text) * max(0, times))
    return text * max(0, times)


def replaced(text: str, old: str, new: str) -> str:
    """Return the text with every ``old`` replaced."""
    if not old:
        return text
    _bounded(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def translated(text: str, old: str, new: str) -> str:
    """Return the text with each character of ``old`` as that of ``new`` at its place, or without it."""
    table: dict[int, str | None] = {}
    for n, character in enumerate(old):
        table.setdefault(ord(character), new[n] if n < len(new) else None)
    return text.translate(table)


def _bounded(length: int) -> None:
    if length > _LONGEST:
        raise Unclear(f"a text of more than {_LONGEST:,} characters")


# Instants.


def _at(micros: int) -> datetime:
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
    except OverflowError:
        raise Unclear("an instant outside of the years 1 to 9999") from None


def _micros(parts: list[int]) -> int | None:
    year, month, day, *rest = parts
    if not 1 <= year <= 9999:
        raise Unclear("a year without four digits")
    try:
        return (datetime(year, month, day, *rest, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)  # type: ignore[misc, arg-type]
    except (ValueError, OverflowError):
        return None


def of_number(unit: int, number: int) -> int:
    """Evaluate ``timestamp_seconds`` and similar functions of a number of ``unit`` microseconds."""
    if not -_MOST <= number * unit < _MOST:
        raise Unclear(f"an instant out of range ({number})")
    return number * unit


def of_parts(*given: int) -> int | None:
    """Evaluate ``make_timestamp`` of integers: null for a date that does not exist."""
    if given[5] == 60 or not 1 <= given[0] <= 9999 or any(not -(2**31) <= g < 2**31 for g in given):
        raise Unclear("make_timestamp of a 60th second, of numbers outside of int, or of years without four digits")
    return _micros(list(given))


def of_date_parts(year: int, month: int, day: int) -> int | None:
    """Evaluate ``make_date``: null for a date that does not exist."""
    at = _micros([year, month, day])
    return None if at is None else at // _DAY


def zone_of(name: str) -> ZoneInfo:
    """Return the zone. Raises Unclear for a name that is no city's and not UTC."""
    try:
        if _ZONES.fullmatch(name):
            return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        pass
    raise Unclear(f"the time zone {name[:40]!r}")


def from_utc(zone: ZoneInfo, at: int) -> int:
    """Return the instant as which UTC would show the zone's clock at ``at``."""
    return at + _offset(_zoned(at).astimezone(zone))


def to_utc(zone: ZoneInfo, at: int) -> int:
    """Return the instant at which the zone's clock shows what UTC shows at ``at``."""
    return at - _offset(_zoned(at).replace(tzinfo=zone))


def _zoned(at: int) -> datetime:
    found = _at(at)
    if not 1971 <= found.year <= 2037:
        raise Unclear("a time zone's clock before 1971 or after 2037")
    return found


def _offset(at: datetime) -> int:
    return (at.utcoffset() or timedelta(0)) // timedelta(microseconds=1)


_READ: Final = {"yyyy": r"(?P<y>\d{4})", "yy": r"(?P<yy>\d{2})"} | {
    letters: rf"(?P<{letters[0]}>\d{{{2 if letters[1:] else '1,19'}}})" for letters in ("MM", "M", "dd", "d", "HH", "H", "mm", "ss")
}
"""Letters of a format -> a pattern. One letter takes any number of digits, as Java does where no digit follows."""
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WRITTEN: Final[Mapping[str, Callable[[datetime], str]]] = {
    "yyyy": lambda d: f"{d.year:04d}", "yy": lambda d: f"{d.year % 100:02d}", "MM": lambda d: f"{d.month:02d}", "M": lambda d: str(d.month),
    "MMM": lambda d: _MONTHS[d.month - 1][:3], "MMMM": lambda d: _MONTHS[d.month - 1], "dd": lambda d: f"{d.day:02d}",
    "d": lambda d: str(d.day), "HH": lambda d: f"{d.hour:02d}", "H": lambda d: str(d.hour), "hh": lambda d: f"{(d.hour + 11) % 12 + 1:02d}",
    "a": lambda d: "AM" if d.hour < 12 else "PM", "mm": lambda d: f"{d.minute:02d}", "m": lambda d: str(d.minute),
    "ss": lambda d: f"{d.second:02d}", "s": lambda d: str(d.second), "SSS": lambda d: f"{d.microsecond // 1000:03d}",
    "SSSSSS": lambda d: f"{d.microsecond:06d}", "E": lambda d: _DAYS[d.weekday()][:3], "EEE": lambda d: _DAYS[d.weekday()][:3],
    "EEEE": lambda d: _DAYS[d.weekday()], "D": lambda d: str(d.timetuple().tm_yday), "DDD": lambda d: f"{d.timetuple().tm_yday:03d}",
}  # fmt: skip
"""Letters of a format -> the text of an instant."""


def _parts(form: str) -> list[tuple[bool, str]]:
    """Split a format into (letters or not, text). Raises Unclear for signs that mean something else to Java."""
    found: list[tuple[bool, str]] = []
    for match in re.finditer(r"([A-Za-z])\1*|[ ./:,_-]|'([^']+)'|.", form, re.DOTALL):
        if match[1]:
            found.append((True, match[0]))
        elif match[2]:
            found.append((False, match[2]))
        elif match[0] in " ./:,_-":
            found.append((False, match[0]))
        else:
            raise Unclear(f"the format {form[:40]!r}")
    return found


@lru_cache(maxsize=64)
def writer(form: str) -> Callable[[int], str]:
    """Return ``date_format`` with a format. Raises Unclear for formats without a rule."""
    parts = _parts(form)
    if not parts or any(letters and text not in _WRITTEN for letters, text in parts):
        raise Unclear(f"the format {form[:40]!r}")
    makers = [_WRITTEN[text] if letters else (lambda d, text=text: text) for letters, text in parts]

    def write(at: int) -> str:
        found = _at(at)
        return "".join(make(found) for make in makers)

    return write


@lru_cache(maxsize=64)
def reader(form: str) -> Callable[[str], int | None]:
    """Return ``try_to_timestamp`` with a format of digits: null for a text that does not match."""
    made, seen, after = "", set[str](), False
    for letters, text in _parts(form):
        # Java divides digits that belong to two parts; here a part of one letter has signs at both sides.
        beside = letters and after and (len(text) == 1 or made.endswith("19})"))
        if letters and (text not in _READ or text[0] in seen or beside):
            raise Unclear(f"the format {form[:40]!r}")
        seen |= {text[0]} if letters else set()
        made, after = made + (_READ[text] if letters else re.escape(text)), letters
    if not {"y", "M", "d"} <= seen or (seen & {"m", "s"} and "H" not in seen):
        raise Unclear(f"the format {form[:40]!r}")
    regex = re.compile(made, re.ASCII)

    def read(text: str) -> int | None:
        match = regex.fullmatch(text)
        if match is None:
            return None
        found = match.groupdict("0")
        year = int(found["y"]) if "y" in found else 2000 + int(found["yy"])
        return _micros([year, *(int(found.get(part, "0")) for part in ("M", "d", "H", "m", "s"))]) if year else None

    return read
