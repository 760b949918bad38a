"""Progress on stderr: what ``verify`` is doing, from 3 seconds on, and again every 10 seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from skyband.framework.console.lines import Lines

FIRST: Final = 3.0
THEN: Final = 10.0

Wait = Callable[[float], bool]
"""Waits for so many seconds; True if there is nothing to report any more."""


class Progress:
    """Reports what ``doing`` was last given, while it is open. ``wait`` is for tests."""

    def __init__(self, lines: Lines, wait: Wait | None = None) -> None:
        self._lines = lines
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._now: Callable[[], str] = lambda: "verifying"
        self._thread = threading.Thread(target=self.report, name="progress", daemon=True)

    def doing(self, now: str | Callable[[], str]) -> None:
        """From now on ``now`` is reported; a function is called by another thread, and must be quick."""
        self._now = now if callable(now) else lambda: now

    def report(self) -> None:
        """Reports until it is closed."""
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
