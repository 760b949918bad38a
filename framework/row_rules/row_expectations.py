"""Great Expectations' expectations that apply to single rows: their arguments, and the checks of a spec that uses them.

``row_conditions`` translates them to Spark SQL. Nulls, and NaN, which is null in pandas, are ignored as the library does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.quality.expectations import COLUMNS, EXPECTATIONS, ROW_CONDITION, Argument, Mistake, Wrong

# Translate regular expressions that mean the same in Great Expectations (Python's ``re``) and in Spark (Java).
#
# Python parses a text, and a new text is written from the parsed form. So it does not matter how Java would read the original: a bracket
# inside of brackets, which characters may be escaped, what ends a line.

_LINES: Final = "(?d)"
"""The flag of Java with which only a newline ends a line, as in Python. It affects ``.`` and ``$``."""
_MOST: Final = 1_000
"""The most repetitions, if they are bounded."""
_CLASSES: Final = r"\d, \w, \s and \b are Unicode in one and ASCII in the other: write [0-9], [A-Za-z0-9_], [ \t]"

checked: Final[Callable[[Any], str]] = EXPECTATIONS["expect_column_values_to_match_regex"]["regex"]
"""Returns the text of an expression that cannot take exponential time. Raises Wrong for others."""


def for_java(text: str) -> str:
    """Return the expression for Spark that fits exactly the texts that ``text`` fits in Python. Raises Wrong if there is none."""
    parsed = _parser.parse(checked(text))
    if parsed.state.flags & ~_constants.SRE_FLAG_UNICODE:
        raise Wrong("takes a regular expression without flags such as (?i): write [Aa]")
    return _LINES + _sequence(parsed)


def _sequence(parsed: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_part(str(operation), argument) for operation, argument in parsed)


def _part(name: str, argument: Any) -> str:
    match name:
        case "LITERAL":
            return _character(argument)
        case "NOT_LITERAL":
            return f"[^{_character(argument)}]"
        case "ANY":
            return "."
        case "IN":
            return _set(argument)
        case "BRANCH":
            return f"(?:{'|'.join(_sequence(p) for p in argument[1])})"
        case "SUBPATTERN" if not argument[1] and not argument[2]:
            return f"(?:{_sequence(argument[3])})"
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeated(argument) + ("?" if name == "MIN_REPEAT" else "")
        case "AT" if str(argument) in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return "^"
        case "AT" if str(argument) == "AT_END":
            return "$"
        case "AT" if str(argument) == "AT_END_STRING":
            return r"\z"
        case "AT" | "CATEGORY":
            raise Wrong(f"takes what Python and Java read alike: {_CLASSES}")
        case "ASSERT" | "ASSERT_NOT" if argument[0] > 0:
            return f"(?{'=' if name == 'ASSERT' else '!'}{_sequence(argument[1])})"
    raise Wrong("takes what Python and Java read alike: texts, sets, choices, repetitions, groups, ^, $ and looking ahead")


def _repeated(argument: tuple[int, int, Any]) -> str:
    least, most, what = argument
    bound = most if most < _constants.MAXREPEAT else None
    if max(least, bound or 0) > _MOST:
        raise Wrong(f"takes at most {_MOST:,} repetitions, or any number")
    return f"(?:{_sequence(what)}){{{least},{'' if bound is None else bound}}}"


def _set(items: list[tuple[Any, Any]]) -> str:
    text = ""
    for operation, argument in items:
        match str(operation):
            case "NEGATE":
                text += "^"
            case "LITERAL":
                text += _character(argument)
            case "RANGE":
                text += f"{_character(argument[0])}-{_character(argument[1])}"
            case _:
                raise Wrong(f"takes what Python and Java read alike: {_CLASSES}")
    return f"[{text}]"


def _character(code: int) -> str:
    """Return a character that stands for itself, inside and outside of brackets."""
    if 0xD800 <= code <= 0xDFFF:
        raise Wrong("takes text, without halves of characters")
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:x}}}"


Family = str
"""The family of a column in these rules: number, decimal (also exact in pandas), text, truth, instant, day or list."""
_COMPARED: Final = ("number", "decimal", "instant", "day")
_VALUES: Final = ("number", "decimal", "text", "truth")
_ALL: Final = (*_COMPARED, "text", "truth", "list")
_LONGEST_NAME: Final = 64
MOST_COLUMNS: Final = 10
"""The most columns, and the most regular expressions, of one rule."""


def family(type_: str) -> Family:
    """Return the family of a column type of the spec."""
    named = {"string": "text", "boolean": "truth", "timestamp": "instant", "date": "day"}
    return "list" if type_.startswith("array<") else "decimal" if type_.startswith("decimal") else named.get(type_, "number")


@dataclass(frozen=True, slots=True)
class OfRow:
    """An expectation of a row: families of its columns, its required arguments, and the suffix of its default name."""

    families: tuple[Family, ...]
    needs: tuple[str, ...]
    short: str
    own: tuple[tuple[str, Argument], ...] = ()


def _regex(value: Any) -> str:
    return for_java(value)


def _regexes(value: Any) -> list[str]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_COLUMNS:
        raise Wrong(f"takes a list of 1 to {MOST_COLUMNS} regular expressions")
    return [for_java(v) for v in value]


def _ignored(*words: str) -> tuple[tuple[str, Argument], ...]:
    def read(value: Any) -> str:
        if value not in words:
            raise Wrong(f"takes {one_of(words)}")
        return str(value)

    return (("ignore_row_if", read),)


def _columns(value: Any) -> list[str]:
    names: list[str] = COLUMNS(value)
    if not 2 <= len(set(names)) == len(names) <= MOST_COLUMNS:
        raise Wrong(f"takes 2 to {MOST_COLUMNS} different columns")
    return names


_BOUNDS: Final = ("min_value", "max_value")
_PAIR: Final = _ignored("both_values_are_missing", "either_value_is_missing")

OF_ROWS: Final[Mapping[str, OfRow]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": OfRow((*_COMPARED, "text"), ("column_A", "column_B"), "greater", _PAIR),
    "expect_column_pair_values_to_be_equal": OfRow((*_COMPARED, "text", "truth"), ("column_A", "column_B"), "equal", _PAIR),
    "expect_column_value_lengths_to_be_between": OfRow(("text",), ("column",), "length"),
    "expect_column_value_lengths_to_equal": OfRow(("text",), ("column", "value"), "length"),
    "expect_column_values_to_be_between": OfRow(_COMPARED, ("column",), "between"),
    "expect_column_values_to_be_in_set": OfRow(_VALUES, ("column", "value_set"), "in_set"),
    "expect_column_values_to_be_null": OfRow(_ALL, ("column",), "null"),
    "expect_column_values_to_match_regex": OfRow(("text",), ("column", "regex"), "regex", (("regex", _regex),)),
    "expect_column_values_to_match_regex_list": OfRow(("text",), ("column", "regex_list"), "regexes", (("regex_list", _regexes),)),
    "expect_column_values_to_not_be_in_set": OfRow(_VALUES, ("column", "value_set"), "not_in_set"),
    "expect_column_values_to_not_be_null": OfRow(_ALL, ("column",), "not_null"),
    "expect_column_values_to_not_match_regex": OfRow(("text",), ("column", "regex"), "no_regex", (("regex", _regex),)),
    "expect_column_values_to_not_match_regex_list": OfRow(("text",), ("column", "regex_list"), "no_regexes", (("regex_list", _regexes),)),
    "expect_select_column_values_to_be_unique_within_record": OfRow(
        _VALUES, ("column_list",), "differ",
        (("column_list", _columns), *_ignored("all_values_are_missing", "any_value_is_missing", "never")),
    ),
}  # fmt: skip
"""The expectations that can be evaluated on a single row."""

_ELSEWHERE: Final = "it is about a whole table: use it in quality.tables"
_DECLARED: Final = "a column of the stream always has the type that source.schema (or the transform) declares"
_WHY_NOT: Final = {
    "expect_column_values_to_be_of_type": _DECLARED,
    "expect_column_values_to_be_in_type_list": _DECLARED,
    "expect_multicolumn_sum_to_equal": "write it as a condition, such as expect: \"a + b = 10\"",
    "expect_column_pair_values_to_be_in_set": "write it as a condition, such as expect: \"(a = 1 and b = 2) or (a = 3 and b = 4)\"",
}  # fmt: skip


def takes(expectation: str) -> Mapping[str, Argument]:
    """Return the arguments of an expectation of rows, each with the function that parses it. KeyError for another expectation."""
    of = OF_ROWS[expectation]
    return {name: read for name, read in EXPECTATIONS[expectation].items() if name != "mostly"} | dict(of.own)


def arguments(expectation: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments rebuilt, regular expressions as Spark's. Raises Wrong for what ``row_mistakes`` reports, except columns."""
    known = takes(expectation) if expectation in OF_ROWS else {}
    unknown = set(given) - set(known)
    if not known or unknown:
        raise Wrong(f"{expectation} cannot be a rule on rows, or not with {sorted(unknown)}")
    return {name: known[name](value) for name, value in given.items() if value is not None}


