"""Durations (``10 minutes``), sizes (``256m``), numbers and names, as pydantic types that turn text into plain values."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import PydanticCustomError

from skyband.operators.base import Window

_UNITS: Final[dict[str, int]] = {
    "microsecond": 1, "us": 1, "millisecond": 1_000, "ms": 1_000, "second": 1_000_000, "s": 1_000_000, "sec": 1_000_000,
    "minute": 60_000_000, "min": 60_000_000, "hour": 3_600_000_000, "h": 3_600_000_000, "day": 86_400_000_000, "d": 86_400_000_000,
    "week": 604_800_000_000,
}  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PART: Final = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z]+)")
_MAX_MICROS: Final = 2**62
_PERCENT: Final = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,9})?)\s*%\s*")
_BATCHES: Final = re.compile(r"\s*([0-9]{1,9})\s*(batch|batches)\s*")
_MOST_DIGITS: Final = 400
_MONTHS: Final[dict[str, int]] = {"month": 1, "quarter": 3, "year": 12}
_MONTHLY: Final = re.compile(r"\s*([0-9]{1,6})\s*(month|quarter|year)s?\s*", re.IGNORECASE)
_MOST_MONTHS: Final = 1200
_SIZE: Final = re.compile(r"\s*([0-9]{1,20})\s*(b|k|kb|m|mb|g|gb)?\s*", re.IGNORECASE)

AHEAD: Final = 86_400_000_000
"""The default of ``event_time.max_ahead`` in microseconds: 1 day."""

DURATION_HINT: Final = "write a number and a unit, such as 30 seconds, 10 minutes, 1 hour, 7 days"


def parse_duration(text: str) -> int:
    """Microseconds of ``text``, e.g. ``10 minutes`` or ``1 hour 30 minutes``.

    Units: microseconds, milliseconds, seconds, minutes, hours, days, weeks (singular, plural, or us ms s min h d). Months and years have no
    fixed length and are refused. Raises ValueError, with a message for the user.
    """
    total = 0.0
    exact = 0
    end = 0
    for m in _PART.finditer(text):
        if m.start() != end:
            break
        unit = m.group(2).lower()
        micros = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if micros is None:
            if unit.removesuffix("s") in {"month", "year"}:
                raise ValueError(f"{unit} have no fixed length")
            raise ValueError(f"unknown unit {m.group(2)!r}")
        number = m.group(1)
        if "." in number:
            total += float(number) * micros
        else:
            exact += int(number) * micros
        end = m.end()
    if end == 0 or text[end:].strip():
        raise ValueError("not a duration")
    result = exact + round(total)
    if result > _MAX_MICROS:
        raise ValueError("longer than can be represented")
    return result


def parse_window(text: str) -> Window:
    """A window as ``1 day`` or ``500 rows``, or both with a comma. Raises ValueError, with a message for the user."""
    count: int | None = None
    micros: int | None = None
    for part in text.lower().split(","):
        rows = re.fullmatch(r"\s*([0-9]{1,20})\s*rows?\s*", part)
        if (count if rows else micros) is not None:
            raise ValueError(f"{text!r} says two windows {'in rows' if rows else 'of time'}")
        if rows:
            count = int(rows.group(1))
            continue
        try:
            micros = parse_duration(part.strip())
        except ValueError as e:
            raise ValueError(f"{text!r} is not a window ({e}): write it as '1 day' or '500 rows'") from None
    if (count is not None and count < 1) or (micros is not None and micros < 1):
        raise ValueError("a window must be larger than nothing")
    return Window(count, micros)


def parse_share(text: str) -> Fraction:
    """Return a share such as ``80%``, exactly. Raises ValueError, with a message for the user, unless 0 < share <= 1."""
    found = _PERCENT.fullmatch(text)
    share = Fraction(found.group(1)) / 100 if found else Fraction(0)
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is not a share above 0% and up to 100%: write it as 80%")
    return share


def format_duration(micros: int) -> str:
    """The shortest exact spelling of ``micros``, e.g. ``1 day`` or ``90 seconds``."""
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        size = _UNITS[unit]
        if micros and micros % size == 0:
            n = micros // size
            return f"{n:,} {unit}" + ("" if n == 1 else "s")
    return "0 seconds"


def format_span(micros: int) -> str:
    """Return ``micros`` in words, rounded down to the largest unit of which there are at least two, e.g. ``90 seconds``."""
    for unit in ("day", "hour", "minute", "second"):
        if micros >= 2 * _UNITS[unit]:
            return f"{micros // _UNITS[unit]:,} {unit}s"
    return format_duration(micros)


def format_instant(micros: int) -> str:
    """Return the instant ``micros`` after 1970 in UTC, without fractions of a second: ``2013-07-01 12:00:00``."""
    return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S}"


def _duration(value: Any) -> int:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise PydanticCustomError("duration", "a duration needs a unit")
    if not isinstance(value, str):
        raise PydanticCustomError("duration", "not a duration")
    try:
        return parse_duration(value)
    except ValueError as e:
        raise PydanticCustomError("duration", "{why}", {"why": str(e)}) from None


def _positive_duration(value: Any) -> int:
    micros = _duration(value)
    if micros <= 0:
        raise PydanticCustomError("duration", "must be longer than 0")
    return micros


@dataclass(frozen=True, slots=True)
class Months:
    """Count the whole months of a window's length."""

    count: int


