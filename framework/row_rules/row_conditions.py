"""Translate expectations of rows to Spark SQL: as a tree that sqlglot prints, which quotes names and values.

Each evaluates a row as Great Expectations does on pandas. Null means that the row is ignored. NaN is null in pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from itertools import combinations
from typing import Any, Final

from sqlglot import exp

from skyband.framework.row_rules.row_expectations import arguments

Types = Mapping[str, str]
"""Column -> its type in the spec."""
Given = Mapping[str, Any]


def condition(expectation: str, given: Given, types: Types) -> str:
    """Return Spark SQL that is true for rows that meet the expectation, null or true for ignored rows. Raises Wrong for bad arguments."""
    built: str = BUILDERS[expectation](arguments(expectation, given), types).sql(dialect="spark")
    return built


def _between(given: Given, types: Types) -> exp.Expr:
    return _within(_value(given["column"], types), given)


def _within(value: exp.Expr, given: Given) -> exp.Expr:
    low, high = given.get("min_value"), given.get("max_value")
    parts: list[exp.Expr] = []
    if low is not None:
        parts.append((exp.GT if given.get("strict_min") else exp.GTE)(this=value.copy(), expression=_literal(low)))
    if high is not None:
        parts.append((exp.LT if given.get("strict_max") else exp.LTE)(this=value.copy(), expression=_literal(high)))
    return exp.and_(*parts)


def _length(given: Given, types: Types) -> exp.Expr:
    return _within(exp.Length(this=_value(given["column"], types)), given)


def _length_equals(given: Given, types: Types) -> exp.Expr:
    return exp.EQ(this=exp.Length(this=_value(given["column"], types)), expression=_literal(given["value"]))


def _in_set(given: Given, types: Types) -> exp.Expr:
    return exp.In(this=_value(given["column"], types), expressions=[_literal(v) for v in given["value_set"]])


def _null(given: Given, types: Types) -> exp.Expr:
    return exp.Is(this=_value(given["column"], types), expression=exp.Null())


def _regex(given: Given, types: Types) -> exp.Expr:
    return _matches(_value(given["column"], types), given["regex"])


def _any_or_all(given: Given, types: Types) -> exp.Expr:
    value = _value(given["column"], types)
    join = exp.and_ if given.get("match_on") == "all" else exp.or_
    return join(*(_matches(value, r) for r in given["regex_list"]))


def _none_of(given: Given, types: Types) -> exp.Expr:
    value = _value(given["column"], types)
    return exp.not_(exp.or_(*(_matches(value, r) for r in given["regex_list"])))


def _pair(compare: type[exp.Expr]) -> Callable[[Given, Types], exp.Expr]:
    def build(given: Given, types: Types) -> exp.Expr:
        a, b = (_value(given[c], types) for c in ("column_A", "column_B"))
        kind = exp.GTE if given.get("or_equal") else compare
        compared = kind(this=a, expression=b)
        if given.get("ignore_row_if") == "either_value_is_missing":
            return compared
        # A null is neither greater than nor equal to a value.
        return exp.Coalesce(this=compared, expressions=[exp.and_(_is_null(a), _is_null(b))])

    return build


def _differ(given: Given, types: Types) -> exp.Expr:
    values = [_value(c, types) for c in given["column_list"]]
    apart = exp.and_(*(exp.not_(exp.NullSafeEQ(this=a.copy(), expression=b.copy())) for a, b in combinations(values, 2)))
    ignored = given.get("ignore_row_if", "all_values_are_missing")
    if ignored == "never":
        return apart
    missing = [_is_null(v) for v in values]
    return exp.or_(apart, (exp.and_ if ignored == "all_values_are_missing" else exp.or_)(*missing))


def _negated(build: Callable[[Given, Types], exp.Expr]) -> Callable[[Given, Types], exp.Expr]:
    return lambda given, types: exp.not_(build(given, types))


BUILDERS: Final[Mapping[str, Callable[[Given, Types], exp.Expr]]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": _pair(exp.GT),
    "expect_column_pair_values_to_be_equal": _pair(exp.EQ),
    "expect_column_value_lengths_to_be_between": _length,
    "expect_column_value_lengths_to_equal": _length_equals,
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_be_null": _null,
    "expect_column_values_to_match_regex": _regex,
    "expect_column_values_to_match_regex_list": _any_or_all,
    "expect_column_values_to_not_be_in_set": _negated(_in_set),
    "expect_column_values_to_not_be_null": _negated(_null),
    "expect_column_values_to_not_match_regex": _negated(_regex),
    "expect_column_values_to_not_match_regex_list": _none_of,
    "expect_select_column_values_to_be_unique_within_record": _differ,
}
"""Expectation -> the function that builds its condition from checked arguments."""


def _value(column: str, types: Types) -> exp.Expr:
    """Return a column's value, with NaN as null."""
    named = exp.column(column, quoted=True)
    if types[column] not in ("float", "double"):
        return named
    return exp.Nullif(this=named, expression=_cast(exp.Literal.string("NaN"), "double"))


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value.copy(), expression=exp.Null())


def _matches(value: exp.Expr, regex: str) -> exp.Expr:
    return exp.RegexpLike(this=value.copy(), expression=exp.Literal.string(regex))


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return _cast(exp.Literal.string(at.astimezone(UTC).isoformat()), "timestamp")
    if isinstance(value, date):
        return _cast(exp.Literal.string(value.isoformat()), "date")
    # A fraction is a double, not a decimal, as in Python; so are whole numbers beyond 64 bits.
    whole = isinstance(value, int) and abs(value) < 2**63
    return exp.Literal.number(value) if whole else _cast(exp.Literal.string(repr(float(value))), "double")


def _cast(value: exp.Expr, type_: str) -> exp.Expr:
    return exp.cast(value, exp.DataType.build(type_, dialect="spark"))