def columns_of(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (argument, column) for every column that checked arguments name."""
    one = [(a, given[a]) for a in ("column", "column_A", "column_B") if a in given]
    return one + [("column_list", c) for c in given.get("column_list", [])]


def default_name(expectation: str, given: Mapping[str, Any]) -> str:
    """Return the default name of a rule, from checked arguments."""
    return "_".join([*(c for _, c in columns_of(given)), OF_ROWS[expectation].short])[:_LONGEST_NAME]


def row_mistakes(expectation: str, given: Mapping[str, Any], types: Mapping[str, str | None] | None) -> Iterator[Mistake]:
    """Yield what is wrong with an expectation of rows. ``types`` of the columns: None, of one or of all, if not known. O(size)."""
    of = OF_ROWS.get(expectation)
    if of is None:
        if expectation in EXPECTATIONS:
            yield "SKY-E113", None, f"'{expectation}' does not apply to a single row", _WHY_NOT.get(expectation, _ELSEWHERE)
        else:
            hint = did_you_mean(expectation, OF_ROWS) or f"those of rows: {one_of(list(OF_ROWS), 30)}"
            yield "SKY-E113", None, f"no expectation '{expectation[:80]}'", hint
        return
    known_arguments, read, reported = takes(expectation), {}, False
    for name, value in given.items():
        if name not in known_arguments:
            reported = True
            yield "SKY-E110", name, f"{expectation} of rows takes no '{name[:64]}'", _why_unknown(name, known_arguments)
        elif value is not None:
            try:
                read[name] = known_arguments[name](value)
            except Wrong as e:
                reported = True
                yield "SKY-E112", name, f"{name} {e}", None
    for name in of.needs:
        if given.get(name) is None:
            reported = True
            yield "SKY-E111", None, f"{expectation} needs '{name}'", None
    if reported:
        return
    yield from _wrong_columns(of, read, types)
    yield from _wrong_values(expectation, read, types or {})


def _why_unknown(name: str, known: Mapping[str, Argument]) -> str:
    if name == "mostly":
        return "a row meets it or does not; quality.tables takes a share of the rows"
    if name == ROW_CONDITION:
        return "write it as a condition, such as expect: \"status <> 'sold' or price > 0\""
    return did_you_mean(name, known) or f"it takes {one_of(list(known))}"


def _wrong_columns(of: OfRow, read: Mapping[str, Any], types: Mapping[str, str | None] | None) -> Iterator[Mistake]:
    found: dict[Family, str] = {}
    for argument, column in columns_of(read):
        if types is None:
            return
        if column not in types:
            hint = did_you_mean(column, types) or f"columns: {one_of(list(types), 20)}"
            yield "SKY-E120", argument, f"unknown column '{column[:64]}'", hint
            continue
        type_ = types[column]
        if type_ is None:
            continue
        if family(type_) not in of.families:
            yield "SKY-E126", argument, f"'{column}' is {type_}; this is about {one_of([_PLURAL[f] for f in of.families])}", None
        else:
            found.setdefault(family(type_), column)
    if len(found) > 1:
        (one, a), (other, b), *_ = found.items()
        yield "SKY-E126", columns_of(read)[-1][0], f"'{a}' holds {_PLURAL[one]} and '{b}' {_PLURAL[other]}: they cannot be compared", None


_PLURAL: Final = {
    "number": "numbers", "decimal": "decimals", "text": "texts", "truth": "truth values", "instant": "instants", "day": "days",
    "list": "lists",
}  # fmt: skip


def _wrong_values(expectation: str, read: Mapping[str, Any], types: Mapping[str, str | None]) -> Iterator[Mistake]:
    """Yield values that do not fit the column or each other."""
    type_ = types.get(str(read.get("column")))
    kind = None if type_ is None else family(type_)
    low, high = (read.get(b) for b in _BOUNDS)
    if expectation.endswith("_to_be_between"):
        if low is None and high is None:
            yield "SKY-E111", None, f"{expectation} needs 'min_value', 'max_value' or both", None
        for name in _BOUNDS:
            if kind in _COMPARED and read.get(name) is not None and not _fits(read[name], kind):
                yield "SKY-E112", name, f"{name} of {_PLURAL[kind]} takes {_EXAMPLE[kind]}", None
                return
        if low is not None and high is not None and _instant(low) > _instant(high):
            yield "SKY-E112", "min_value", "min_value is above max_value: no value is between them", None
    if kind in _VALUES and any(not _fits(v, kind) for v in read.get("value_set", [])):
        yield "SKY-E112", "value_set", f"value_set of {_PLURAL[kind]} takes {_EXAMPLE[kind]}", None


_EXAMPLE: Final = {
    "number": "numbers", "decimal": "whole numbers (a condition of your own, under expect:, takes fractions)", "text": "texts",
    "truth": "true and false", "instant": "instants such as '2024-01-31T12:00:00+00:00'",
    "day": "days such as '2024-01-31'",
}  # fmt: skip
_PYTHON: Final[Mapping[Family, Callable[[Any], bool]]] = {
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "decimal": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "text": lambda v: isinstance(v, str),
    "truth": lambda v: isinstance(v, bool),
    "instant": lambda v: isinstance(v, date),
    "day": lambda v: isinstance(v, date) and not isinstance(v, datetime),
}


def _fits(value: Any, kind: Family) -> bool:
    return _PYTHON[kind](value)


def _instant(value: Any) -> Any:
    """Return a bound in a comparable form: instants without a zone are UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else value
