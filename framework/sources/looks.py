"""Decide whether the text of a cell fits a column type as Spark reads it, and describe it if it does not."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from skyband.framework.base.decimals import decimal_digits, fitted

_INT: Final = re.compile(r"[+-]?[0-9]+")
_REAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL: Final = {"NaN", "Inf", "-Inf", "Infinity", "-Infinity", "+Infinity"}
_SPECIAL_JSON: Final = {"NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"}
"""Special values of floats, in text and in strings of JSON."""
_STAMP: Final = re.compile(
    r"[+-]?(?P<y>\d{4,6})(-(?P<m>\d{1,2})(-(?P<d>\d{1,2})([ T](?P<H>\d{1,2})(:(?P<M>\d{1,2})(:(?P<S>\d{1,2})(\.\d*)?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d{1,2}(:?\d{2})?|[A-Za-z_]+/[A-Za-z_/]+|(?P<zone>[A-Z]{3}))?)?)?)?"
)
_ZONES: Final = frozenset((
    "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "EST", "HST", "IET", "IST", "JST", "MIT",
    "MST", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "UCT", "VST", "CET", "EET", "MET", "WET",
))  # fmt: skip
"""The time zones of three letters in Java."""
_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_EPOCH: Final = re.compile(r"-?(\d{9,19})(\.\d+)?")
_SLASHED: Final = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})(?:[ T](\d{1,2}):(\d{2})(:\d{2})?)?")
_NOTHING: Final = {"na", "n/a", "null", "none", "nil", "nan", "-", "--", "?", "\\n", "missing", "#n/a", "unknown"}
_TRUTH: Final = {"yes", "no", "y", "n", "t", "f", "on", "off", "0", "1"}
_FLOAT: Final = (2 - 2**-24) * 2.0**127
"""The least number that is infinite as a 32-bit float."""
_SECONDS: Final = 9_223_372_036_854
"""The most seconds whose microseconds fit 64 bits."""
_RANGE: Final = {"int": 2**31, "bigint": 2**63}


class Spelled(float):
    """A float that JSON spells in letters: NaN, Infinity."""


@dataclass(frozen=True, slots=True)
class Looks:
    """A description of a value, and a hint."""

    like: str
    hint: str


def fits_text(type_: str, text: str) -> bool:
    """Return True if the text of a cell parses as ``type_`` without a format. O(length)."""
    if type_ in _RANGE:
        return _INT.fullmatch(text) is not None and len(text) < 30 and -_RANGE[type_] <= int(text) < _RANGE[type_]
    if type_ in ("double", "float") or type_.startswith("decimal"):
        text = text.strip()
        if type_.startswith("decimal"):
            digits = decimal_digits(type_)
            return _REAL.fullmatch(text) is not None and (digits is None or fitted(Decimal(text), *digits) is not None)
        return text in _SPECIAL or (_REAL.fullmatch(text) is not None and not beyond(type_, float(text)))
    if type_ == "boolean":
        return text.lower() in ("true", "false")
    if type_ in ("timestamp", "date"):
        return _is_stamp(text.strip())
    return True


def beyond(type_: str, value: float) -> bool:
    """Return True if a number is too large for its type, and would be infinite."""
    return abs(value) >= (_FLOAT if type_ == "float" else math.inf)


def fits_json(type_: str, value: Any) -> bool:
    """Return True if a JSON value parses as ``type_``. A number is read as seconds for a timestamp."""
    if type_.startswith("array<"):
        element = type_.removeprefix("array<").removesuffix(">")
        return isinstance(value, list) and all(x is None or fits_json(element, x) for x in value)
    if isinstance(value, bool):
        return type_ in ("boolean", "string")
    if isinstance(value, (int, float)):
        if type_ in _RANGE:
            return isinstance(value, int) and -_RANGE[type_] <= value < _RANGE[type_]
        if type_ == "timestamp":
            return isinstance(value, int) and abs(value) <= _SECONDS
        if type_ in ("double", "float") and not isinstance(value, Spelled):
            return not beyond(type_, value)
        if type_.startswith("decimal") and isinstance(value, int):
            return fits_text(type_, str(value))
        return type_ not in ("boolean", "date")
    if isinstance(value, str):
        if type_ in ("double", "float"):
            return value in _SPECIAL_JSON
        # Change feeds put decimals in quotes, so that they stay exact.
        return type_ not in ("int", "bigint", "boolean") and fits_text(type_, value)
    return type_ == "string"


def _is_stamp(text: str) -> bool:
    m = _STAMP.fullmatch(text)
    if m is None:
        return False
    year, month, day = int(m["y"]), int(m["m"] or 1), int(m["d"] or 1)
    if m["zone"] and m["zone"] not in _ZONES:
        return False
    return _exists(year, month, day) and int(m["H"] or 0) < 24 and int(m["M"] or 0) < 60 and int(m["S"] or 0) < 60


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(2000 + year % 400, month, day)
    except ValueError:
        return False
    return True


def stands_for_null(text: str) -> bool:
    """Return True for NA, null, - and other marks for a value that is not there."""
    return text.strip().lower() in _NOTHING


def looks_of(type_: str, column: str, text: str, quoted: bool = False) -> Looks | None:
    """Describe a text that does not fit ``type_``; None if it is unknown. ``quoted``: it is a string in JSON."""
    bare = text.strip()
    if stands_for_null(bare) and not quoted:
        return Looks("a mark for 'nothing'", f'options: {{nullValue: "{text}"}}')
    if type_ in ("timestamp", "date"):
        return _instant(type_, column, bare)
    if quoted and fits_text(type_, bare):
        return Looks("a number or truth value in quotes", f"declare it string and derive the value: cast({column} as {type_})")
    if type_ == "boolean":
        truth = bare.lower() in _TRUTH
        return Looks("a truth value spelled another way", f"declare it string and derive it: {column} = '{bare}'") if truth else None
    return _number(type_, column, text)


def _instant(type_: str, column: str, text: str) -> Looks | None:
    whole = _EPOCH.fullmatch(text)
    if whole is not None:
        return _since_1970(column, len(whole[1]), whole[2] is not None)
    if re.fullmatch(r"(19|20)\d{6}", text):
        return Looks("a date without dashes", f'options: {{{_format_option(type_)}: "yyyyMMdd"}}')
    dashed = _STAMP.fullmatch(text)
    if dashed is not None and "-" in text[1:]:
        return _impossible(dashed, text)
    if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?(\.\d+)?", text):
        return Looks("a time of day without a date", "declare it string, and derive the instant with the column that holds the date")
    if re.search(r"[A-Za-z]{3}", text) and any(re.search(rf"\b{month}", text.lower()) for month in _MONTHS):
        return Looks("a date with the name of a month", "declare it string and derive it with try_to_timestamp and its format")
    m = _SLASHED.fullmatch(text)
    if m is None or (len(m[1]) < 3 and len(m[4]) < 2):
        return None
    year_first = len(m[1]) == 4
    first, second, last = int(m[1]), int(m[3]), int(m[4])
    # One letter reads one digit or two, two letters read two.
    short = len(m[3]) == 1 or len(m[4] if year_first else m[1]) == 1
    month, day = ("M", "d") if short else ("MM", "dd")
    if year_first:
        if not _exists(first, second, last):
            return Looks("a date that does not exist", "fix it in the source")
        said, order = "a date with other marks than '-'", ["yyyy", month, day]
    else:
        year = "yyyy" if len(m[4]) == 4 else "yy"
        order = [month, day, year] if second > 12 else [day, month, year]
        said = f"a date with the {'month' if second > 12 else 'day'} first"
        if first <= 12 and second <= 12:
            said = f"a date with the day first (or the month: then {month} stands before {day})"
    clock = f" {'H' if m[5] and len(m[5]) == 1 else 'HH'}:mm{':ss' if m[7] else ''}" if m[5] and type_ == "timestamp" else ""
    return Looks(said, f'options: {{{_format_option(type_)}: "{m[2].join(order)}{clock}"}}')


def _impossible(m: re.Match[str], text: str) -> Looks:
    """Describe which part of an instant in Spark's format does not exist."""
    year, month, day = (int(m[part] or 1) for part in ("y", "m", "d"))
    if (m["m"], m["d"]) in (("00", "00"), ("0", "0")):
        return Looks("a date of zeros, which stands for none", f'options: {{nullValue: "{text}"}}')
    if not _exists(year, month, day):
        return Looks("a date that does not exist", "fix it in the source")
    if m["zone"] and m["zone"] not in _ZONES:
        return Looks("an instant in an unknown zone", "write the offset, such as +01:00, or Z")
    if int(m["H"] or 0) == 24:
        return Looks("the hour 24, which ends a day", "write 00:00:00 of the next day")
    if m["S"] == "60":
        return Looks("a leap second, which Spark does not have", "write the second before or after it")
    return Looks("a time that does not exist", "fix it in the source")


