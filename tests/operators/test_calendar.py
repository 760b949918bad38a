"""Tumbling windows in local time, against a clock that is read minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.verify.brute_force.calendars import window_around
from skyband.operators.base import Calendar
from skyband.operators.calendar import longest, of_months, window_ends, window_starts

MINUTE = 60_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONDAY = datetime(2000, 1, 3)
CHANGES = {
    "Europe/Berlin": ("2024-03-31", "2024-10-27"),
    "America/New_York": ("2024-03-10", "2024-11-03"),
    "Australia/Lord_Howe": ("2024-04-06", "2024-10-05"),  # half an hour
    "Pacific/Apia": ("2011-12-30", "2011-12-31"),  # a day left out
    "Asia/Kolkata": ("2024-03-31", "2024-10-27"),
    "UTC": ("2024-03-31", "2024-10-27"),
}
LENGTHS = (1, 7, 15, 20, 30, 45, 60, 90, 120, 180, 360, 420, 720, 1440, 2880, 10080)
"""Minutes."""


@lru_cache(maxsize=32)
def clock(zone: str, day: str) -> tuple[list[datetime], list[datetime]]:
    """Return the minutes of the 17 days around a day, and what the local clock shows in each."""
    first = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=8)
    minutes = [first + timedelta(minutes=m) for m in range(17 * 1440)]
    return minutes, [m.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for m in minutes]


def boundaries(zone: str, day: str, length: int, offset: int) -> list[datetime]:
    """The boundaries by definition: where the clock comes to a local boundary, or jumps over one."""
    minutes, local = clock(zone, day)

    def number(t: datetime) -> int:
        return (t - MONDAY - timedelta(minutes=offset)) // timedelta(minutes=length)

    found, latest = [minutes[0]], local[0]
    back = timedelta(0)
    for i in range(1, len(minutes)):
        if local[i] < local[i - 1]:
            back = local[i - 1] + timedelta(minutes=1) - local[i]
        shown_before = local[i] <= latest
        if shown_before:
            at_boundary = number(local[i]) != number(local[i] - timedelta(minutes=1))
            if at_boundary and back >= timedelta(minutes=length):
                found.append(minutes[i])
        elif number(local[i]) != number(latest):
            found.append(minutes[i])
        latest = max(latest, local[i])
    return found


def micros(t: datetime) -> int:
    return (t - EPOCH) // timedelta(microseconds=1)


@given(
    st.sampled_from([(zone, day) for zone, days in CHANGES.items() for day in days]),
    st.sampled_from(LENGTHS),
    st.sampled_from([0, 0, 1, 30, 60, 120, 150, 360, -60]),
)
@settings(deadline=None)
def test_windows_are_as_the_clock_shows(place: tuple[str, str], length: int, offset: int) -> None:
    zone, day = place
    calendar = Calendar(length * MINUTE, zone, offset * MINUTE)
    known = np.array([micros(t) for t in boundaries(zone, day, length, offset)])
    first, last = known[0], known[-1]
    inside = known[1:-1]
    near = np.concatenate([inside - 1, inside, inside + 1, np.arange(first, last, 37 * MINUTE)])
    near = near[(near >= known[1]) & (near < known[-2])] if len(known) > 3 else near[:0]
    place_of = np.searchsorted(known, near, side="right")
    assert window_starts(calendar, near).tolist() == known[place_of - 1].tolist()
    assert window_ends(calendar, near).tolist() == known[place_of].tolist()
    assert (np.diff(known[1:]) <= longest(calendar)).all()


@pytest.mark.parametrize(
    ("length", "zone", "offset", "at", "start", "end"),
    [
        ("1 day", "Europe/Berlin", 0, "2024-03-31T12:00", "2024-03-30T23:00", "2024-03-31T22:00"),  # 23 hours
        ("1 day", "Europe/Berlin", 0, "2024-10-27T12:00", "2024-10-26T22:00", "2024-10-27T23:00"),  # 25 hours
        ("1 day", "Europe/Berlin", 360, "2024-10-27T12:00", "2024-10-27T05:00", "2024-10-28T05:00"),
        ("7 days", "UTC", 0, "2024-03-31T12:00", "2024-03-25T00:00", "2024-04-01T00:00"),  # from Monday
        ("1 hour", "Europe/Berlin", 0, "2024-10-27T01:10", "2024-10-27T01:00", "2024-10-27T02:00"),  # 02:00 for the second time
        ("6 hours", "Europe/Berlin", 0, "2024-10-27T01:10", "2024-10-26T22:00", "2024-10-27T05:00"),
    ],
)
def test_examples(length: str, zone: str, offset: int, at: str, start: str, end: str) -> None:
    minutes = {"1 day": 1440, "7 days": 10080, "1 hour": 60, "6 hours": 360}[length]
    calendar = Calendar(minutes * MINUTE, zone, offset * MINUTE)
    instant, first, last = (np.array([micros(datetime.fromisoformat(t).replace(tzinfo=UTC))]) for t in (at, start, end))
    assert window_starts(calendar, instant) == first
    assert window_ends(calendar, instant) == last


def test_any_year() -> None:
    """Windows follow each other in any year, also in blocks of rows that are centuries apart."""
    time = np.array([micros(datetime(y, 7, 1, 12, tzinfo=UTC)) for y in (1, 800, 1583, 1900, 1969, 1970, 2024, 2500, 9999)])
    for calendar in (Calendar(1440 * MINUTE, "Europe/Berlin"), Calendar(60 * MINUTE, "America/New_York"), Calendar(7 * MINUTE)):
        start, end = window_starts(calendar, time), window_ends(calendar, time)
        assert (start <= time).all() and (time < end).all()
        assert window_starts(calendar, end - 1).tolist() == start.tolist()
        assert window_starts(calendar, end).tolist() == end.tolist()
        assert window_ends(calendar, start).tolist() == end.tolist()
        assert window_ends(calendar, time[::-1]).tolist() == end[::-1].tolist()


def test_length_of_the_longest_window() -> None:
    assert longest(Calendar(1440 * MINUTE)) == 1440 * MINUTE
    assert longest(Calendar(1440 * MINUTE, "Europe/Berlin")) == 1500 * MINUTE
    assert longest(Calendar(1440 * MINUTE, "Asia/Kolkata")) == 1440 * MINUTE


@given(
    st.sampled_from([*CHANGES, "Asia/Gaza"]),
    st.sampled_from([1, 2, 3, 5, 6, 12, 24]),
    st.sampled_from([0, 0, 60, 360, 5 * 1440]),
    st.lists(st.integers(-(10**15), 2 * 10**15), min_size=1, max_size=5),
)
@settings(deadline=None)
def test_months_are_as_dates_say(zone: str, months: int, offset: int, instants: list[int]) -> None:
    """Against the calendar of ``verify``, which counts dates one by one."""
    calendar = of_months(months, zone, offset * MINUTE)
    time = np.array(sorted(instants), np.int64)
    ends = window_ends(calendar, time)
    time = np.concatenate([time, ends - 1, ends, ends + 1])
    starts, ends = window_starts(calendar, time), window_ends(calendar, time)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [window_around(calendar, t) for t in time.tolist()]
    assert (ends - starts).max() <= longest(calendar)


def test_known_months() -> None:
    at = micros(datetime(2024, 3, 31, 12, tzinfo=UTC))
    for months, first, after in ((1, (2024, 3), (2024, 4)), (3, (2024, 1), (2024, 4)), (12, (2024, 1), (2025, 1))):
        bounds = [micros(datetime(*month, 1, tzinfo=ZoneInfo("Europe/Berlin"))) for month in (first, after)]
        calendar = of_months(months, "Europe/Berlin")
        assert [int(f(calendar, np.array([at]))[0]) for f in (window_starts, window_ends)] == bounds
