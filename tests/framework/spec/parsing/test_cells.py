"""Values of tests' rows: what YAML writes comes back as it was."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.cells import cell, instant, spelled
from skyband.framework.sources.values import in_spark
from skyband.framework.spec.parsing.assemble import read_text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def read(text: str) -> Any:
    """What a spec that has ``text`` in a row says."""
    doc = read_text("<spec>", f"a: [{{b: {text}, c: 1}}]\n", {"HOME": "/home"})
    assert doc.errors == [], text
    (row,) = doc.data["a"]
    assert set(row) == {"b", "c"}, text
    return row["b"]


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=20))
def test_texts_come_back(text: str) -> None:
    assert cell(read(spelled(text)), "text") == text


@pytest.mark.parametrize(
    "text", ["${HOME}", "$${HOME}", "yes", "null", "1", "a: b", "a,b", "a #b", "-", "+", "", " a", "2020-01-01", "\u2028"]
)
def test_texts_that_yaml_takes_for_something_else_come_back(text: str) -> None:
    assert cell(read(spelled(text)), "text") == text


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_numbers_come_back(number: float) -> None:
    found = cell(read(spelled(number)), "float")
    assert found == number or (found != found and number != number)


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_come_back(number: int) -> None:
    assert cell(read(spelled(number)), "int") == number


@given(INSTANTS)
def test_instants_come_back_to_the_microsecond(at: datetime) -> None:
    assert cell(read(spelled(at)), "time") == (at - EPOCH) // (EPOCH.resolution)


@pytest.mark.parametrize(
    "text, micros",
    [
        ("1970-01-01", 0), ("1970-01-01 00:01", 60_000_000), ("1970-01-01T00:01:00Z", 60_000_000), ("1970-01-01 00:00:00.5", 500_000),
        ("1970-01-01 01:00+01:00", 0), ("1970-01-01 01:00:00 +02:00", -3_600_000_000), ("1970-01-01 00:01 UTC", 60_000_000),
    ],
)  # fmt: skip
def test_instants_are_utc_unless_they_say(text: str, micros: int) -> None:
    assert instant(text) == micros


@pytest.mark.parametrize(
    "value, kind",
    [(1, "text"), (True, "int"), (1.5, "int"), (2**63, "int"), ("1", "float"), (True, "float"), (1, "bool"), ("soon", "time"), (0, "time"),
     ("1970-01-01 25:00", "time"), ("a", "list")],
)  # fmt: skip
def test_what_a_column_cannot_hold_is_refused(value: Any, kind: Any) -> None:
    with pytest.raises(ValueError, match=r"takes|calendar"):
        cell(value, kind)


@pytest.mark.parametrize(
    "value, type_, held",
    [
        (None, "decimal(18,2)", None), (0.1, "decimal(18,2)", "0.10"), (7, "decimal(18,0)", "7"), (0, "decimal(2,2)", "0.00"),
        (10**18 - 1, "decimal(18,0)", "999999999999999999"), (" -9999999999999999.99 ", "decimal(18,2)", "-9999999999999999.99"),
        (0.125, "decimal(18,2)", "0.13"), (-0.125, "decimal(18,2)", "-0.13"), ("9.994", "decimal(3,2)", "9.99"),
        (9999999999999.99, "decimal(18,2)", "9999999999999.99"), (1e-300, "decimal(38,18)", "0." + 18 * "0"),
        ("0e999999", "decimal(3,2)", "0.00"),
    ],
)  # fmt: skip
def test_decimals_are_exact(value: object, type_: str, held: str | None) -> None:
    found = cell(value, "float", type_)
    assert (None if found is None else f"{found:f}") == held


@pytest.mark.parametrize(
    "value, type_, said",
    [
        # YAML has read 9999999999999999.99 as its nearest double.
        (9999999999999999.99, "decimal(18,2)", "takes a decimal(18,2)"), (10000000000000.25, "decimal(18,2)", "in quotes"),
        (123456789012345678.0, "decimal(18,0)", "in quotes"), (10**18, "decimal(18,0)", "takes a decimal(18,0)"),
        ("9.995", "decimal(3,2)", "takes a decimal(3,2)"), (1e300, "decimal(38,0)", "takes a decimal"),
        ("1e999999", "decimal(38,0)", "takes"),
        (float("nan"), "decimal(3,2)", "takes a decimal"), (float("inf"), "decimal(3,2)", "takes a decimal"),
        ("x", "decimal(3,2)", "takes a number"), (True, "decimal(3,2)", "takes a number"), ([], "decimal(3,2)", "takes a number"),
    ],
)  # fmt: skip
def test_a_decimal_that_the_column_does_not_hold_is_a_mistake(value: object, type_: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        cell(value, "float", type_)


def test_a_number_beyond_the_doubles_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="takes a number"):
        cell(10**5000, "float", "decimal(3,2)")
    with pytest.raises(ValueError, match="too large"):
        cell(10**400, "float")


@pytest.mark.parametrize(
    "value, type_, said",
    [
        (["a", 1], "array<float>", "takes a list of numbers, and 'a' is none"), ([1.5], "array<bigint>", "whole numbers, and 1.5 is none"),
        ([[1]], "array<double>", "and [1] is none"), ([True], "array<float>", "and true is none"), ([1], "array<string>", "texts in"),
        ([2**63], "array<bigint>", "whole numbers"),
    ],
)  # fmt: skip
def test_lists_hold_elements_of_their_type(value: object, type_: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        cell(value, "list", type_)
    assert cell([None], "list", type_) == [None]


def test_elements_of_lists_fit_their_type() -> None:
    assert in_spark(cell([1, 0.1, None, 1e39], "list", "array<float>"), "array<float>") == [1.0, float(np.float32(0.1)), None, float("inf")]
    assert in_spark(cell(["a", None], "list", "array<string>"), "array<string>") == ["a", None]
    with pytest.raises(ValueError, match="32 bits"):
        in_spark(cell([2**31], "list", "array<int>"), "array<int>")
