"""Checks of arguments of the command line and of Python (``skyband.Job``). They raise SKY-E201 with the name of the argument."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from skyband.framework.base.errors import SkybandError

MOST: Final = 1_000_000_000
"""The greatest count that an argument may request. Larger ones mean "all", which is the default."""
GREATEST: Final = 1e12
"""The greatest number of arguments that are not counts."""
_SHOWN: Final = 40


def whole(name: str, least: int = 0, most: int = MOST) -> Callable[[str], int]:
    """Return the type of option ``name`` for ``argparse``: a whole number from ``least`` to ``most``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise _no_number(name, text, least, most) from None
        return whole_number(name, value, least, most)

    return read


def whole_number(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """Return ``value`` of argument ``name`` as an int. Raises SkybandError SKY-E201 unless it is one from ``least`` to ``most``."""
    try:
        found = None if isinstance(value, bool) else value.__index__()
    except (AttributeError, TypeError):
        found = None
    if found is None or not least <= found <= most:
        raise _no_number(name, value, least, most)
    return int(found)


def positive(name: str, value: Any) -> float:
    """Return ``value`` of argument ``name`` as a float. Raises SkybandError SKY-E201 unless it is above 0 and at most ``GREATEST``."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 < found <= GREATEST:
        raise SkybandError("SKY-E201", f"{name} takes a number above 0 and up to {GREATEST:g}, not {_shown(value)}")
    return found


def text(name: str, value: Any) -> str:
    """Return ``value`` of argument ``name``. Raises SkybandError SKY-E201 unless it is text that can be encoded."""
    if not isinstance(value, str):
        raise SkybandError("SKY-E201", f"{name} takes text, not {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SkybandError("SKY-E201", f"{name} holds half a character (a surrogate): {_shown(value)}") from None
    return value


def parse_instant(at: datetime | str, name: str = "at") -> datetime:
    """Return an instant, or parse an ISO 8601 text, in UTC unless it has an offset. Raises SkybandError SKY-E201 for anything else."""
    try:
        # A pandas NaT is a datetime that equals nothing.
        found = datetime.fromisoformat(at) if isinstance(at, str) else at if isinstance(at, datetime) and at == at else None
        if found is not None:
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    said = repr(at) if isinstance(at, str) else f"a {type(at).__name__}"
    hint = "write it as 2013-07-01T12:00 (UTC)" if isinstance(at, str) else "a datetime, or text such as 2013-07-01T12:00 (UTC)"
    raise SkybandError("SKY-E201", f"{name} takes an instant, not {said}", hint=hint)


def texts(name: str, value: Any) -> dict[str, str]:
    """Return ``value`` of argument ``name`` as a dict. Raises SkybandError SKY-E201 unless it maps texts to texts."""
    if not isinstance(value, Mapping):
        raise SkybandError("SKY-E201", f"{name} takes a mapping of names to texts, not {_shown(value)}", 'such as {"NAME": "value"}')
    return {text(f"a name in {name}", k): text(f"{name}[{k!r}]", v) for k, v in value.items()}


def listed(name: str, value: Any) -> list[Any]:
    """Return ``value`` of argument ``name`` as a list. Raises SkybandError SKY-E201 if it is a text or not iterable."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise SkybandError("SKY-E201", f"{name} takes a list of texts, not {_shown(value)}")
    return list(value)


def path_of(value: Any) -> str:
    """Return ``value`` of an argument ``path``. Raises SkybandError SKY-E201 if it is no path."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise SkybandError("SKY-E201", f"path takes the path of a spec, not {_shown(value)}") from None


def _no_number(name: str, value: Any, least: int, most: int) -> SkybandError:
    hint = "leave it out for all of them" if name.endswith("limit") else None
    return SkybandError("SKY-E201", f"{name} takes a whole number from {least:,} to {most:,}, not {_shown(value)}", hint)


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_SHOWN:
        return f"a number of more than {_SHOWN} digits"
    said = value if isinstance(value, str) else repr(value)
    said = said if len(said) <= _SHOWN else said[: _SHOWN - 3] + "..."
    return repr(said) if isinstance(value, str) else said
