"""Redact the values that a spec takes from the environment: the process knows them, and never stores or prints them.

Uses the standard library only. ``conceal`` registers a value, and ``redact_values`` replaces all registered values in a text by
``${NAME}``. Each output channel redacts in one place: errors when they are rendered, commands with ``errors.redacted``, Spark's log line
by line. The job file conceals by structure instead (``plan.fingerprint``).

A path that begins the path of source, look-up or sink stays readable on the caller's own terminal (``redact_for_terminal``, called by
``errors.redacted_for_terminal``), so that it can be copied and opened. Everywhere else it is redacted like any other value.

Values of one or two characters are concealed by structure only: in a text they look like any other digit or letter.
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

from skyband.framework.base.counts import number_text

SHORTEST: Final = 3
"""Shorter values are not replaced in texts: replacing every ``1`` would make messages unreadable."""
_SHORTEST_LINE: Final = 8
"""Shorter lines of a multi-line value are not replaced one by one."""
_OF_A_PATH: Final = "/:@!$&'()*+,;=~-._"

_lock = threading.Lock()
_known: set[tuple[str, str]] = set()
_replacements: dict[str, str] = {}
_pattern: re.Pattern[str] | None = None
_paths: set[tuple[str, str]] = set()
_not_only_paths: set[tuple[str, str]] = set()
_all_but_paths: re.Pattern[str] | None = None


def conceal(name: str, value: str) -> None:
    """Register ``value``: redacted texts show ``${NAME}`` for it, in every spelling. The first name given to a value stays."""
    global _pattern, _all_but_paths
    with _lock:
        if (name, value) in _known:
            return
        _known.add((name, value))
        for form in _forms(value):
            if len(form) >= SHORTEST:
                _replacements.setdefault(form, f"${{{name}}}")
        _pattern = _all_but_paths = None


def note_path(name: str, value: str, only: bool) -> None:
    """Register ``value`` of ``${NAME}`` as a path and nothing else (``only``), or as more than a path, which then holds for good."""
    global _all_but_paths
    with _lock:
        (_paths if only else _not_only_paths).add((name, value))
        _all_but_paths = None


def redact_values(text: str) -> str:
    """Return ``text`` with every concealed value replaced by ``${NAME}``, the longest first. O(length x values)."""
    # A signal handler may redact too, so the lock is held only for the look-up.
    with _lock:
        pattern = _full_pattern()
    return _replace(text, pattern)


def _full_pattern() -> re.Pattern[str] | None:
    global _pattern
    if _pattern is None and _replacements:
        _pattern = _any_of(_replacements)
    return _pattern


def _any_of(forms: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(forms, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _replace(text: str, pattern: re.Pattern[str] | None) -> str:
    return text if pattern is None else pattern.sub(lambda m: _replacements[m.group()], text)


def redact_for_terminal(text: str) -> str:
    """Redact ``text`` for the caller's own terminal: values that are only paths stay, so that they can be opened."""
    global _all_but_paths
    with _lock:
        paths = _paths - _not_only_paths
        if paths and _all_but_paths is None:
            hidden = {form for _, value in _known - paths for form in _forms(value)}
            _all_but_paths = _any_of(form for form in _replacements if form in hidden)
        pattern = _all_but_paths if paths else _full_pattern()
    return _replace(text, pattern)


def longest_concealed() -> int:
    """Return the length of the longest concealed spelling, by which consecutive pieces of a text must overlap."""
    with _lock:
        return max(map(len, _replacements), default=0)


def reveal_all() -> None:
    """Forget all registered values, so that one test does not change the messages of the next."""
    global _pattern, _all_but_paths
    with _lock:
        for registered in (_known, _replacements, _paths, _not_only_paths):
            registered.clear()
        _pattern = _all_but_paths = None


def _forms(value: str) -> Iterator[str]:
    """Yield the spellings of the value in paths, JSON, URLs, Python and SQL literals and as a number, whole and line by line."""
    spelled = {value, value.strip(), *_as_number(value)}
    if "/" in value:
        # Joining a path to another removes doubled and trailing slashes.
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
    """Yield the spellings that a plan may use for a numeric ``value``."""
    try:
        number = float(value)
    except ValueError:
        return
    if math.isfinite(number):
        yield repr(number)
        yield f"{number:g}"
        yield number_text(number)
        if number == int(number):
            yield str(int(number))
            yield f"{int(number):,}"
