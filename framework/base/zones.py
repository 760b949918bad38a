"""Names of time zones: those of the IANA time zone database that Python has on this machine."""

from __future__ import annotations

from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from skyband.framework.base.errors import did_you_mean

_OF_THE_MACHINE = ("localtime", "posixrules", "Factory")
"""Names of files that some systems keep beside the zones: what they mean differs from machine to machine, or is no zone."""


@cache
def is_zone(name: str) -> bool:
    """Return True if ``name`` is a time zone, the same on every machine."""
    try:
        return name in available_timezones() and name not in _OF_THE_MACHINE and ZoneInfo(name) is not None
    except (ValueError, OSError):
        return False


def zone_hint(name: str) -> str:
    """Return a hint for a name that is no time zone."""
    return did_you_mean(name, sorted(available_timezones())) or "a name of the IANA time zone database, such as Europe/Berlin"
