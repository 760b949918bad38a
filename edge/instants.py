"""Event times of rows as microseconds since 1970, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from skyband.edge.errors import EdgeError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def instant_of(value: Any) -> int:
    """Return the microseconds of a whole number (itself), a datetime, or a text in ISO 8601; without a zone it is UTC.

    Raise EdgeError SKY-E703 for anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        when = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(when, datetime):
            return ((when if when.tzinfo is not None else when.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    except ValueError:
        pass
    raise EdgeError("SKY-E703", f"{value!r} is no event time", "give microseconds, a datetime, or a text such as 2013-01-10T12:00:00Z")


def written_like(value: Any, instant: int) -> Any:
    """Return ``instant`` as ``value`` is written."""
    if isinstance(value, int):
        return instant
    when = _EPOCH + instant * _MICROSECOND
    if isinstance(value, datetime):
        return when if value.tzinfo is not None else when.replace(tzinfo=None)
    text = when.replace(tzinfo=None).isoformat()
    return text + "Z" if datetime.fromisoformat(value).tzinfo is not None else text
