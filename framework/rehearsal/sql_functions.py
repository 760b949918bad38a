"""The functions and casts of Spark SQL that ``sql`` evaluates, each with the types for which its result equals Spark's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, TypeAlias

from sqlglot import exp

from skyband.framework.rehearsal.sql_instants import Unclear, of_number, of_parts, of_text, whole_quotient
from skyband.framework.row_rules.both_regex import for_java
from skyband.framework.spec.parsing.cells import instant

Value: TypeAlias = Callable[[Any], Any]
Part: TypeAlias = tuple[str, Value]
Function: TypeAlias = Callable[[list[Part], Any], Part]

_DAY: Final = 86_400_000_000
_BITS: Final = {"int": 32, "bigint": 64}


def wrap(value: Any, type_: str) -> Any:
    """Wrap an integer to the range of its type."""
    if type_ not in _BITS or value is None:
        return value
    half = 1 << (_BITS[type_] - 1)
    return (value + half) % (2 * half) - half


def casting(type_: str, to: str, value: Value, literal: bool = False) -> Value:
    """``value`` of ``type_`` as ``to``; ``literal``: it is written out, so that a text can be looked at now. Raises Unclear."""
    if type_ in (to, "null"):
        return value
    if to == "double" and type_ in {"int", "bigint", "decimal", "float"}:
        return lambda row: None if (v := value(row)) is None else float(v)
    if to in _BITS and type_ in _BITS:
        return lambda row: wrap(value(row), to)
    if to in _BITS and type_ == "double":
        return lambda row: None if (v := value(row)) is None else _whole(v, _BITS[to])
    if to == "string" and type_ in _BITS:
        return lambda row: None if (v := value(row)) is None else str(v)
    if to == "timestamp" and type_ == "date":
        return lambda row: None if (v := value(row)) is None else v * _DAY
    if literal and type_ == "string":
        return _of_text(value(None), to)
    raise Unclear(f"a cast of {type_} to {to}")


def _of_text(text: Any, to: str) -> Value:
    """Return the value of a text literal."""
    if to == "double" and text == "NaN":
        return lambda row: math.nan
    if to == "double" and re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text):
        number = float(text)
        return lambda row: number
    if to in {"timestamp", "date"}:
        try:
            at = instant(text)
        except ValueError:
            raise Unclear(f"the text {text!r} as a {to}") from None
        if to == "date" and at % _DAY:
            raise Unclear(f"the text {text!r} as a date")
        found = at // _DAY if to == "date" else at
        return lambda row: found
    raise Unclear(f"the text {text[:40]!r} as {to}")


def _whole(value: float, bits: int) -> int:
    """Cast as Java does: towards zero, clamped to the type's range, NaN to 0."""
    if value != value:
        return 0
    half = 1 << (bits - 1)
    return half - 1 if value >= half else -half if value <= -half else int(value)


def _of(types: tuple[str, ...], result: str | None, function: Callable[[Any], Any]) -> Function:
    """Make a function of one value of one of ``types`` that maps null to null."""

    def make(parts: list[Part], node: Any) -> Part:
        (type_, value), *others = parts
        if others or type_ not in types:
            raise Unclear(f"{_name(node)} of {', '.join(t for t, _ in parts)}")
        return result or type_, lambda row: None if (v := value(row)) is None else wrap(function(v), result or type_)

    return make


def _name(node: Any) -> str:
    return str(node.sql_name()).lower()


def _of_texts(result: str, function: Callable[..., Any]) -> Function:
    """Make a function of texts that maps null to null."""

    def make(parts: list[Part], node: Any) -> Part:
        if any(t != "string" for t, _ in parts):
            raise Unclear(f"{_name(node)} of {', '.join(t for t, _ in parts)}")

        def value(row: Any) -> Any:
            given = [v(row) for _, v in parts]
            return None if None in given else function(*given)

        return result, value

    return make


def _ascii(function: Callable[[str], str]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        if not text.isascii():
            raise Unclear("letters outside of ASCII turned into large or small ones")
        return function(text)

    return apply


def _extreme(largest: bool) -> Function:
    """Evaluate ``greatest`` and ``least``: nulls are skipped, NaN is the largest."""

    def make(parts: list[Part], node: Any) -> Part:
        types = {t for t, _ in parts} - {"null"}
        if len(types) != 1 or not types <= {"int", "bigint", "double", "timestamp", "date"}:
            raise Unclear(f"{_name(node)} of {', '.join(sorted(types))}")
        values = [v for _, v in parts]

        def value(row: Any) -> Any:
            given = [v for f in values if (v := f(row)) is not None]
            pick = max if largest else min
            return pick(given, key=lambda v: (v != v, 0 if v != v else v)) if given else None

        return types.pop(), value

    return make


def _matches(parts: list[Part], node: Any) -> Part:
    """``rlike`` with an expression that both engines read alike; ``quality.rows`` has it rewritten for Java already."""
    (type_, value), (_, pattern) = parts
    if type_ != "string" or not isinstance(node.expression, exp.Literal):
        raise Unclear("rlike with such operands")
    text = pattern(None)
    python = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), text.removeprefix("(?d)")).replace(r"\z", r"\Z")
    try:
        known = for_java(python)
        compiled = re.compile(python)
    except Exception:
        raise Unclear("a regular expression that Spark may read otherwise") from None
    if text.startswith("(?d)") and known != text:
        raise Unclear("a regular expression that Spark may read otherwise")
    return "boolean", lambda row: None if (v := value(row)) is None else compiled.search(v) is not None


