"""JSON that others may have written, without surprises: whatever is wrong with it is a ValueError. Standard library only."""

from __future__ import annotations

import json
from typing import Any

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def loads(text: str | bytes) -> Any:
    """The value. Raises ValueError, also if it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("it is nested too deeply") from e


def mapping(text: str | bytes) -> dict[str, Any]:
    """The JSON object. Raises ValueError if it is none."""
    found = loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def whole(value: Any) -> int:
    """The number, which has to be a whole one of 64 bits. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not _LEAST <= value <= _MOST:
        raise ValueError("it is no whole number of 64 bits")
    return value


def number(name: str) -> int | None:
    """The number that a file's name is, None if it is none (``isdigit`` is true of more than ``int`` takes)."""
    return int(name) if name.isascii() and name.isdigit() and len(name) < 19 else None
