"""Instants at which rows leave a window by definition: after its time, where a tumbling window ends, after a session's silence.

A boundary of tumbling windows is the first instant at which the local clock shows a multiple of their length, or a later time. All
of it is computed with Python's dates and ``zoneinfo``, one instant at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from skyband.operators.base import Calendar, Window

I64 = npt.NDArray[np.int64]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY: Final = datetime(2000, 1, 3)
_MICRO: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)


def leaving(window: Window, time: I64) -> list[I64]:
    """Return the instants at which rows of these times may leave the window without an arrival."""
    found = [] if window.micros is None else [time + window.micros]
    if window.tumbling is not None and len(time):
        found.append(np.array(list(_ends(window.tumbling, time.tolist())), np.int64))
    return found if window.session is None else [*found, time + window.session]


def leaves_at(window: Window, time: Sequence[int], at: int) -> bool:
    """Return True if a row may leave the window at an instant without an arrival. O(log rows)."""
    lives = [life for life in (window.micros, window.session) if life is not None]
    if any(np.searchsorted(time, at - life) < np.searchsorted(time, at - life, "right") for life in lives):
        return True
    if window.tumbling is None or window_around(window.tumbling, at)[0] != at:
        return False
    return bool(np.searchsorted(time, window_around(window.tumbling, at - 1)[0]) < np.searchsorted(time, at))


def _ends(calendar: Calendar, times: list[int]) -> Iterator[int]:
    """Yield the ends of the windows that contain ``times``, which ascend."""
    end: int | None = None
    for at in times:
        if end is None or at >= end:
            end = window_around(calendar, at)[1]
            yield end


@lru_cache(maxsize=65536)
def window_around(calendar: Calendar, at: int) -> tuple[int, int]:
    """Return the start and end of the tumbling window that contains an instant, in microseconds."""
    instant, length = _EPOCH + at * _MICRO, timedelta(microseconds=calendar.micros)
    near, zone = [instant - length - _DAY, instant, instant + length + _DAY], ZoneInfo(calendar.zone)
    shown = [t.astimezone(zone).replace(tzinfo=None) - t.replace(tzinfo=None) for t in near]
    spare = max(shown) - min(shown)
    local = instant.replace(tzinfo=None) + shown[1]
    origin = _MONDAY + timedelta(microseconds=calendar.offset)
    if calendar.months:
        near_months = _months(calendar, local - length - spare, local + 2 * length + spare)
        found = sorted(t for begin in near_months for t in _instants(begin, zone, length))
    else:
        first, last = (local - length - spare - origin) // length, (local + 2 * length + spare - origin) // length
        found = sorted(t for n in range(first, last + 1) for t in _instants(origin + n * length, zone, length))
    start, end = max(t for t in found if t <= instant), min(t for t in found if t > instant)
    return (start - _EPOCH) // _MICRO, (end - _EPOCH) // _MICRO


def _months(calendar: Calendar, since: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the local boundaries of windows of months from a window before ``since`` until one after ``until``."""
    year, offset = since.year - 1 - calendar.months // 12, timedelta(microseconds=calendar.offset)
    month = (year - 2000) * 12
    month -= month % calendar.months
    while True:
        begin = datetime(2000 + month // 12, 1 + month % 12, 1) + offset
        yield begin
        if begin > until:
            return
        month += calendar.months


def _instants(local: datetime, zone: ZoneInfo, length: timedelta) -> list[datetime]:
    """Return the boundaries that a local time makes: one, or two where the clock shows it twice and the windows are short enough."""
    first, second = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first.astimezone(zone).replace(tzinfo=None) == local:
        return [first, second] if second - first >= length else [first]
    low, high = second, first  # no clock shows it: the boundary is the instant at which clocks jump over it
    while high - low > _MICRO:
        middle = low + (high - low) // 2
        low, high = (middle, high) if middle.astimezone(zone).replace(tzinfo=None) < local else (low, middle)
    return [high]