def _window_length(value: Any) -> int | Months:
    found = _MONTHLY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return _positive_duration(value)
    months = int(found.group(1)) * _MONTHS[found.group(2).lower()]
    if not 1 <= months <= _MOST_MONTHS:
        raise PydanticCustomError("duration", "{why}", {"why": f"must be 1 month to {_MOST_MONTHS // 12} years"})
    return Months(months)


def format_months(months: int) -> str:
    """Return a number of months in the largest unit that it is a multiple of: ``1 quarter``, ``2 years``."""
    unit = next(u for u in ("year", "quarter", "month") if months % _MONTHS[u] == 0)
    n = months // _MONTHS[unit]
    return f"{n:,} {unit}" + ("" if n == 1 else "s")


def bytes_of(size: str) -> int:
    """Return a ``Size``, such as ``128m``, as a number of bytes."""
    unit = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}.get(size[-1].lower())
    return int(size) if unit is None else int(size[:-1]) << unit


def _size(value: Any) -> str:
    m = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return f"{value}b"
    if m is None or int(m.group(1)) == 0:
        raise PydanticCustomError("size", "not a size in bytes")
    return m.group(1) + (m.group(2) or "b").lower()[0]


def _percent(value: Any) -> float:
    """``1%`` as 1.0."""
    m = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if m is None or not 0 <= float(m.group(1)) <= 100:
        raise PydanticCustomError("percent", "not a percentage")
    return float(m.group(1))


def _batches(value: Any) -> int:
    """``100 batches`` as 100."""
    m = _BATCHES.fullmatch(value) if isinstance(value, str) else None
    if m is None or int(m.group(1)) < 1:
        raise PydanticCustomError("batches", "not a number of batches")
    return int(m.group(1))


def _integer(value: Any) -> Any:
    # Text is let through for values that came from ${NAME}; a truth value is never a number here.
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("float_type", "Input should be a valid number")
    return value


class WrittenFloat(float):
    """A number that no double holds: the nearest double, whose ``repr`` is the number as a person wrote it.

    It compares and calculates as the double. What compares exactly, such as a bound of decimals, reads the ``repr``.
    """

    __slots__ = ("_text",)

    def __new__(cls, text: str) -> WrittenFloat:
        """Return the number that ``text`` spells. Raises ValueError for other text."""
        made = super().__new__(cls, text)
        made._text = text
        return made

    _text: str

    def __repr__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[type[WrittenFloat], tuple[str]]:
        return WrittenFloat, (self._text,)


def written_float(text: str) -> float:
    """Return the number that ``text`` spells: a ``WrittenFloat`` if its digits are more than those of the nearest double, else a float.

    Text of more than ``_MOST_DIGITS`` characters or digits after the point is the double alone. Raises ValueError for other text.
    """
    near = float(text)
    if not math.isfinite(near) or len(text) > _MOST_DIGITS:
        return near
    try:
        exact = Decimal(text)
    except InvalidOperation:  # an exponent of too many digits
        return near
    places = exact.as_tuple().exponent
    if not isinstance(places, int) or places < -_MOST_DIGITS or exact == Decimal(repr(near)):
        return near
    plain = f"{exact:f}"
    return WrittenFloat(plain.rstrip("0").rstrip(".") if "." in plain else plain)


