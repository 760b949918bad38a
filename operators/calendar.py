"""Tumbling windows in the local time of a zone, as arrays of instants: where the window of each row begins and ends.

Local boundaries are the multiples of a length from midnight of Monday, 3 January 2000, plus an offset; those of a length in months are
counted from 1 January 2000. A boundary is the first instant at
which the local clock shows a local boundary or a later time. Where clocks are set back by at least the length, the boundaries that they
show twice count twice; otherwise the window there is longer. Where clocks are set forward it is shorter, or left out.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from skyband.operators.base import I64, NEVER, NULL, Calendar

ORIGIN: Final = 946_857_600_000_000
"""Midnight of Monday, 3 January 2000, in microseconds since 1970."""
_DAY: Final = 86_400_000_000
_MONTH: Final = 360
"""January 2000, in months since January 1970."""
_YEAR: Final = 366 * _DAY
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_YEAR, _LAST_YEAR = 1, 9998
_COMMON_YEARS: Final = range(1970, 2038)


class _Clock(NamedTuple):
    """The stretches of constant offset from UTC: from ``start`` on, local time is UTC plus ``offset``. ``start[0]`` is ``NULL``.

    ``repeated``: local boundaries of the stretch before it that it must not count again. ``boundary``: whether its start is a boundary.
    """

    start: I64
    offset: I64
    repeated: I64
    boundary: I64


def window_ends(calendar: Calendar, time: I64) -> I64:
    """Return the first boundary after each instant. O(n) for instants of few years."""
    if calendar.zone == "UTC":
        return _following(calendar, _floor(calendar, time))
    return _by_year(calendar, time, True)


def window_starts(calendar: Calendar, time: I64) -> I64:
    """Return the last boundary at or before each instant. O(n) for instants of few years."""
    return _floor(calendar, time) if calendar.zone == "UTC" else _by_year(calendar, time, False)


def of_months(months: int, zone: str = "UTC", offset: int = 0) -> Calendar:
    """Return tumbling windows of so many months, such as 3 for quarters."""
    first = np.arange(_MONTH, _MONTH + 4800, months)
    days = (first + months).astype("M8[M]").astype("M8[D]") - first.astype("M8[M]").astype("M8[D]")
    return Calendar(int(days.max().astype(np.int64)) * _DAY, zone, offset, months)


def longest(calendar: Calendar) -> int:
    """Return the length of the longest window from 1970 to 2037, in microseconds, or more."""
    if calendar.zone == "UTC":
        return calendar.micros
    offsets = [offset for year in _COMMON_YEARS for _, offset in _offsets(calendar.zone, year)]
    back = max((a - b for a, b in pairwise(offsets)), default=0)
    return calendar.micros + max(0, min(back, calendar.micros))


def _floor(calendar: Calendar, local: I64) -> I64:
    """Return the last local boundary at or before each local time."""
    if calendar.months:
        month = (local - calendar.offset).astype("M8[us]").astype("M8[M]").astype(np.int64) - _MONTH
        return _begin(month // calendar.months * calendar.months, calendar)
    origin = ORIGIN + calendar.offset
    found: I64 = (local - origin) // calendar.micros * calendar.micros + origin
    return found


def _following(calendar: Calendar, boundary: I64) -> I64:
    """Return the local boundary after each one."""
    if not calendar.months:
        return boundary + calendar.micros
    month = (boundary - calendar.offset).astype("M8[us]").astype("M8[M]").astype(np.int64) - _MONTH
    return _begin(month + calendar.months, calendar)


def _begin(month: I64, calendar: Calendar) -> I64:
    """Return the local instants at which months, counted from January 2000, begin for the calendar."""
    return (month + _MONTH).astype("M8[M]").astype("M8[us]").astype(np.int64) + calendar.offset


def _by_year(calendar: Calendar, time: I64, ends: bool) -> I64:
    found = np.empty_like(time)
    year = time // _YEAR
    for y in np.unique(year).tolist():
        mine = slice(None) if len(time) and year[0] == y == year[-1] and (year == y).all() else np.flatnonzero(year == y)
        clock = _clock(calendar, y)
        found[mine] = _ends(calendar, clock, time[mine]) if ends else _starts(calendar, clock, time[mine])
    return found


def _ends(calendar: Calendar, clock: _Clock, time: I64) -> I64:
    found, at, open_ = np.empty_like(time), time.copy(), np.arange(len(time))
    stretch = np.searchsorted(clock.start, time, side="right") - 1
    following = np.append(clock.start[1:], NEVER)
    while len(open_):
        j = stretch[open_]
        local = _following(calendar, _floor(calendar, at[open_] + clock.offset[j]))
        local = np.where(local < clock.repeated[j], _following(calendar, local), local)
        end = local - clock.offset[j]
        inside = end < following[j]
        found[open_[inside]] = end[inside]
        open_, j = open_[~inside], j[~inside] + 1
        here = clock.boundary[j] != 0
        found[open_[here]] = clock.start[j[here]]
        open_, j = open_[~here], j[~here]
        at[open_], stretch[open_] = clock.start[j], j
    return found


def _starts(calendar: Calendar, clock: _Clock, time: I64) -> I64:
    found, at, open_ = np.empty_like(time), time.copy(), np.arange(len(time))
    stretch = np.searchsorted(clock.start, time, side="right") - 1
    while len(open_):
        j = stretch[open_]
        local = _floor(calendar, at[open_] + clock.offset[j])
        start = local - clock.offset[j]
        inside = (start > clock.start[j]) & (local >= clock.repeated[j])
        found[open_[inside]] = start[inside]
        open_, j = open_[~inside], j[~inside]
        here = clock.boundary[j] != 0
        found[open_[here]] = clock.start[j[here]]
        open_, j = open_[~here], j[~here]
        at[open_], stretch[open_] = clock.start[j] - 1, j - 1
    return found


@lru_cache(maxsize=64)
def _clock(calendar: Calendar, year: int) -> _Clock:
    """Return the clock for windows of instants in ``year`` (in units of 366 days since 1970)."""
    spare = 2 + calendar.micros // _YEAR
    first = 1970 + year - spare + min(0, year) // 365
    years = range(first, first + 2 * spare + 2 + abs(year) // 365)
    known = [pair for y in sorted({min(max(y, _FIRST_YEAR), _LAST_YEAR) for y in years}) for pair in _offsets(calendar.zone, y)]
    start, offset = [NULL], [known[0][1]]
    for at, o in known:
        if o != offset[-1]:
            start.append(at)
            offset.append(o)
    starts, offsets = np.array(start, np.int64), np.array(offset, np.int64)
    repeated, boundary = np.full(len(start), NULL), np.zeros(len(start), np.int64)
    for j in range(1, len(start)):
        before, after = start[j] + offset[j - 1], start[j] + offset[j]
        if after < before and before - after < calendar.micros:
            repeated[j] = before
            continue
        least = min(before, after)
        last = int(_floor(calendar, np.array([after], np.int64))[0])
        boundary[j] = last >= least
    return _Clock(starts, offsets, repeated, boundary)


@lru_cache(maxsize=4096)
def _offsets(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """Return (instant, offset from UTC then) of the start of a year and of all changes in it, in microseconds."""
    info = ZoneInfo(zone)
    at = max(datetime(year, 1, 1, tzinfo=UTC), datetime(1, 1, 3, tzinfo=UTC))
    end, found = datetime(year + 1, 1, 1, tzinfo=UTC), [(at, _offset(info, at))]
    while at < end:
        later = min(at + timedelta(days=1), end)
        while _offset(info, later) != found[-1][1]:
            low, high = at, later
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                low, high = (middle, high) if _offset(info, middle) == found[-1][1] else (low, middle)
            high = high.replace(microsecond=0)
            found.append((high, _offset(info, high)))
            at = high
        at = later
    return tuple(((when - _EPOCH) // timedelta(microseconds=1), offset) for when, offset in found)


def _offset(info: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(info).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)
