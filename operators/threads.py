"""The number of threads an operator may use: one, unless the host allows more because cores are idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_allowed = 1


def allow(threads: int) -> None:
    """Let the operators of this process use ``threads`` threads from now on."""
    global _allowed
    _allowed = threads


def allowed() -> int:
    """Return the number of threads an operator may use."""
    return _allowed


def side_by_side(work: Sequence[Callable[[], T]]) -> list[T]:
    """Run each piece of ``work`` in a thread and return the results. After all have ended, raise the first exception, if any."""
    if len(work) == 1:
        return [work[0]()]
    with ThreadPoolExecutor(len(work)) as pool:
        return [done.result() for done in [pool.submit(piece) for piece in work]]