def _format_option(type_: str) -> str:
    return "timestampFormat" if type_ == "timestamp" else "dateFormat"


def _since_1970(column: str, digits: int, fraction: bool) -> Looks:
    """Guess the unit by the number of digits: seconds have 10 today."""
    unit, derived = (
        ("seconds", f"timestamp_seconds({column})") if digits <= 10
        else ("milliseconds", f"timestamp_millis({column})") if digits <= 13
        else ("microseconds", f"timestamp_micros({column})") if digits <= 16
        else ("nanoseconds", f"timestamp_micros({column} div 1000)")
    )  # fmt: skip
    said = "double" if fraction else "bigint"
    if fraction and unit != "seconds":
        derived = f"timestamp_millis(cast({column} as bigint))" if unit == "milliseconds" else f"timestamp_micros(cast({column} as bigint))"
    return Looks(f"epoch {unit}", f"declare it {said} under another name and derive it with {derived}")


def _number(type_: str, column: str, text: str) -> Looks | None:
    bare = text.strip()
    if type_ in _RANGE:
        if bare != text and _INT.fullmatch(bare):
            return Looks("a number with blanks around it", "options: {ignoreLeadingWhiteSpace: true, ignoreTrailingWhiteSpace: true}")
        if _INT.fullmatch(bare):
            large = type_ == "bigint" or len(bare) >= 30 or not fits_text("bigint", bare)
            return Looks(f"a number too large for {type_}", f"declare {'decimal(38,0)' if large else 'bigint'}")
        if _REAL.fullmatch(bare):
            return Looks("a number with a fraction", "declare double")
        if _is_stamp(bare) and "-" in bare[1:]:
            return Looks("a date or an instant", "declare timestamp")
    string = "declare it string and derive it: "
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", bare):
        return Looks("a number with commas between thousands", f"{string}cast(replace({column}, ',', '') as double)")
    if re.fullmatch(r"[+-]?\d+(\.\d{3})*,\d+", bare):
        return Looks("a number with a decimal comma", f"{string}cast(replace({column}, ',', '.') as double)")
    found = re.search(r"\d+(\.\d+)?", bare)
    if found is not None and len(bare) - len(found[0]) <= 8:
        return Looks("a number with something around it", f"{string}cast(regexp_extract({column}, '([0-9.]+)', 1) as double)")
    return Looks("text", "declare string")
