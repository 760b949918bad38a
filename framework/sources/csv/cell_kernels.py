"""Cells of text as values (``cells``), compiled, for long columns: each says whether it could read all of them. Empty ones are nulls."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skyband.operators.jit import jit

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

_FIRST_YEAR: Final = 1900


@jit
def whole(offsets: Offsets, data: Bytes, out: npt.NDArray[Any], most: int, bits: int) -> bool:
    """Whole numbers of at most ``most`` digits, and of ``bits`` bits beside the sign: 63 or fewer."""
    # The digits are counted below zero, where there is one number more.
    least = np.int64(-1) << np.int64(bits)
    for row in range(len(out)):
        at, end = offsets[row], offsets[row + 1]
        if at == end:
            continue
        minus = data[at] == 45
        if minus:
            at += 1
        if at == end or end - at > most:
            return False
        value = np.int64(0)
        for i in range(at, end):
            digit = np.int64(data[i]) - 48
            if digit < 0 or digit > 9 or value < -922_337_203_685_477_580 or (value == -922_337_203_685_477_580 and digit > 8):
                return False
            value = value * 10 - digit
        if value < least or (value == least and not minus):
            return False
        out[row] = value if minus else -value
    return True


@jit
def plain_fractions(offsets: Offsets, data: Bytes) -> bool:
    """Whether all cells are digits with a point among them, a minus before them, and maybe an exponent of at most two digits."""
    for row in range(len(offsets) - 1):
        at, end = offsets[row], offsets[row + 1]
        if at == end:
            continue
        if data[at] == 45:
            at += 1
        digits, points = 0, 0
        while at < end and (data[at] == 46 or (48 <= data[at] <= 57)):
            if data[at] == 46:
                points += 1
            else:
                digits += 1
            at += 1
        if digits == 0 or points > 1:
            return False
        if at == end:
            continue
        if data[at] != 101 and data[at] != 69:
            return False
        at += 1
        if at < end and data[at] == 45:
            at += 1
        if at == end or end - at > 2:
            return False
        for i in range(at, end):
            if data[i] < 48 or data[i] > 57:
                return False
    return True


@jit
def _number(data: Bytes, at: int, n: int) -> int:
    """``n`` digits as a number, -1 if they are none."""
    value = 0
    for i in range(at, at + n):
        digit = int(data[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@jit
def _day(data: Bytes, at: int) -> int:
    """The ten characters from ``at`` on as a day since 1970; -1,000,000 if they are none."""
    year, month, day = _number(data, at, 4), _number(data, at + 5, 2), _number(data, at + 8, 2)
    if data[at + 4] != 45 or data[at + 7] != 45 or year < _FIRST_YEAR or month < 1 or month > 12 or day < 1:
        return -1_000_000
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = (29 if leap else 28) if month == 2 else 30 + (month + month // 8) % 2
    if day > longest:
        return -1_000_000
    # Days of the civil calendar, the year beginning in March.
    y = year - 1 if month <= 2 else year
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return int(era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468)


@jit
def days(offsets: Offsets, data: Bytes, out: npt.NDArray[Any]) -> bool:
    """Days since 1970."""
    for row in range(len(out)):
        at, end = offsets[row], offsets[row + 1]
        if at == end:
            continue
        day = _day(data, at) if end - at == 10 else -1_000_000
        if day == -1_000_000:
            return False
        out[row] = day
    return True


@jit
def instants(offsets: Offsets, data: Bytes, out: npt.NDArray[Any]) -> bool:
    """Microseconds since 1970."""
    for row in range(len(out)):
        at, end = offsets[row], offsets[row + 1]
        if at == end:
            continue
        if end - at < 19 or (data[at + 10] != 32 and data[at + 10] != 84) or data[at + 13] != 58 or data[at + 16] != 58:
            return False
        day = _day(data, at)
        hour, minute, second = _number(data, at + 11, 2), _number(data, at + 14, 2), _number(data, at + 17, 2)
        if day == -1_000_000 or hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
            return False
        zone = np.int64(0)
        if data[end - 1] == 90:
            end -= 1
        elif end - at >= 25 and data[end - 3] == 58 and (data[end - 6] == 43 or data[end - 6] == 45):
            hours, minutes = _number(data, end - 5, 2), _number(data, end - 2, 2)
            if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > 1080:
                return False
            zone = np.int64(hours * 60 + minutes) * (1 if data[end - 6] == 43 else -1)
            end -= 6
        fraction, digits = 0, end - at - 20
        if digits >= 0:
            if digits < 1 or digits > 6 or data[at + 19] != 46:
                return False
            fraction = _number(data, at + 20, digits)
            if fraction < 0:
                return False
            for _ in range(6 - digits):
                fraction *= 10
        seconds = day * np.int64(86_400) + hour * 3600 + minute * 60 + second - zone * 60
        out[row] = seconds * np.int64(1_000_000) + fraction
    return True
