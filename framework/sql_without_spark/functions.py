"""The functions of Spark SQL that are evaluated without Spark, each with the types for which its values equal Spark's.

A function is a rule that makes a ``Typed`` of its arguments, or returns None for arguments that it has no rule for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from skyband.framework.row_rules.row_expectations import for_java
from skyband.framework.sql_without_spark import rules
from skyband.framework.sql_without_spark.rules import Unclear, decimal_type, digits_of
from skyband.framework.sql_without_spark.translation import Typed

Function: TypeAlias = Callable[[Any, list[Typed]], Typed | None]
"""Gets the compiler and the arguments."""

_NUMBERS: Final = ("int", "bigint", "float", "double")
_WHOLE: Final = ("int", "bigint")
_AT: Final = "make_timestamp({})"
_DAY: Final = "(date '1970-01-01' + {})"
_UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _of(type_: str, template: str, *types: str | Sequence[str], same: bool = False) -> Function:
    """Return a function that DuckDB evaluates: of values of ``types``, as ``type_``, or as the type of the first with ``same``."""

    def make(c: Any, given: list[Typed]) -> Typed | None:
        made = _fitting(c, given, types)
        return None if made is None else Typed(made[0].type if same else type_, template.format(*(v.sql for v in made)))

    return make


def _by(type_: str, function: Callable[..., Any], *types: str | Sequence[str], least: int | None = None) -> Function:
    """Return a function whose rule is in Python; the last arguments may be missing down to ``least``."""

    def make(c: Any, given: list[Typed]) -> Typed | None:
        expected = types[: len(given)] if least is not None and len(given) >= least else types
        made = _fitting(c, given, expected)
        return None if made is None else c.made(type_, function, *made)

    return make


def _fitting(c: Any, given: list[Typed], types: Sequence[str | Sequence[str]]) -> list[Typed] | None:
    """Return the arguments as values of ``types``, in which Spark widens numbers and dates on its own; None if one has another type."""
    if len(given) != len(types):
        return None
    made = []
    for value, expected in zip(given, types, strict=True):
        known = (expected,) if isinstance(expected, str) else tuple(expected)
        if value.type in known:
            made.append(value)
        elif value.type == "null" or (known[-1] == "timestamp" and value.type == "date"):
            made.append(c.to(value, known[-1]))
        elif known == ("date",) and value.type == "timestamp":
            made.append(c.cast_to(value, "date"))
        elif known[-1] == "double" and (value.type in _NUMBERS or digits_of(value.type)):
            made.append(c.to(value, "double"))
        elif known == ("bigint",) and value.type == "int":
            made.append(c.to(value, "bigint"))
        else:
            return None
    return made


def _part(of_instant: str, of_day: str | None = None) -> Function:
    """Return a part of a date or an instant."""

    def make(c: Any, given: list[Typed]) -> Typed | None:
        (value,) = given
        if of_day is not None and value.type in ("date", "null"):
            return Typed("int", f"{of_day.format(_DAY.format(c.to(value, 'date').sql))}::integer")
        if value.type not in ("timestamp", "date"):
            return None
        return Typed("int", f"({of_instant.format(c.to(value, 'timestamp').sql)})::integer")

    return make


def _calendar(template: str) -> Function:
    return _part(template.format(_AT), template)


def _text(value: Typed) -> str:
    """Return a constant text. Raises TypeError for anything else."""
    if not isinstance(value.constant, str):
        raise TypeError
    return value.constant


def _number(value: Typed) -> int:
    if not isinstance(value.constant, int):
        raise TypeError
    return value.constant


def _coalesced(c: Any, given: list[Typed]) -> Typed:
    type_, made = c.together(given)
    return Typed(type_, f"coalesce({', '.join(v.sql for v in made)})")


def _nullif(c: Any, given: list[Typed]) -> Typed:
    one, other = given
    value = c.once(one)
    return Typed(value.type, f"(case when {c.comparison('=', value, other).sql} then null else {value.sql} end)")


def _chosen(c: Any, given: list[Typed]) -> Typed | None:
    test, *branches = given
    if test.type not in ("boolean", "null") or not 1 <= len(branches) <= 2:
        return None
    found: Typed = c.chosen([c.to(test, "boolean")], [*branches, *([Typed("null", "null")] if len(branches) == 1 else [])])
    return found


def _if_not_null(c: Any, given: list[Typed]) -> Typed:
    value, yes, no = given
    found: Typed = c.chosen([Typed("boolean", f"({value.sql} is not null)")], [yes, no])
    return found


def _is_null(word: str) -> Function:
    def make(c: Any, given: list[Typed]) -> Typed:
        (value,) = given
        return Typed("boolean", f"({value.sql} {word})")

    return make


def _extreme(name: str) -> Function:
    """Return ``greatest`` or ``least``: nulls are skipped, NaN is the largest."""

    def make(c: Any, given: list[Typed]) -> Typed | None:
        type_, made = c.together(given)
        if len(given) < 2 or (type_ not in (*_NUMBERS, "timestamp", "date", "string") and not digits_of(type_)):
            return None
        return Typed(type_, f"{name}({', '.join(v.sql for v in made)})")

    return make


def _rounded(c: Any, given: list[Typed]) -> Typed | None:
    value, *more = given
    places = _number(more[0]) if more else 0
    if len(more) > 1 or not 0 <= places <= 30:
        return None
    if value.type in _WHOLE:
        return value
    numbers = digits_of(value.type)
    if numbers:
        scale = min(numbers[1], places)
        type_ = decimal_type(min(numbers[0] - numbers[1] + 1 + scale, 38), scale)
        if numbers[0] - numbers[1] + 1 + scale > 38:
            return None
        found: Typed = c.made(type_, partial(rules.rounded_decimal, scale), value)
        return found
    return c.made("double", partial(rules.rounded, places), value) if value.type == "double" else None


def _whole(function: Callable[[float], int]) -> Function:
    def make(c: Any, given: list[Typed]) -> Typed | None:
        (value,) = given
        return c.to(value, "bigint") if value.type in _WHOLE else c.made("bigint", function, value) if value.type == "double" else None

    return make


def _absolute(c: Any, given: list[Typed]) -> Typed | None:
    (value,) = given
    if value.type in _WHOLE:
        return Typed(value.type, f"wrapped_{value.type}(abs({value.sql}::hugeint))")
    return Typed(value.type, f"abs({value.sql})") if value.type in _NUMBERS or digits_of(value.type) else None


def _divided(c: Any, given: list[Typed]) -> Typed | None:
    x, y = given
    if x.type not in _WHOLE or y.type not in _WHOLE:
        return None
    return Typed("bigint", f"({x.sql}::hugeint // {c.not_zero(y).sql}::hugeint)::bigint")


def _remainder(c: Any, given: list[Typed]) -> Typed | None:
    type_, made = c.together(given)
    return c.made(type_, partial(rules.positive_remainder, type_), *made) if type_ in _WHOLE and len(made) == 2 else None


def _concatenated(c: Any, given: list[Typed]) -> Typed | None:
    if not given or any(v.type not in ("string", "null") for v in given):
        return None
    return Typed("string", "(" + " || ".join(c.to(v, "string").sql for v in given) + ")")


def _joined(c: Any, given: list[Typed]) -> Typed | None:
    if len(given) < 2 or any(v.type not in ("string", "null") for v in given):
        return None
    _text(given[0])
    return Typed("string", f"concat_ws({', '.join(c.to(v, 'string').sql for v in given)})")


def _split(c: Any, given: list[Typed]) -> Typed | None:
    value, by = given
    text = _text(by)
    if value.type != "string" or not text or re.search(r"[\\.^$|?*+()\[\]{}]", text):
        return None
    found: Typed = c.made("array<string>", lambda given: given.split(text), value)
    return found


def _size(null: str) -> Function:
    def make(c: Any, given: list[Typed]) -> Typed | None:
        (value,) = given
        return Typed("int", f"coalesce(len({value.sql}), {null})::integer") if value.type.startswith("array<") else None

    return make


def _contained(c: Any, given: list[Typed]) -> Typed | None:
    values, one = given
    if values.type != f"array<{one.type}>" or one.type not in ("string", "int", "bigint"):
        return None
    found: Typed = c.made("boolean", lambda given, x: True if x in given else None if None in given else False, values, one)
    return found


def _regex(value: Typed, pattern: Typed) -> Callable[[str], re.Pattern[str]]:
    """Return the pattern that fits a text as Java's does. Raises Unclear for an expression that the two may read otherwise.

    ``quality.rows`` has it rewritten for Java already. Otherwise Java knows more ends of lines than Python.
    """
    text = _text(pattern)
    if value.type != "string":
        raise TypeError
    python = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), text.removeprefix("(?d)")).replace(r"\z", r"\Z")
    try:
        known = for_java(python)
        compiled = re.compile(python)
    except Exception:
        raise Unclear("a regular expression that Spark may read otherwise") from None
    rewritten = text.startswith("(?d)")
    if rewritten and known != text:
        raise Unclear("a regular expression that Spark may read otherwise")
    lines = not rewritten and re.search(r"[.$]", python) is not None

    def of(given: str) -> re.Pattern[str]:
        if lines and re.search("[\r\u0085\u2028\u2029]", given):
            raise Unclear("a text with an unusual end of a line in a regular expression")
        return compiled

    return of


def _matches(c: Any, given: list[Typed]) -> Typed:
    value, pattern = given
    regex = _regex(value, pattern)
    found: Typed = c.made("boolean", lambda text: regex(text).search(text) is not None, value)
    return found


def _replaced_matches(c: Any, given: list[Typed]) -> Typed | None:
    value, pattern, new = given
    regex, text = _regex(value, pattern), _text(new)
    if "$" in text or regex("").search("") is not None:
        return None

    def replace(given: str) -> str:
        made = regex(given).sub(lambda _: text, given)
        if len(made) > 1_000_000:
            raise Unclear("a text of more than 1,000,000 characters")
        return made

    found: Typed = c.made("string", replace, value)
    return found


def _extracted(c: Any, given: list[Typed]) -> Typed | None:
    value, pattern, *more = given
    regex, group = _regex(value, pattern), _number(more[0]) if more else 1
    if group > regex("").groups or group < 0 or len(more) > 1:
        return None

    def extract(text: str) -> str:
        match = regex(text).search(text)
        return "" if match is None else match[group] or ""

    found: Typed = c.made("string", extract, value)
    return found


def _hash(c: Any, given: list[Typed]) -> Typed | None:
    value, bits = given
    return Typed("string", f"sha256({value.sql})") if value.type == "string" and _number(bits) in (0, 256) else None


def _cast(to: str) -> Function:
    def make(c: Any, given: list[Typed]) -> Typed:
        (value,) = given
        found: Typed = c.cast_to(value, to)
        return found

    return make


def _written(c: Any, given: list[Typed]) -> Typed | None:
    at, form = given
    if at.type not in ("timestamp", "date"):
        return None
    found: Typed = c.made("string", rules.writer(_text(form)), c.to(at, "timestamp"))
    return found


def _read(to: str) -> Function:
    """Return the instant or date of a text, by Spark's own rule or by a format."""

    def make(c: Any, given: list[Typed]) -> Typed | None:
        text, *form = given
        if not form:
            found: Typed = c.cast_to(text, to)
            return found
        if text.type != "string" or len(form) > 1:
            return None
        at: Typed = c.made("timestamp", rules.reader(_text(form[0])), text)
        found = c.cast_to(at, to)
        return found

    return make


