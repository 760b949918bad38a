"""A light check of five-field cron expressions."""

from __future__ import annotations

import re
from typing import Final

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_NAMES: Final = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day of week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_PRESETS: Final = frozenset({"@hourly", "@daily", "@weekly", "@monthly", "@yearly"})
_PART: Final = re.compile(r"(\*|\w{1,9}(?:-\w{1,9})?)(?:/([0-9]{1,9}))?")


def check_cron(text: str) -> str | None:
    """What is wrong with ``text`` as a cron expression, or None."""
    if text.strip().lower() in _PRESETS:
        return None
    fields = text.split()
    if len(fields) != 5:
        return f"{len(fields)} fields instead of 5 (minute, hour, day of month, month, day of week)"
    for value, (name, low, high) in zip(fields, _FIELDS, strict=True):
        for part in value.split(","):
            m = _PART.fullmatch(part)
            if m is None or (m.group(2) and int(m.group(2)) == 0):
                return f"'{part[:40]}' is not a {name}"
            for end in [] if m.group(1) == "*" else m.group(1).split("-"):
                number = int(end) if end.isdecimal() else -1
                known = end.lower() in _NAMES.get(name, ())
                if not known and not low <= number <= high:
                    return f"'{end}' is not a {name} ({low} to {high})"
    return None