def _like(parts: list[Part], node: Any) -> Part:
    (type_, value), (_, pattern) = parts
    if type_ != "string" or not isinstance(node.expression, exp.Literal):
        raise Unclear("like with such operands")
    like, wanted = pattern(None), not node.args.get("negate")
    return "boolean", lambda row: None if (v := value(row)) is None else _fits(v, like) is wanted


def _fits(text: str, pattern: str) -> bool:
    """Return True if the LIKE ``pattern`` of characters, ``_`` and ``%`` fits ``text``. O(len(text) * len(pattern))."""
    at = place = 0
    star, kept = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "%":
            star, kept = place, at
            place += 1
        elif place < len(pattern) and pattern[place] in ("_", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            kept += 1
            at, place = kept, star + 1
        else:
            return False
    return not pattern[place:].strip("%")


def _trim(parts: list[Part], node: Any) -> Part:
    (type_, value), *others = parts
    if others or node.args.get("position") or type_ != "string":
        raise Unclear("trim of something else than spaces at both ends")
    return type_, lambda row: None if (v := value(row)) is None else v.strip(" ")


def _nullif(parts: list[Part], node: Any) -> Part:
    (type_, x), (other, y) = parts
    if type_ != other or type_ not in {"int", "bigint", "double", "string", "boolean", "date", "timestamp"}:
        raise Unclear(f"nullif of {type_} and {other}")

    def value(row: Any) -> Any:
        a, b = x(row), y(row)
        return None if a is not None and b is not None and (a == b or (a != a and b != b)) else a

    return type_, value


def _rounded(x: Any) -> Any:
    """Round a double to a whole number, halves away from zero; zero has no sign."""
    if not isinstance(x, float) or not math.isfinite(x):
        return x
    return float(Decimal(repr(x)).to_integral_value(ROUND_HALF_UP)) + 0.0


def _part_of_day(micros: int) -> Function:
    return _of(("timestamp",), "int", lambda at: at % _DAY // micros % (24 if micros == 3_600_000_000 else 60))


FUNCTIONS: Final[Mapping[str, Function]] = {
    "Abs": _of(("int", "bigint", "double"), None, abs),
    "Length": _of(("string",), "int", len),
    "Lower": _of(("string",), None, _ascii(str.lower)),
    "Upper": _of(("string",), None, _ascii(str.upper)),
    "Sqrt": _of(("double",), None, lambda x: math.sqrt(x) if x >= 0 else math.nan),
    "Floor": _of(("double",), "bigint", lambda x: _whole(x if not math.isfinite(x) else float(math.floor(x)), 64)),
    "Ceil": _of(("double",), "bigint", lambda x: _whole(x if not math.isfinite(x) else float(math.ceil(x)), 64)),
    "Sign": _of(("int", "bigint", "double"), "double", lambda x: math.copysign(1.0, x) if x > 0 or x < 0 else float(x)),
    "Round": _of(("int", "bigint", "double"), None, _rounded),
    "Radians": _of(("int", "bigint", "double"), "double", lambda x: math.radians(float(x))),
    "UnixMicros": _of(("timestamp",), "bigint", lambda at: at),
    "Hour": _part_of_day(3_600_000_000),
    "Minute": _part_of_day(60_000_000),
    "Concat": _of_texts("string", lambda *texts: "".join(texts)),
    "DPipe": _of_texts("string", lambda a, b: a + b),
    "Trim": _trim,
    "StartsWith": _of_texts("boolean", str.startswith),
    "EndsWith": _of_texts("boolean", str.endswith),
    "Contains": _of_texts("boolean", str.__contains__),
    "Like": _like,
    "RegexpLike": _matches,
    "Nullif": _nullif,
    "Greatest": _extreme(True),
    "Least": _extreme(False),
    "IntDiv": whole_quotient,
    "TimestampFromParts": of_parts,
    "timestamp_seconds": of_number(1_000_000),
    "timestamp_millis": of_number(1_000),
    "timestamp_micros": of_number(1),
    "try_to_timestamp": of_text,
}
"""Functions by the name of sqlglot's node, or by their own name in lower case if sqlglot has no node for them."""
