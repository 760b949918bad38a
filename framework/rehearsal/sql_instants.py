"""The functions of Spark SQL that convert numbers and texts to instants, as ``skyband init`` and hints propose them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from sqlglot import exp

Value: TypeAlias = Callable[[Any], Any]
Part: TypeAlias = tuple[str, Value]

_MOST: Final = 2**63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LETTERS: Final = {"yyyy": (r"(?P<y>\d{4})", 4), "yy": (r"(?P<yy>\d{2})", 2)} | {
    letters: (rf"(?P<{letters[0]}>\d{{2}})", 2) for letters in ("MM", "dd", "HH", "mm", "ss")
}


class Unclear(Exception):
    """An SQL construct that is not evaluated without Spark; the message names it."""


def of_number(unit: int) -> Callable[[list[Part], Any], Part]:
    """Evaluate ``timestamp_seconds`` and similar functions of a number of ``unit`` microseconds."""

    def make(parts: list[Part], node: Any) -> Part:
        (type_, value), *others = parts
        if others or type_ not in {"int", "bigint"}:
            raise Unclear(f"{str(node.this).lower()} of {', '.join(t for t, _ in parts)}")

        def instant(row: Any) -> int | None:
            number = value(row)
            if number is None:
                return None
            if not -_MOST <= number * unit < _MOST:
                raise Unclear(f"an instant out of range ({number})")
            return int(number) * unit

        return "timestamp", instant

    return make


def of_text(parts: list[Part], node: Any) -> Part:
    """Evaluate ``try_to_timestamp`` with a format of digits: null for a text that does not match."""
    if len(parts) != 2 or parts[0][0] != "string" or not isinstance(node.expressions[1], exp.Literal):
        raise Unclear("try_to_timestamp of such operands")
    value, regex = parts[0][1], _regex(str(parts[1][1](None)))
    return "timestamp", lambda row: None if (text := value(row)) is None else _parsed(regex, text)


def of_parts(parts: list[Part], node: Any) -> Part:
    """Evaluate ``make_timestamp`` of integers: null for a date that does not exist."""
    if len(parts) != 6 or any(t not in ("int", "bigint") for t, _ in parts):
        raise Unclear(f"make_timestamp of {', '.join(t for t, _ in parts)}")
    values = [v for _, v in parts]

    def instant(row: Any) -> int | None:
        given = [v(row) for v in values]
        if None in given:
            return None
        if given[5] == 60 or not 1 <= given[0] <= 9999 or any(not -(2**31) <= g < 2**31 for g in given):
            raise Unclear("make_timestamp of a 60th second, of numbers outside of int, or of years without four digits")
        return _micros(given)

    return "timestamp", instant


def whole_quotient(parts: list[Part], node: Any) -> Part:
    """Evaluate ``div``: rounds towards zero; null for division by zero."""
    (one, x), (other, y) = parts
    if {one, other} - {"int", "bigint"}:
        raise Unclear(f"div of {one} and {other}")

    def quotient(row: Any) -> int | None:
        a, b = x(row), y(row)
        if a is None or b is None or not b:
            return None
        if b == -1 and a == -_MOST:
            raise Unclear("a quotient out of range")
        found: int = abs(a) // abs(b)
        return found if (a < 0) == (b < 0) else -found

    return "bigint", quotient


def _regex(form: str) -> re.Pattern[str]:
    made, i, seen = "", 0, set[str]()
    while i < len(form):
        run = re.match(r"([A-Za-z])\1*", form[i:])
        if run is None:
            if form[i] not in " .-/:,_":
                raise Unclear(f"the format {form!r}")
            made += re.escape(form[i])
            i += 1
            continue
        if run[0] not in _LETTERS or run[0] in seen:
            raise Unclear(f"the format {form!r}")
        seen.add(run[0])
        made += _LETTERS[run[0]][0]
        i += len(run[0])
    if not {"MM", "dd"} <= seen or len(seen & {"yyyy", "yy"}) != 1 or (seen & {"mm", "ss"} and "HH" not in seen):
        raise Unclear(f"the format {form!r}")
    return re.compile(made, re.ASCII)


def _parsed(regex: re.Pattern[str], text: str) -> int | None:
    m = regex.fullmatch(text)
    if m is None:
        return None
    found = m.groupdict("0")
    year = int(found["y"]) if "y" in found else 2000 + int(found["yy"])
    return _micros([year, *(int(found.get(part, "0")) for part in ("M", "d", "H", "m", "s"))])


def _micros(parts: list[int]) -> int | None:
    try:
        return (datetime(*parts, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)  # type: ignore[misc, arg-type]
    except (ValueError, OverflowError):
        return None