def _as_written(value: Any, read: ValidatorFunctionWrapHandler) -> float:
    """Return a number with the digits that a person wrote."""
    near: float = read(value)
    if isinstance(value, WrittenFloat):
        return value
    return written_float(str(value)) if isinstance(value, (str, int)) else near


def _option(value: Any) -> Any:
    """Option values become strings, as Spark wants them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return value


def any_case(word: str) -> str:
    """A pattern of ``word`` in upper, lower and mixed case: JSON schemas know no flags."""
    return "".join(f"[{c.upper()}{c.lower()}]" if c.isalpha() else re.escape(c) for c in word)


def written(what: str, *patterns: str, **more: Any) -> dict[str, Any]:
    """The JSON schema of text of any of these spellings; an editor says ``what`` of others."""
    pattern = patterns[0] if len(patterns) == 1 else f"({'|'.join(patterns)})"
    return {"type": "string", "pattern": rf"^\s*{pattern}\s*$", "patternErrorMessage": what, **more}


_NUMBER_OF: Final = r"[0-9]{1,20}(\.[0-9]{1,20})?"
_DURATION_PATTERN: Final = rf"({_NUMBER_OF}\s*({'|'.join(map(any_case, sorted(_UNITS, key=len, reverse=True)))})[sS]?\s*)+"
_DURATION_SCHEMA: Final = written(
    DURATION_HINT,
    _DURATION_PATTERN,
    examples=["10 minutes", "1 hour", "7 days"],
)
_LENGTH_SCHEMA: Final = written(
    "write a number and a unit, such as 10 minutes, 1 hour, 1 week, 1 month, 1 quarter, 1 year",
    _DURATION_PATTERN,
    rf"0*[1-9][0-9]{{0,3}}\s*({'|'.join(map(any_case, _MONTHS))})[sS]?",
    examples=["1 hour", "1 day", "1 month"],
)
_SIZE_SCHEMA: Final = {
    **written("write a number and b, k, m or g, such as 256m", r"0*[1-9][0-9]{0,19}\s*([bB]|[kKmMgG][bB]?)?", examples=["256m", "1g"]),
    "type": ["string", "integer"],
    "minimum": 1,
}
_PERCENT_SCHEMA: Final = written(
    "write a share of 0% to 100%", r"(0?[0-9]{1,2}(\.[0-9]{1,9})?|100(\.0{1,9})?)\s*%", examples=["1%", "0.5%", "100%"]
)
_BATCHES_SCHEMA: Final = written("write it as 100 batches", r"0*[1-9][0-9]{0,8}\s*batch(es)?", examples=["1 batch", "100 batches"])

Duration = Annotated[int, BeforeValidator(_duration), WithJsonSchema(_DURATION_SCHEMA)]
"""A duration >= 0 in microseconds, written as text with a unit."""

PositiveDuration = Annotated[int, BeforeValidator(_positive_duration), WithJsonSchema(_DURATION_SCHEMA)]
"""A duration > 0 in microseconds, written as text with a unit."""

WindowLength = Annotated[int | Months, PlainValidator(_window_length), WithJsonSchema(_LENGTH_SCHEMA)]
"""Read the length of tumbling windows: a ``PositiveDuration``, or ``Months``, also of quarters and years."""

Size = Annotated[str, BeforeValidator(_size), WithJsonSchema(_SIZE_SCHEMA)]
"""Bytes in Spark's spelling (``256m``)."""

Percent = Annotated[float, BeforeValidator(_percent), WithJsonSchema(_PERCENT_SCHEMA)]
"""A share from 0 to 100, written as text with a percent sign."""

Batches = Annotated[int, BeforeValidator(_batches), WithJsonSchema(_BATCHES_SCHEMA)]
"""A number of batches, written as text with its unit."""

# Constraints stand before the validator in these types, so that they reach the JSON schema.
WHOLE: Final = BeforeValidator(_integer)
NUMBER: Final = BeforeValidator(_number)
Number = Annotated[float, Field(allow_inf_nan=False), NUMBER]
ExactNumber = Annotated[float, Field(allow_inf_nan=False), NUMBER, WrapValidator(_as_written)]
"""A number that keeps the digits that a person wrote: see ``WrittenFloat``."""

Option = Annotated[str, BeforeValidator(_option), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=64)]
"""A name usable as a column or table name without quotes."""

JobName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
