"""SIGINT and SIGTERM, for a whole command: they end it in order while batches run, and at once at any other time.

"At once" is not a mess: what a run writes is made to be killed anywhere (docs/how-to/run-in-production.md). No exception is thrown through
other people's code, which might swallow it or print it; the process says that it was stopped, ends Spark and is gone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SIGNALLED: Final = 128
"""Plus the number of the signal that ended a command: its exit code."""

Leave = Callable[[int], None]
"""Ends the process because of a signal; does not return."""


class Stop:
    """What has been asked for. ``signal``: the first one that came while it was heeded, None before."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._heeded = False
        self._leave: Leave | None = None

    @contextmanager
    def handled(self, leave: Leave) -> Iterator[None]:
        """Installs the handlers; outside the main thread, where Python allows none, it changes nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.signal, self._leave = None, leave
        before = {s: signal.signal(s, self._came) for s in SIGNALS}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)
            self._leave = None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Inside, the first signal only sets ``signal``: whoever is there looks at it and ends in order."""
        self._heeded = True
        try:
            yield
        finally:
            self._heeded = False

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._heeded and self.signal is None:
            self.signal = number
        elif self._leave is not None:
            self._leave(number)


STOP: Final = Stop()
"""The process's own."""


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Puts back the handlers that what runs inside replaces (Spark takes SIGINT for itself)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.getsignal(s) for s in SIGNALS}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
