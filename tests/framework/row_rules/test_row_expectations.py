"""Great Expectations' names among the row rules: what is taken, what is refused at its place, and what is left of a regular expression."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skyband.framework.plan.model import RowRule
from skyband.framework.quality.expectations import EXPECTATIONS, Wrong
from skyband.framework.row_rules.row_conditions import BUILDERS, condition
from skyband.framework.row_rules.row_expectations import OF_ROWS, for_java, takes
from skyband.framework.spec.expressions.sql import check_sql
from skyband.framework.spec.load import validate_text
from tests.framework.spec.examples import ENV, SENSORS
from tests.specs import plan_of_text

GOOD = '{name: plausible_temp, expect: "temp between -60 and 60"}'
BETWEEN, IN_SET, REGEX = (f"expect_column_values_to_{x}" for x in ("be_between", "be_in_set", "match_regex"))
GREATER = "expect_column_pair_values_a_to_be_greater_than_b"


def spec_with(rule: str) -> str:
    assert GOOD in SENSORS
    return SENSORS.replace(GOOD, rule)


def found(rule: str) -> list[tuple[str, str, str | None]]:
    _, errors = validate_text(spec_with(rule), ENV)
    assert all(e.where is not None and e.where.line == 15 for e in errors), errors
    return [(e.code, e.message, e.hint) for e in errors]


def rule(expectation: str, arguments: str) -> str:
    return f"{{expectation: {expectation}, {arguments}}}"


def rules(text: str) -> tuple[RowRule, ...]:
    return plan_of_text(spec_with(text), ENV).intake.rules


@pytest.mark.parametrize(
    ("text", "name", "sql"),
    [
        (rule(BETWEEN, "column: humidity, min_value: 0, max_value: 100.5"), "humidity_between",
         "NULLIF(`humidity`, CAST('NaN' AS DOUBLE)) >= 0 AND NULLIF(`humidity`, CAST('NaN' AS DOUBLE)) <= CAST('100.5' AS DOUBLE)"),
        (rule(BETWEEN, "column: ts, min_value: '2024-01-31T12:00:00+01:00', strict_min: true"), "ts_between",
         "`ts` > CAST('2024-01-31T11:00:00+00:00' AS TIMESTAMP)"),
        (rule(IN_SET, "column: building, value_set: [\"it's\", 'a\\b']"), "building_in_set", "`building` IN ('it\\'s', 'a\\\\b')"),
        (rule(REGEX, "column: sensor, regex: '^[a-z]+[0-9]*$', name: own"), "own", "`sensor` RLIKE '(?d)^(?:[a-z]){1,}(?:[0-9]){0,}$'"),
        (rule("expect_column_values_to_not_be_null", "column: pm25"), "pm25_not_null",
         "NOT NULLIF(`pm25`, CAST('NaN' AS DOUBLE)) IS NULL"),
        (rule(GREATER, "column_A: ts, column_B: ts, ignore_row_if: either_value_is_missing"), "ts_ts_greater", "`ts` > `ts`"),
        (rule("expect_column_value_lengths_to_equal", "column: sensor, value: 4, severity: fail"), "sensor_length", "LENGTH(`sensor`) = 4"),
    ],
)  # fmt: skip
def test_a_rule_is_a_condition_of_the_engine(text: str, name: str, sql: str) -> None:
    (made,) = rules(text)
    assert (made.name, made.sql) == (name, sql)
    assert made.severity == ("fail" if "fail" in text else "reject")
    # What it is compiled to keeps the rules for conditions that a spec spells itself.
    columns = {"humidity": "double", "ts": "timestamp", "building": "string", "sensor": "string", "pm25": "double"}
    assert check_sql(made.sql, columns, condition=True).problems == ()


@pytest.mark.parametrize(
    ("text", "code", "said", "hint"),
    [
        (rule("expect_column_values_to_be_betwen", "column: temp"), "SKY-E113", "no expectation", f"did you mean '{BETWEEN}'?"),
        (rule("expect_column_mean_to_be_between", "column: temp, min_value: 1"), "SKY-E113", "to a single row", "quality.tables"),
        (rule("expect_column_values_to_be_unique", "column: temp"), "SKY-E113", "to a single row", "quality.tables"),
        (rule("expect_column_values_to_be_of_type", "column: temp, type_: float64"), "SKY-E113", "to a single row", "source.schema"),
        (rule(BETWEEN, "column: temp, min_value: 0, mostly: 0.9"), "SKY-E110", "takes no 'mostly'", "quality.tables takes a share"),
        (rule(BETWEEN, "column: temp, min_value: 0, row_condition: 'temp > 0'"), "SKY-E110", "'row_condition'", "expect:"),
        (rule(BETWEEN, "column: temp, min_valu: 0"), "SKY-E110", "'min_valu'", "did you mean 'min_value'?"),
        (rule(BETWEEN, "column: temp"), "SKY-E111", "needs 'min_value', 'max_value' or both", ""),
        (rule(BETWEEN, "min_value: 1"), "SKY-E111", "needs 'column'", ""),
        (rule(BETWEEN, "column: tmp, min_value: 1"), "SKY-E120", "unknown column 'tmp'", "did you mean 'temp'?"),
        (rule(BETWEEN, "column: sensor, min_value: 1"), "SKY-E126", "'sensor' is string; this is about numbers,", ""),
        (rule(BETWEEN, "column: temp, min_value: '2024-01-31'"), "SKY-E112", "min_value of numbers takes numbers", ""),
        (rule(BETWEEN, "column: ts, min_value: 3"), "SKY-E112", "min_value of instants takes instants such as", ""),
        (rule(BETWEEN, "column: temp, min_value: 3, max_value: 2"), "SKY-E112", "min_value is above max_value", ""),
        (rule(BETWEEN, "column: temp, min_value: .nan"), "SKY-E112", "min_value takes a number", ""),
        (rule(IN_SET, "column: building, value_set: [1]"), "SKY-E112", "value_set of texts takes texts", ""),
        (rule(IN_SET, "column: temp, value_set: [true]"), "SKY-E112", "value_set of numbers takes numbers", ""),
        (rule(IN_SET, "column: temp, value_set: []"), "SKY-E112", "value_set takes a list", ""),
        (rule(GREATER, "column_A: temp, column_B: sensor"), "SKY-E126", "they cannot be compared", ""),
        (rule(GREATER, "column_A: temp, column_B: pm25, ignore_row_if: neither"), "SKY-E112", "both_values_are_missing or either", ""),
        (rule(REGEX, "column: temp, regex: a"), "SKY-E126", "'temp' is double", ""),
        (rule(REGEX, "column: sensor, regex: '(a+)+$'"), "SKY-E112", "without repetitions or choices inside a repetition", ""),
        (rule(REGEX, "column: sensor, regex: '^\\d+$'"), "SKY-E112", "write [0-9]", ""),
        (rule(BETWEEN, "column: temp, min_value: 1, severity: critical"), "SKY-E113", "cannot be 'critical'", "warn, reject or fail"),
        ("{name: x, expect: 'temp > 1', severity: rejct}", "SKY-E113", "'severity' cannot be 'rejct'", "did you mean 'reject'?"),
        ("{name: x, expct: 'temp > 1'}", "SKY-E110", "unknown field 'expct'", "did you mean 'expect'?"),
        (rule(BETWEEN, "column: temp, min_value: 1, name: 'a b'"), "SKY-E116", "cannot be used as a name", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(text: str, code: str, said: str, hint: str) -> None:
    ((found_code, message, found_hint),) = found(text)
    assert found_code == code and said in message and hint in str(found_hint or "")


def test_two_rules_of_one_name_are_told() -> None:
    one = rule(BETWEEN, "column: temp, min_value: 1")
    _, (error,) = validate_text(spec_with(f"{one}\n    - {rule(BETWEEN, 'column: temp, max_value: 9')}"), ENV)
    assert error.where is not None and error.where.line == 16
    code, message, hint = error.code, error.message, error.hint
    assert (code, message, hint) == ("SKY-E102", "two rules named 'temp_between'", "give it a name of its own: temp_between_2")


def test_a_name_does_not_come_from_the_environment() -> None:
    _, errors = validate_text(spec_with(rule(BETWEEN, 'column: "${COLUMN}", min_value: 1')), {**ENV, "COLUMN": "temp"})
    assert [e.code for e in errors] == ["SKY-E119"] and "temp" not in errors[0].message
    named = spec_with(rule(BETWEEN, 'name: bounds, column: "${COLUMN}", min_value: 1'))
    assert validate_text(named, {**ENV, "COLUMN": "temp"})[1] == []
    _, errors = validate_text(named, {**ENV, "COLUMN": "secret"})
    assert [e.code for e in errors] == ["SKY-E120"] and "secret" not in errors[0].render()


def test_every_expectation_of_rows_has_its_condition_and_is_one_of_tables() -> None:
    assert set(BUILDERS) == set(OF_ROWS) <= set(EXPECTATIONS)
    for name in OF_ROWS:
        assert "mostly" not in takes(name) and set(OF_ROWS[name].needs) <= set(takes(name)), name


def test_a_plan_made_elsewhere_gains_nothing() -> None:
    for name, given in (
        ("expect_column_values_to_match_regex", {"column": "s", "regex": "(a+)+$"}),
        ("expect_column_values_to_be_in_set", {"column": "s", "value_set": [{"a": 1}]}),
        ("expect_column_values_to_be_in_set", {"column": "s", "value_set": ["a"], "sql": "1"}),
    ):
        with pytest.raises(Wrong):
            condition(name, given, {"s": "string"})
    quoted = condition("expect_column_values_to_be_in_set", {"column": "s", "value_set": ["') or (1=1"]}, {"s": "string"})
    assert quoted == "`s` IN ('\\') or (1=1')"


@pytest.mark.parametrize(
    "text",
    [r"\d", r"\w", r"\s", r"\b", r"[\d]", r"\B", "(?i)a", "(?i:a)", "(?m)^a", "(?<=a)b", "(?>a)", "a*+", r"(a)\1", "(?P<n>a)(?P=n)",
     "a{2000}", "\\ud800", "(a*)*", "((a|b)*)*", "(" * 60 + "a" + ")*" * 60, "(", "x{1,99999999999999999999}", "a" * 201],
)  # fmt: skip
def test_what_engines_read_differently_or_for_ever_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        for_java(text)


@pytest.mark.parametrize(
    ("text", "java"),
    [("a.b", "(?d)a.b"), ("[[&&]", r"(?d)[\x{5b}\x{26}]"), (r"\.", r"(?d)\x{2e}"), ("[^-a]", r"(?d)[^\x{2d}a]"),
     ("ab|é", r"(?d)(?:ab|\x{e9})"), ("a{2,}?", "(?d)(?:a){2,}?"), ("(?P<x>ab)?", "(?d)(?:(?:ab)){0,1}"),
     (r"a\Z", r"(?d)a\z"), ("#", r"(?d)\x{23}")],
)  # fmt: skip
def test_an_expression_is_written_anew(text: str, java: str) -> None:
    assert for_java(text) == java


def test_the_documents_name_every_expectation_of_rows() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "check-data-quality.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(expect_\w+)`", page)) >= set(OF_ROWS)
