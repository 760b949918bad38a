"""Check five-field cron expressions. Airflow accepts every expression that passes, which tests/airflow checks."""

from __future__ import annotations

import re
from typing import Final

from skyband.framework.base.counts import counted

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_NAMES: Final = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day of week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_PRESETS: Final = frozenset({"@hourly", "@daily", "@weekly", "@monthly", "@yearly"})
_PART: Final = re.compile(r"(\*|\w{1,9}(?:-\w{1,9})?)(?:/([0-9]{1,9}))?")
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of the months in leap years."""


def check_cron(text: str) -> str | None:
    """Return the error of ``text`` as a cron expression, or None."""
    if text.strip().lower() in _PRESETS:
        return None
    fields = text.split()
    if len(fields) != 5:
        return f"{counted(len(fields), 'field')} instead of 5 (minute, hour, day of month, month, day of week)"
    chosen: list[set[int]] = []
    for value, (name, low, high) in zip(fields, _FIELDS, strict=True):
        chosen.append(set())
        for part in value.split(","):
            found = _values(part, name, low, high)
            if isinstance(found, str):
                return found
            chosen[-1] |= found
    _, _, days, months, weekdays = chosen
    if len({d % 7 for d in weekdays}) == 7 and all(min(days) > _LONGEST[m - 1] for m in months):
        return f"day {min(days)} never comes in these months"
    return None


def _values(part: str, name: str, low: int, high: int) -> set[int] | str:
    """Return the values of a part of a field, or its error."""
    m = _PART.fullmatch(part)
    if m is None or (m.group(2) and int(m.group(2)) == 0):
        return f"'{part[:40]}' is not a {name}"
    step = min(int(m.group(2) or 1), high + 1)
    if m.group(1) == "*":
        return set(range(low, high + 1, step))
    ends = []
    for end in m.group(1).split("-"):
        names = _NAMES.get(name, ())
        number = names.index(end.lower()) + (name == "month") if end.lower() in names else int(end) if end.isdecimal() else -1
        if not low <= number <= high:
            return f"'{end}' is not a {name} ({low} to {high})"
        ends.append(number)
    first, last = ends[0], ends[-1]
    if first > last and m.group(2):
        return f"'{part[:40]}' wraps around in steps: write two ranges"
    if first > last:
        return {*range(first, high + 1), *range(low, last + 1)}
    return set(range(first, (high if len(ends) == 1 and m.group(2) else last) + 1, step))
