"""Splits a text into the JSON values that it holds, for files read as a whole. Imports no Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

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
