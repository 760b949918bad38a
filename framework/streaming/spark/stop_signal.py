"""Handle SIGINT, SIGTERM and SIGHUP: while batches run a command ends after the current batch, at any other time at once.

Ending at once is safe, because a run can be killed anywhere (docs/how-to/run-in-production.md). The handler raises no exception through
code of libraries, which might swallow or print it: the process reports that it was stopped, ends Spark and exits.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""SIGHUP is sent where a terminal is closed. A command under ``nohup`` ignores it, and goes on doing so."""

SIGNALLED: Final = 128
"""The exit code of a command that a signal ended is this plus the signal's number."""
INTERRUPTED: Final = SIGNALLED + signal.SIGINT
"""The exit code of a command that Ctrl-C ended."""

Leave = Callable[[int], None]
"""Ends the process because of a signal; does not return."""


class Stop:
    """The stop request. ``signal``: the first signal that arrived inside ``heeded``, None before."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._heeded = False
        self._leave: Leave | None = None

    @contextmanager
    def handled(self, leave: Leave) -> Iterator[None]:
        """Install the handlers; do nothing outside the main thread, where Python allows none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.signal, self._leave = None, leave
        ignored = {s for s in SIGNALS if s == signal.SIGHUP and signal.getsignal(s) == signal.SIG_IGN}
        before = {s: signal.signal(s, self._on_signal) for s in SIGNALS if s not in ignored}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)
            self._leave = None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Inside the block, the first signal only sets ``signal``: the code there checks it and ends after the current batch."""
        self._heeded = True
        try:
            yield
        finally:
            self._heeded = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._heeded and self.signal is None:
            self.signal = number
        elif self._leave is not None:
            self._leave(number)


STOP: Final = Stop()
"""The stop request of this process."""


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the signal handlers after the block: PySpark replaces that of SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.getsignal(s) for s in SIGNALS}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
