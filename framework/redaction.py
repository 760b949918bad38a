"""Values that came from ``${NAME}``: known to the process, never stored, never printed. Standard library only.

``conceal`` is told of every value that a spec takes from the environment; ``redacted`` takes all of them out of a text. Whatever prints or
stores text that is not the user's data goes through it in one place a channel: errors when they are rendered, commands by
``errors.told``, the engine's log line by line. The job file conceals by structure instead (``plan.fingerprint``).

Text alone cannot tell a value of one or two characters from any other digit or letter, so those are known by structure only.
"""

from __future__ import annotations

import json
import math
import os.path
import re
import threading
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

SHORTEST: Final = 3
"""Shorter values are not taken out of texts: replacing every ``1`` would leave no message whole."""
_SHORTEST_LINE: Final = 8
"""Shorter lines of a value of several lines are not taken out one by one."""
_OF_A_PATH: Final = "/:@!$&'()*+,;=~-._"

_lock = threading.Lock()
_known: set[tuple[str, str]] = set()
_shown: dict[str, str] = {}
_pattern: re.Pattern[str] | None = None


def conceal(name: str, value: str) -> None:
    """From now on ``value``, in all the spellings it may reappear in, is ``${NAME}`` in every redacted text. The first name stays."""
    global _pattern
    with _lock:
        if (name, value) in _known:
            return
        _known.add((name, value))
        for form in _forms(value):
            if len(form) >= SHORTEST:
                _shown.setdefault(form, f"${{{name}}}")
        _pattern = None


def redacted(text: str) -> str:
    """``text`` with every concealed value as ``${NAME}``, the longest first. O(length x values)."""
    global _pattern
    with _lock:
        if not _shown:
            return text
        if _pattern is None:
            _pattern = re.compile("|".join(re.escape(form) for form in sorted(_shown, key=len, reverse=True)))
        pattern = _pattern
    return pattern.sub(lambda m: _shown[m.group()], text)


def longest() -> int:
    """Characters of the longest concealed spelling: what is cut into pieces must overlap by so many."""
    with _lock:
        return max(map(len, _shown), default=0)


def forget() -> None:
    """Conceals nothing any more (for tests: what one concealed must not change the messages of the next)."""
    global _pattern
    with _lock:
        _known.clear()
        _shown.clear()
        _pattern = None


def _forms(value: str) -> Iterator[str]:
    """The value and its spellings in paths, JSON, URLs, literals of Python and SQL, and as a number; line by line, too."""
    spelled = {value, value.strip(), *_as_number(value)}
    if "/" in value:
        # A path joined to something: doubled and closing slashes go.
        spelled |= {os.path.normpath(value), value.rstrip("/")}
    if "\n" in value:
        spelled |= {line for part in value.splitlines() if len(line := part.strip()) >= _SHORTEST_LINE}
    for text in spelled:
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield text.replace("'", "''")
        yield text.replace("'", "\\'")
        with_bytes = text.encode("utf-8", "surrogateescape")
        yield quote(with_bytes, safe=_OF_A_PATH)
        yield quote(with_bytes)
        yield quote(with_bytes, safe="")


def _as_number(value: str) -> Iterator[str]:
    """How a plan spells the number that ``value`` is."""
    try:
        number = float(value)
    except ValueError:
        return
    if math.isfinite(number):
        yield repr(number)
        yield f"{number:g}"
        if number == int(number):
            yield str(int(number))
            yield f"{int(number):,}"
