"""Window arithmetic shared by operators: checks, and the integers that kernels use."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Protocol

import numpy as np

from skyband.operators.base import I64, NEVER, Window
from skyband.operators.calendar import window_ends

UNBOUNDED: int = 2**60
"""A count or duration larger than any window: no bound."""


def count_of(window: Window) -> int:
    """Return the window's count, or ``UNBOUNDED``."""
    return UNBOUNDED if window.count is None else window.count


def micros_of(window: Window) -> int:
    """Return the window's duration in microseconds, or ``UNBOUNDED``."""
    return UNBOUNDED if window.micros is None else window.micros


def expiries(window: Window, time: I64) -> I64:
    """Return the instant at which each row leaves the window if no row follows, ``NEVER`` if none is certain. It ascends with ``time``."""
    found = np.full(len(time), NEVER) if window.micros is None else time + window.micros
    return found if window.tumbling is None else np.minimum(found, window_ends(window.tumbling, time))


def check_window(window: Window, largest: Window, what: str) -> None:
    """Raise ValueError unless ``window`` has a bound and fits into ``largest``."""
    if window.count is None and window.micros is None:
        raise ValueError(f"{what}: a window needs a count or a duration")
    for kind, requested, most in window.misfits(largest):
        if requested < 1:
            raise ValueError(f"{what}: a {kind} window must be at least 1, not {requested}")
        if most is None:
            raise ValueError(f"{what}: a {kind} window was asked for, but the state's window is not by {kind}")
        raise ValueError(f"{what}: {kind} window {requested} is larger than the state's {most}")


class Ranked(Protocol):
    """The attributes of a top-k query that ``check_ranked`` reads."""

    @property
    def name(self) -> str:
        """Name of the query."""
        ...

    @property
    def k(self) -> int:
        """Return how many items."""
        ...

    @property
    def window(self) -> Window:
        """Its window."""
        ...

    @property
    def every_micros(self) -> int | None:
        """Microseconds between boundaries; None: changes after every event."""
        ...

    @property
    def min_score(self) -> float | None:
        """Smallest score allowed."""
        ...

    @property
    def max_score(self) -> float | None:
        """Largest score allowed."""
        ...


def check_ranked(queries: Sequence[Ranked], keep_k: int, window: Window, direction: str, what: str) -> None:
    """Raise ValueError unless the queries for the k best can be answered from one state of ``keep_k`` and ``window``."""
    check_window(window, window, what)
    if direction not in ("min", "max"):
        raise ValueError(f"direction is {direction!r}, not 'min' or 'max'")
    if not queries:
        raise ValueError(f"a {what} state needs at least one query")
    if len({q.name for q in queries}) < len(queries):
        raise ValueError("two queries of one name")
    for q in queries:
        if q.k < 1:
            raise ValueError(f"{q.name}: k must be at least 1, not {q.k}")
        if q.k > keep_k:
            raise ValueError(f"{q.name}: k = {q.k} is larger than the state's {keep_k}")
        if q.every_micros is not None and q.every_micros < 1:
            raise ValueError(f"{q.name}: every must be at least 1 microsecond")
        if any(bound is not None and isnan(bound) for bound in (q.min_score, q.max_score)):
            raise ValueError(f"{q.name}: a score bound is not a number")
        check_window(q.window, window, q.name)
