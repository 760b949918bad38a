"""Print on stderr what ``verify`` is doing, after 3 seconds and then every 10 seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from skyband.framework.console.lines import Lines

FIRST: Final = 3.0
THEN: Final = 10.0

Wait = Callable[[float], bool]
"""Waits for a number of seconds; returns True if there is nothing more to report."""


class Progress:
    """A context manager that reports the last argument of ``doing`` from time to time. ``wait`` is for tests."""

    def __init__(self, lines: Lines, wait: Wait | None = None) -> None:
        self._lines = lines
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._now: Callable[[], str] = lambda: "verifying"
        self._thread = threading.Thread(target=self.report, name="progress", daemon=True)

    def doing(self, now: str | Callable[[], str]) -> None:
        """Report ``now`` from now on. A function is called by another thread, and must be fast."""
        self._now = now if callable(now) else lambda: now

    def report(self) -> None:
        """Report until the context is closed."""
        pause = FIRST
        while not self._wait(pause):
            self._lines.tell("info", "progress", f"verify: {self._now()}")
            pause = THEN

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join()
