"""Parse JSON as Spark does, and split a text into values: strings may have single quotes, and an array holds rows. Imports no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

_WHOLE: Final = re.compile(r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_TEXT: Final = re.compile(r"""("(?:[^"\\]|\\.)*")|'((?:[^'\\]|\\.)*)'""", re.DOTALL)


def value(text: str, constant: Callable[[str], Any] = float) -> Any:
    """Return the value of a JSON text; ``constant`` converts ``NaN`` and the like. Raises ValueError, also if it is nested too deeply."""
    try:
        try:
            return json.loads(text, parse_constant=constant)
        except ValueError:
            if "'" not in text:
                raise
            return json.loads(_TEXT.sub(_double, text), parse_constant=constant)
    except RecursionError as e:
        raise ValueError("a value is nested too deeply") from e


def rows(text: str, constant: Callable[[str], Any] = float) -> list[dict[str, Any]] | None:
    """Return the rows of a JSON text, an object or an array of objects; None if it is neither."""
    if half_character(text):
        return None
    try:
        found = value(text, constant)
    except ValueError:
        return None
    made = found if isinstance(found, list) and found else [found]
    return made if all(isinstance(r, dict) for r in made) else None


def half_character(text: str) -> bool:
    r"""Return True if a JSON text spells half a character, such as ``\ud800``, which no text can have. O(length)."""
    return "\\u" in text and _HALF.search(_WHOLE.sub("", text)) is not None


def _double(m: re.Match[str]) -> str:
    if m[1] is not None:
        return m[1]
    return '"' + re.sub(r"""\\'|(?<!\\)((?:\\\\)*)\"""", lambda q: "'" if q[0] == "\\'" else f'{q[1]}\\"', m[2]) + '"'


_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]|[^\s,\[\]{}"]+|".*', re.DOTALL)
_BLANK: Final = b" \t\r\n"


def pieces(text: bytes) -> Iterator[bytes]:
    """Yield the text of every top-level value and of every element of a top-level array, and any text that is no value.

    White space and commas between them are left out. Joined, the pieces hold everything else. O(length)
    """
    depth, begin, unwrapped, at = 0, -1, False, 0
    for m in _TOKEN.finditer(text):
        token = m.group()
        if depth == 0 and token == b"[" and not unwrapped:
            unwrapped = True
            continue
        if depth == 0 and token == b"]" and unwrapped:
            unwrapped = False
            continue
        if depth == 0:
            begin = m.start()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        at = m.end()
        if depth <= 0:
            depth = 0
            yield text[begin:at]
            begin = -1
    if begin >= 0:
        yield text[begin:].rstrip(_BLANK)
    elif unwrapped:
        yield b"["
