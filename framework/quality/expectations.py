"""The expectations a spec may ask for, with the arguments of each: the only ones that reach Great Expectations.

Every argument is rebuilt here from a checked value of a plain type, so that no text is ever read as code, as a query, or as a reference.
Left out are those that take SQL, another table, a JSON schema (which names further documents) or objects of the library's own.
``row_condition`` is Skyband's own: a predicate of its expression language, applied before the library sees a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, Final, Protocol

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.plugins import Registry

if TYPE_CHECKING:
    import pyarrow as pa


# Expectations of tables from other packages (entry points ``skyband.expectations``), in addition to those of Great Expectations.
#
# A spec names one in ``quality.tables`` like any other. It gets the same rows, and its outcome is handled in the same way.


@dataclass(frozen=True, slots=True)
class Found:
    """The result of an expectation: ``observed`` (any JSON value), the number of ``unexpected`` rows, and ``examples`` of them."""

    success: bool
    observed: Any = None
    unexpected: int | None = None
    examples: Sequence[Any] = ()


class OwnExpectation(Protocol):
    """One expectation. The name of its entry point begins with ``expect_`` and is not one of Great Expectations's."""

    @property
    def arguments(self) -> Mapping[str, str]:
        """Name of an argument -> its kind, a key of ``expectations.KINDS``. All are optional."""
        ...

    def look(self, rows: pa.Table, arguments: Mapping[str, Any]) -> Found:
        """Evaluate ``rows``: the rows that the check is about, with the columns that the arguments name, at most ``frames.MOST`` values.

        An exception becomes the ``error`` of the check, which then has failed.
        """
        ...


def _none() -> Mapping[str, OwnExpectation]:
    return {}


OWN: Final = Registry[OwnExpectation]("skyband.expectations", "expectation", _none, needs=("arguments", "look"))
"""By name."""


MAX_REGEX: Final = 200
"""Most characters of a regular expression."""
_MAX_TEXT: Final = 1_000
_MAX_ITEMS: Final = 10_000
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class Wrong(ValueError):
    """A value that an argument does not take; the message is for the user."""


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or value != value:
        raise Wrong("takes a number")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise Wrong("takes a whole number")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("takes true or false")
    return value


def _share(value: Any) -> float:
    if not 0 <= _number(value) <= 1:
        raise Wrong("takes a number from 0 to 1")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT or "\0" in value:
        raise Wrong(f"takes text of at most {_MAX_TEXT:,} characters")
    return value


