"""Parse JSON that others may have written; every defect is a ValueError. Uses the standard library only."""

from __future__ import annotations

import json
from typing import Any

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def loads(text: str | bytes) -> Any:
    """Return the value. Raises ValueError, also for text that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as e:
        raise ValueError("it is nested too deeply") from e


def mapping(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object. Raises ValueError for anything else."""
    found = loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def whole(value: Any) -> int:
    """Return ``value`` if it is a whole number of 64 bits. Raises ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not _LEAST <= value <= _MOST:
        raise ValueError("it is not a whole number of 64 bits")
    return value


def number(name: str) -> int | None:
    """Return the number that a file's name spells, or None (``isdigit`` accepts more than ``int`` does)."""
    return int(name) if name.isascii() and name.isdigit() and len(name) < 19 else None
