"""Parses JSON as Spark does: strings may have single quotes, and an array holds rows. Imports no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

_TEXT: Final = re.compile(r"""("(?:[^"\\]|\\.)*")|'((?:[^'\\]|\\.)*)'""", re.DOTALL)


def value(text: str, constant: Callable[[str], Any] = float) -> Any:
    """Return the value of a JSON text; ``constant`` converts ``NaN`` and the like. Raises ValueError, RecursionError."""
    try:
        return json.loads(text, parse_constant=constant)
    except ValueError:
        if "'" not in text:
            raise
        return json.loads(_TEXT.sub(_double, text), parse_constant=constant)


def rows(text: str, constant: Callable[[str], Any] = float) -> list[dict[str, Any]] | None:
    """Return the rows of a JSON text, an object or an array of objects; None if it is neither."""
    try:
        found = value(text, constant)
    except (ValueError, RecursionError):
        return None
    made = found if isinstance(found, list) and found else [found]
    return made if all(isinstance(r, dict) for r in made) else None


def _double(m: re.Match[str]) -> str:
    if m[1] is not None:
        return m[1]
    return '"' + re.sub(r"""\\'|(?<!\\)((?:\\\\)*)\"""", lambda q: "'" if q[0] == "\\'" else f'{q[1]}\\"', m[2]) + '"'
