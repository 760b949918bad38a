"""Durations, sizes and cron expressions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.units import format_duration, format_instant, format_span, parse_duration
from skyband.framework.spec.checks.job import check_cron


@pytest.mark.parametrize(
    "text, micros",
    [
        ("10 minutes", 600_000_000), ("1 hour 30 minutes", 5_400_000_000), ("0 seconds", 0), ("250ms", 250_000), ("1.5 seconds", 1_500_000),
        ("7 days", 604_800_000_000), ("1 week", 604_800_000_000), ("3 us", 3), ("2h", 7_200_000_000), ("5 Minutes", 300_000_000),
    ],
)  # fmt: skip
def test_durations(text: str, micros: int) -> None:
    assert parse_duration(text) == micros


@pytest.mark.parametrize(
    "text",
    ["", "10", "ten minutes", "1 month", "2 years", "5 parsecs", "-1 day", "1 day x", "minutes", "9999999999999999 days", "1 day, 2"],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@settings(deadline=None)
@given(st.integers(0, 2**60))
def test_durations_are_written_as_they_are_read(micros: int) -> None:
    assert parse_duration(format_duration(micros).replace(",", "")) == micros


@pytest.mark.parametrize(
    "text",
    ["0 * * * *", "*/5 0-6 1,15 jan-mar mon", "@daily", "0 0 * * 7", "0 0 29 2 *", "0 0 31 2 mon", "0 22-2 * * sat-sun", "5/20 * * * *"],
)
def test_cron(text: str) -> None:
    assert check_cron(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "x * * * *",
        "* * 0 * *",
        "*/0 * * * *",
        "@sometimes",
        "* * 31 feb,4,jun *",
        "* 22-2/2 * * *",
    ],
)
def test_what_is_no_cron(text: str) -> None:
    assert check_cron(text)


@pytest.mark.parametrize(("micros", "text"), [(5, "5 microseconds"), (90_000_000, "90 seconds"), (200_000_000_000, "2 days")])
def test_a_span_is_rounded_to_a_unit_that_leaves_few_digits(micros: int, text: str) -> None:
    assert format_span(micros) == text


def test_an_instant_is_shown_without_fractions_of_a_second() -> None:
    assert format_instant(86_400_000_000 + 1_999_999) == "1970-01-02 00:00:01"