def _read_or_null(c: Any, given: list[Typed]) -> Typed | None:
    return _read("timestamp")(c, given) if len(given) == 2 else None


def _seconds(template: str) -> Function:
    def make(c: Any, given: list[Typed]) -> Typed | None:
        (at,) = given
        if at.type not in ("timestamp", "date"):
            return None
        return Typed("bigint", template.format(c.to(at, "timestamp").sql))

    return make


def _zoned(function: Callable[..., int]) -> Function:
    def make(c: Any, given: list[Typed]) -> Typed | None:
        at, zone = given
        if at.type not in ("timestamp", "date"):
            return None
        found: Typed = c.made("timestamp", partial(function, rules.zone_of(_text(zone))), c.to(at, "timestamp"))
        return found

    return make


def _truncated(c: Any, given: list[Typed]) -> Typed | None:
    unit, at = given
    name = _text(unit).lower()
    if name not in _UNITS or at.type not in ("timestamp", "date"):
        return None
    return Typed("timestamp", f"epoch_us(date_trunc('{name}', {_AT.format(c.to(at, 'timestamp').sql)}))")


def _truncated_day(c: Any, given: list[Typed]) -> Typed | None:
    at, unit = given
    names = {
        "year": "year",
        "yyyy": "year",
        "yy": "year",
        "month": "month",
        "mm": "month",
        "mon": "month",
        "quarter": "quarter",
        "week": "week",
    }
    name = names.get(_text(unit).lower())
    if name is None or at.type not in ("timestamp", "date"):
        return None
    day = at if at.type == "date" else c.cast_to(at, "date")
    return Typed("date", f"(date_trunc('{name}', {_DAY.format(day.sql)})::date - date '1970-01-01')::integer")


