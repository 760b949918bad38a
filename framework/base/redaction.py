"""Values that came from ``${NAME}``: known to the process, never stored, never printed. Standard library only.

``conceal`` is told of every value that a spec takes from the environment; ``redacted`` takes all of them out of a text. Whatever prints or
stores text that is not the user's data goes through it in one place a channel: errors when they are rendered, commands by
``errors.told``, Spark's log line by line. The job file conceals by structure instead (``plan.fingerprint``).

A path that begins ``source.path`` or ``sink.path`` is concealed like anything else, but on the terminal of whoever runs the command
(``but_places``, by ``errors.shown``): it can be opened there.

Text alone cannot tell a value of one or two characters from any other digit or letter, so those are known by structure only.
"""

from __future__ import annotations

import json
import math
import os.path
import re
import threading
from collections.abc import Iterable, Iterator
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
_places: set[tuple[str, str]] = set()
_never: set[tuple[str, str]] = set()
_but_places: re.Pattern[str] | None = None


def conceal(name: str, value: str) -> None:
    """From now on ``value``, in all the spellings it may reappear in, is ``${NAME}`` in every redacted text. The first name stays."""
    global _pattern, _but_places
    with _lock:
        if (name, value) in _known:
            return
        _known.add((name, value))
        for form in _forms(value):
            if len(form) >= SHORTEST:
                _shown.setdefault(form, f"${{{name}}}")
        _pattern = _but_places = None


def place(name: str, value: str, only: bool) -> None:
    """``value`` of ``${NAME}`` is ``only`` a place, which ``but_places`` leaves; or more than that, which it stays from then on."""
    global _but_places
    with _lock:
        (_places if only else _never).add((name, value))
        _but_places = None


def redacted(text: str) -> str:
    """``text`` with every concealed value as ``${NAME}``, the longest first. O(length x values)."""
    # A signal's handler may redact, too: the lock is held no longer than it takes.
    with _lock:
        pattern = _all()
    return _without(text, pattern)


def _all() -> re.Pattern[str] | None:
    global _pattern
    if _pattern is None and _shown:
        _pattern = _any_of(_shown)
    return _pattern


def _any_of(forms: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _without(text: str, pattern: re.Pattern[str] | None) -> str:
    return text if pattern is None else pattern.sub(lambda m: _shown[m.group()], text)


def but_places(text: str) -> str:
    """``redacted``, for who runs the command and for nobody else: paths that are only that stay, so that they can be opened."""
    global _but_places
    with _lock:
        places = _places - _never
        if places and _but_places is None:
            hidden = {form for _, value in _known - places for form in _forms(value)}
            _but_places = _any_of(form for form in _shown if form in hidden)
        pattern = _but_places if places else _all()
    return _without(text, pattern)


def longest() -> int:
    """Characters of the longest concealed spelling: what is cut into pieces must overlap by so many."""
    with _lock:
        return max(map(len, _shown), default=0)


def forget() -> None:
    """Conceals nothing any more (for tests: what one concealed must not change the messages of the next)."""
    global _pattern, _but_places
    with _lock:
        for held in (_known, _shown, _places, _never):
            held.clear()
        _pattern = _but_places = None


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
