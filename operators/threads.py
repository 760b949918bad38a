"""How many threads an operator may work with: one, unless whoever runs it knows of cores that have nothing else to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_allowed = 1


def allow(threads: int) -> None:
    """From now on operators of this process may work with so many threads."""
    global _allowed
    _allowed = threads


def allowed() -> int:
    """How many there may be."""
    return _allowed


def side_by_side(work: Sequence[Callable[[], T]]) -> list[T]:
    """What each piece of ``work`` returns, done by a thread each. Raises what the first of those that fail raises, when all have ended."""
    if len(work) == 1:
        return [work[0]()]
    with ThreadPoolExecutor(len(work)) as pool:
        return [done.result() for done in [pool.submit(piece) for piece in work]]