def _bound(value: Any) -> int | float | datetime | date:
    """A number, or an instant or a day as ISO text."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value) if len(value) > 10 else date.fromisoformat(value)
        except ValueError:
            raise Wrong("takes a number, or a time such as '2024-01-31T12:00:00+00:00'") from None
    return _number(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return _text(value) if isinstance(value, str) else _number(value)


def _list(of: Callable[[Any], Any], what: str) -> Callable[[Any], list[Any]]:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list) or not 0 < len(value) <= _MAX_ITEMS:
            raise Wrong(f"takes a list of {what}")
        return [of(v) for v in value]

    return read


def _regex(value: Any) -> str:
    """At most MAX_REGEX characters; nothing that repeats or chooses inside a repetition, no back-reference: those may take for ever."""
    text = _text(value)
    if len(text) > MAX_REGEX:
        raise Wrong(f"takes a regular expression of at most {MAX_REGEX} characters")
    try:
        re.compile(text)
        parsed = _parser.parse(text)
    except (re.error, OverflowError, RecursionError) as e:
        raise Wrong(f"takes a regular expression: {e}") from None
    if _may_explode(parsed, False):
        raise Wrong("takes a regular expression without repetitions or choices inside a repetition, and without back-references")
    return text


def _may_explode(parsed: Any, repeated: bool) -> bool:
    """Whether a parsed expression repeats or chooses inside a repetition, or refers back. O(size)."""
    for operation, argument in parsed:
        name = str(operation)
        if name in ("GROUPREF", "GROUPREF_EXISTS"):
            return True
        varies = name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] != argument[1]
        if repeated and (varies or name == "BRANCH"):
            return True
        many = name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[1] > 1
        nested = argument[1] if name == "BRANCH" else argument if isinstance(argument, tuple | list) else []
        parts = [a for a in nested if isinstance(a, _parser.SubPattern)]
        if any(_may_explode(p, repeated or many) for p in parts):
            return True
    return False


def _word(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise Wrong(f"takes {one_of(words)}")
        return str(value)

    return read


def _type(value: Any) -> str:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise Wrong("takes the name of a type, such as int64")
    return value


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise Wrong("takes a list of pairs")
    return _scalar(value[0]), _scalar(value[1])


Argument = Callable[[Any], Any]

COLUMN: Final[Argument] = _text
COLUMNS: Final[Argument] = _list(_text, "columns")
_VALUES: Final[Argument] = _list(_scalar, "texts, numbers or truth values")
_IGNORE_ROW: Final = _word("all_values_are_missing", "any_value_is_missing", "never")
_IGNORE_PAIR: Final = _word("both_values_are_missing", "either_value_is_missing", "neither")

_EACH: Final[dict[str, Argument]] = {"column": COLUMN, "mostly": _share}
_STRICT: Final[dict[str, Argument]] = {"strict_min": _flag, "strict_max": _flag}
_BETWEEN: Final[dict[str, Argument]] = {"min_value": _bound, "max_value": _bound, **_STRICT}
_NUMBERS: Final[dict[str, Argument]] = {"min_value": _number, "max_value": _number, **_STRICT}
_COUNTS: Final[dict[str, Argument]] = {"min_value": _whole, "max_value": _whole, **_STRICT}
_SET: Final[dict[str, Argument]] = {"column": COLUMN, "value_set": _VALUES}
_PAIR: Final[dict[str, Argument]] = {"column_A": COLUMN, "column_B": COLUMN, "mostly": _share, "ignore_row_if": _IGNORE_PAIR}
_SEVERAL: Final[dict[str, Argument]] = {"column_list": COLUMNS, "mostly": _share, "ignore_row_if": _IGNORE_ROW}

EXPECTATIONS: Final[Mapping[str, Mapping[str, Argument]]] = {
    "expect_column_distinct_values_to_be_in_set": _SET,
    "expect_column_distinct_values_to_contain_set": _SET,
    "expect_column_distinct_values_to_equal_set": _SET,
    "expect_column_max_to_be_between": {"column": COLUMN, **_BETWEEN},
    "expect_column_mean_to_be_between": {"column": COLUMN, **_BETWEEN},
    "expect_column_median_to_be_between": {"column": COLUMN, **_BETWEEN},
    "expect_column_min_to_be_between": {"column": COLUMN, **_BETWEEN},
    "expect_column_most_common_value_to_be_in_set": {**_SET, "ties_okay": _flag},
    "expect_column_pair_values_a_to_be_greater_than_b": {**_PAIR, "or_equal": _flag},
    "expect_column_pair_values_to_be_equal": _PAIR,
    "expect_column_pair_values_to_be_in_set": {**_PAIR, "value_pairs_set": _list(_pair, "pairs")},
    "expect_column_proportion_of_non_null_values_to_be_between": {"column": COLUMN, **_NUMBERS},
    "expect_column_proportion_of_unique_values_to_be_between": {"column": COLUMN, **_NUMBERS},
    "expect_column_stdev_to_be_between": {"column": COLUMN, **_NUMBERS},
    "expect_column_sum_to_be_between": {"column": COLUMN, **_BETWEEN},
    "expect_column_to_exist": {"column": _text, "column_index": _whole},
    "expect_column_unique_value_count_to_be_between": {"column": COLUMN, **_COUNTS},
    "expect_column_value_lengths_to_be_between": {**_EACH, **_COUNTS},
    "expect_column_value_lengths_to_equal": {**_EACH, "value": _whole},
    "expect_column_values_to_be_between": {**_EACH, **_BETWEEN},
    "expect_column_values_to_be_in_set": {**_EACH, "value_set": _VALUES},
    "expect_column_values_to_be_in_type_list": {**_EACH, "type_list": _list(_type, "types")},
    "expect_column_values_to_be_null": _EACH,
    "expect_column_values_to_be_of_type": {**_EACH, "type_": _type},
    "expect_column_values_to_be_unique": _EACH,
    "expect_column_values_to_match_regex": {**_EACH, "regex": _regex},
    "expect_column_values_to_match_regex_list": {**_EACH, "regex_list": _list(_regex, "texts"), "match_on": _word("any", "all")},
    "expect_column_values_to_not_be_in_set": {**_EACH, "value_set": _VALUES},
    "expect_column_values_to_not_be_null": _EACH,
    "expect_column_values_to_not_match_regex": {**_EACH, "regex": _regex},
    "expect_column_values_to_not_match_regex_list": {**_EACH, "regex_list": _list(_regex, "texts")},
    "expect_compound_columns_to_be_unique": _SEVERAL,
    "expect_multicolumn_sum_to_equal": {**_SEVERAL, "sum_total": _number},
    "expect_select_column_values_to_be_unique_within_record": _SEVERAL,
    "expect_table_column_count_to_be_between": {"min_value": _whole, "max_value": _whole},
    "expect_table_column_count_to_equal": {"value": _whole},
    "expect_table_columns_to_match_ordered_list": {"column_list": _list(_text, "columns")},
    "expect_table_columns_to_match_set": {"column_set": _list(_text, "columns"), "exact_match": _flag},
    "expect_table_row_count_to_be_between": _COUNTS,
    "expect_table_row_count_to_equal": {"value": _whole},
}  # fmt: skip
"""Expectation -> its arguments, each with the function that parses its value. All of them read only the frame they are given."""

ROW_CONDITION: Final = "row_condition"
"""An argument of every expectation: the condition for the rows it is about."""

SHAPE: Final = (
    "expect_column_to_exist", "expect_table_column_count_to_be_between", "expect_table_column_count_to_equal",
    "expect_table_columns_to_match_ordered_list", "expect_table_columns_to_match_set",
)  # fmt: skip
"""Expectations about the columns themselves, which read no rows: they may name a column that does not exist."""

WHOLE: Final = (
    "expect_column_values_to_be_in_type_list", "expect_column_values_to_be_of_type", "expect_column_values_to_be_unique",
    "expect_compound_columns_to_be_unique",
)  # fmt: skip
"""Expectations that take ``mostly``, but cannot be evaluated row by row."""

KINDS: Final[Mapping[str, Argument]] = {
    "column": COLUMN, "columns": COLUMNS, "number": _number, "whole": _whole, "share": _share, "flag": _flag, "text": _text,
    "bound": _bound,
}  # fmt: skip
"""By name, the kinds of arguments for expectations of other packages."""


def takes(expectation: str) -> Mapping[str, Argument] | None:
    """Return the arguments of an expectation of tables, each with the function that parses it; None for an unknown one."""
    if expectation in EXPECTATIONS:
        return EXPECTATIONS[expectation]
    own = OWN.get(expectation)
    return None if own is None else {name: KINDS[kind] for name, kind in own.arguments.items()}


Mistake = tuple[str, str | None, str, str | None]
"""Code, argument (None: the expectation's name), message, hint."""


def arguments(expectation: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the library, every value rebuilt. Raises Wrong for what ``mistakes`` reports."""
    known = takes(expectation)
    if known is None:
        raise Wrong(f"{expectation} is not an expectation that Skyband passes on")
    unknown = set(given) - set(known) - {ROW_CONDITION}
    if unknown:
        raise Wrong(f"{expectation} has no argument {sorted(unknown)[0]!r} that Skyband passes on")
    return {name: known[name](value) for name, value in given.items() if name != ROW_CONDITION and value is not None}


def mistakes(expectation: str, given: Mapping[str, Any], columns: Mapping[str, Any] | None) -> Iterator[Mistake]:
    """Yield what is wrong with a check of a spec; ``columns`` of its table, None if not known. O(size of the arguments)."""
    known = takes(expectation)
    if known is None:
        hint = did_you_mean(expectation, [*EXPECTATIONS, *OWN.all()]) or "docs/reference/spec-text.md lists them"
        yield "SKY-E113", None, f"a spec cannot use an expectation '{expectation[:80]}'", hint
        return
    for name, value in given.items():
        if name == ROW_CONDITION:
            if not isinstance(value, str):
                yield "SKY-E112", name, "row_condition takes a predicate over the table's columns, such as score > 3", None
            continue
        if name not in known:
            own = name == "condition_parser"
            why = "row_condition is an expression of Skyband's own" if own else did_you_mean(name, known)
            yield "SKY-E110", name, f"{expectation} takes no '{name[:64]}'", why or f"it takes {one_of([*known, ROW_CONDITION])}"
            continue
        if value is None:
            continue
        try:
            read = known[name](value)
        except Wrong as e:
            yield "SKY-E112", name, f"{name} {e}", None
            continue
        if columns is None or expectation in SHAPE or known[name] not in (COLUMN, COLUMNS):
            continue
        for column in read if isinstance(read, list) else [read]:
            if column not in columns:
                hint = did_you_mean(column, columns) or f"columns: {one_of(list(columns), 30)}"
                yield "SKY-E120", name, f"the table has no column '{column[:64]}'", hint
