"""Find the known name closest in spelling, for hints. ``bounded`` limits the comparisons."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LONGEST: Final = 100
_left: ContextVar[int | None] = ContextVar("comparisons left", default=None)


@contextmanager
def bounded(comparisons: int) -> Iterator[None]:
    """Limit ``closest`` to this number of compared pairs within the block; after that it returns None. A pair takes about 5 us."""
    token = _left.set(comparisons)
    try:
        yield
    finally:
        _left.reset(token)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the name of ``known`` closest to ``name`` in spelling (ignoring case), or None if none is close. O(number of names)."""
    left = _left.get()
    if len(name) > _LONGEST or (left is not None and left <= 0):
        return None
    by_lower: dict[str, str] = {}
    for k in known:
        if len(k) <= _LONGEST:
            by_lower.setdefault(k.lower(), k)
    if left is not None:
        _left.set(left - len(by_lower))
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
