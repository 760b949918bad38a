"""Interrupt a running statement when its time limit expires, when the client cancels it, and when the server ends.

The interrupting thread needs the GIL. ``alarm`` limits work that holds the GIL: the kernel ends the process.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from skyband.framework.serve.protocol.wire import Refused

CANCEL: Final = b"c"
"""What the server writes into the pipe of a connection's process to cancel its statement; the pipe's end means that the server is gone."""
GRACE: Final = 5.0
"""Seconds that DuckDB has to react to an interrupt. After them the process ends, and the connection with it."""
_TICK: Final = 0.05


def alarm(seconds: float) -> None:
    """Have the kernel end this process after ``seconds``, whatever it does then; 0 calls that off."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


class Watch:
    """A thread beside the statement, which interrupts it. ``lost``: the message to the client if the process has to end."""

    def __init__(self, control: socket.socket, lost: Callable[[Refused], None]) -> None:
        self._control, self._lost = control, lost
        self._lock = threading.Lock()
        self._wake_out, self._wake_in = socket.socketpair()
        self._interrupt: Callable[[], Any] | None = None
        self._deadline = 0.0
        self._reason: Refused | None = None
        self._limit = 0.0
        self._active = False
        threading.Thread(target=self._run, daemon=True).start()

    @contextmanager
    def statement(self, seconds: float) -> Iterator[Callable[[Callable[[], Any]], None]]:
        """Watch what runs inside; it hands over its interrupt as soon as there is one. Raises Refused 57014 if it was interrupted."""
        with self._lock:
            self._limit, self._deadline, self._reason = seconds, time.monotonic() + seconds, None
            self._active, self._interrupt = True, None
        self._wake_in.send(b"x")

        def interruptible(interrupt: Callable[[], Any]) -> None:
            with self._lock:
                self._interrupt = interrupt

        try:
            yield interruptible
        except Refused as e:
            raise self._reason or e from e
        finally:
            with self._lock:
                self._active, self._interrupt = False, None

    def _run(self) -> None:
        sources = [self._control, self._wake_out]
        while True:
            ready, _, _ = select.select(sources, [], [], _TICK if self._active else None)
            if self._wake_out in ready:
                self._wake_out.recv(64)
            if self._control in ready:
                said = self._control.recv(64)
                if not said:
                    os._exit(0)
                self._end(Refused("57014", "the statement was cancelled by the client"))
            if self._active and time.monotonic() > self._deadline:
                self._end(Refused("57014", f"the statement took longer than {self._limit:g} s", "ask for less, or start with --seconds N"))
            self._press()

    def _end(self, reason: Refused) -> None:
        with self._lock:
            if self._active and self._reason is None:
                self._reason, self._deadline = reason, time.monotonic() + GRACE

    def _press(self) -> None:
        with self._lock:
            if self._reason is None or not self._active:
                return
            if self._interrupt is not None:
                self._interrupt()
            if time.monotonic() > self._deadline:
                self._lost(self._reason)
                os._exit(1)