FUNCTIONS: Final[Mapping[str, Function]] = {
    # conditions and nulls
    "coalesce": _coalesced,
    "nvl": _coalesced,
    "ifnull": _coalesced,
    "nullif": _nullif,
    "if": _chosen,
    "nvl2": _if_not_null,
    "isnull": _is_null("is null"),
    "isnotnull": _is_null("is not null"),
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    # numbers
    "abs": _absolute,
    "round": _rounded,
    "floor": _whole(rules.floor),
    "ceil": _whole(rules.ceiling),
    "ceiling": _whole(rules.ceiling),
    "sign": _by("double", rules.sign, "double"),
    "signum": _by("double", rules.sign, "double"),
    "sqrt": _by("double", rules.root, "double"),
    "radians": _by("double", rules.radians, "double"),
    "mod": lambda c, given: c.calculated("%", *given),
    "div": _divided,
    "pmod": _remainder,
    "negative": lambda c, given: c.minus(*given),
    "isnan": _of("boolean", "coalesce({} = 'nan'::double, false)", "double"),
    "nanvl": _of("double", "(case when {0} <> 'nan'::double then {0} when {0} is not null then {1} end)", "double", "double"),
    # texts
    "length": _of("int", "length({})::integer", "string"),
    "char_length": _of("int", "length({})::integer", "string"),
    "character_length": _of("int", "length({})::integer", "string"),
    "concat": _concatenated,
    "concat_ws": _joined,
    "lower": _by("string", rules.in_ascii(str.lower), "string"),
    "upper": _by("string", rules.in_ascii(str.upper), "string"),
    "lcase": _by("string", rules.in_ascii(str.lower), "string"),
    "ucase": _by("string", rules.in_ascii(str.upper), "string"),
    "trim": _of("string", "trim({}, ' ')", "string"),
    "ltrim": _of("string", "ltrim({}, ' ')", "string"),
    "rtrim": _of("string", "rtrim({}, ' ')", "string"),
    "startswith": _of("boolean", "starts_with({}, {})", "string", "string"),
    "endswith": _of("boolean", "ends_with({}, {})", "string", "string"),
    "contains": _of("boolean", "contains({}, {})", "string", "string"),
    "instr": _of("int", "strpos({}, {})::integer", "string", "string"),
    "substring": _by("string", rules.substring, "string", "int", "int", least=2),
    "substr": _by("string", rules.substring, "string", "int", "int", least=2),
    "left": _by("string", lambda text, n: text[: max(0, n)], "string", "int"),
    "right": _by("string", lambda text, n: text[-n:] if n > 0 else "", "string", "int"),
    "lpad": _by("string", partial(rules.padded, True), "string", "int", "string", least=2),
    "rpad": _by("string", partial(rules.padded, False), "string", "int", "string", least=2),
    "repeat": _by("string", rules.repeated, "string", "int"),
    "reverse": _by("string", lambda text: text[::-1], "string"),
    "replace": _by("string", rules.replaced, "string", "string", "string"),
    "translate": _by("string", rules.translated, "string", "string", "string"),
    "rlike": _matches,
    "regexp": _matches,
    "regexp_like": _matches,
    "regexp_replace": _replaced_matches,
    "regexp_extract": _extracted,
    "md5": _of("string", "md5({})", "string"),
    "sha2": _hash,
    # lists
    "split": _split,
    "size": _size("-1"),
    "cardinality": _size("-1"),
    "array_size": _size("null"),
    "array_contains": _contained,
    # types
    "int": _cast("int"),
    "bigint": _cast("bigint"),
    "double": _cast("double"),
    "string": _cast("string"),
    "boolean": _cast("boolean"),
    "date": _cast("date"),
    "timestamp": _cast("timestamp"),
    # instants and dates
    "year": _calendar("year({})"),
    "month": _calendar("month({})"),
    "day": _calendar("day({})"),
    "dayofmonth": _calendar("day({})"),
    "quarter": _calendar("quarter({})"),
    "dayofweek": _calendar("(dayofweek({}) + 1)"),
    "weekday": _calendar("(isodow({}) - 1)"),
    "dayofyear": _calendar("dayofyear({})"),
    "weekofyear": _calendar("week({})"),
    "hour": _part("within_day({}, 3600000000)"),
    "minute": _part("within_day({}, 60000000) % 60"),
    "second": _part("within_day({}, 1000000) % 60"),
    "date_format": _written,
    "date_trunc": _truncated,
    "trunc": _truncated_day,
    "to_date": _read("date"),
    "to_timestamp": _read("timestamp"),
    "try_to_timestamp": _read_or_null,
    "from_utc_timestamp": _zoned(rules.from_utc),
    "to_utc_timestamp": _zoned(rules.to_utc),
    "date_add": _of("date", "({} + {})::integer", "date", "int"),
    "date_sub": _of("date", "({} - {})::integer", "date", "int"),
    "datediff": _of("int", "({} - {})::integer", "date", "date"),
    "date_diff": _of("int", "({} - {})::integer", "date", "date"),
    "last_day": _of("date", "(last_day(date '1970-01-01' + {}) - date '1970-01-01')::integer", "date"),
    "add_months": _of("date", "((date '1970-01-01' + {} + to_months({}))::date - date '1970-01-01')::integer", "date", "int"),
    "make_date": _by("date", rules.of_date_parts, "int", "int", "int"),
    "make_timestamp": _by("timestamp", rules.of_parts, *[_WHOLE] * 6),
    "unix_date": _of("int", "{}", "date"),
    "date_from_unix_date": _of("date", "{}", "int"),
    "unix_micros": _of("bigint", "{}", "timestamp"),
    "unix_millis": _of("bigint", "down({}, 1000)::bigint", "timestamp"),
    "unix_seconds": _seconds("down({}, 1000000)::bigint"),
    "unix_timestamp": _seconds("({} // 1000000)::bigint"),
    "to_unix_timestamp": _seconds("({} // 1000000)::bigint"),
    "timestamp_seconds": _by("timestamp", partial(rules.of_number, 1_000_000), _WHOLE),
    "timestamp_millis": _by("timestamp", partial(rules.of_number, 1_000), _WHOLE),
    "timestamp_micros": _by("timestamp", partial(rules.of_number, 1), _WHOLE),
}
"""Functions by Spark's name for them. docs/reference/sql-without-spark.md lists them."""
