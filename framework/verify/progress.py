"""Report what a command is doing: on a terminal in a line that updates in place, elsewhere one line for each long stage.

A stage that knows how much it has to do shows its share and a forecast.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Final, NamedTuple, Self

from skyband.framework.base.units import format_span
from skyband.framework.console.lines import Lines

FIRST: Final = 3.0
"""The seconds after which a stage is reported, where lines are not updated in place."""
LEAST: Final = 0.02
"""The least share that a forecast is made of."""

Wait = Callable[[float], bool]
"""Waits for a number of seconds; returns True if there is nothing more to report."""
Done = Callable[[], tuple[int, int]]
"""Returns how many of how many units a stage has done. Another thread calls it: it must be fast."""


class _Stage(NamedTuple):
    """What is being done since ``began``. ``until``: when it ends whatever is done by then; None if it ends when all is done."""

    text: str
    done: Done | None
    began: float
    until: float | None


class Progress:
    """A context manager that reports the stage that ``doing`` began last, of ``command``. ``wait`` and ``clock`` are for tests."""

    def __init__(self, lines: Lines, wait: Wait | None = None, clock: Callable[[], float] = monotonic, command: str = "verify") -> None:
        self._lines = lines
        self._command = command
        self._closed = threading.Event()
        self._wait = wait or self._closed.wait
        self._clock = clock
        self._stage = _Stage("starting", None, clock(), None)
        self._reported: _Stage | None = None
        self._thread = threading.Thread(target=self.report, name="progress", daemon=True)

    def doing(self, text: str, done: Done | None = None, seconds: float | None = None) -> None:
        """Begin a stage. ``done``: how far it is; ``seconds``: after which it ends whatever is done by then."""
        now = self._clock()
        self._stage = _Stage(text, done, now, None if seconds is None else now + seconds)

    def now(self) -> str:
        """Return the stage, with its share and a forecast if both are known."""
        stage, at = self._stage, self._clock()
        text = f"{self._command}: {stage.text}"
        if stage.done is None:
            return text
        done, every = stage.done()
        share = min(1.0, done / every) if every else 1.0
        left = None if share < LEAST else (at - stage.began) * (1 - share) / share
        if stage.until is not None:
            rest = max(0.0, stage.until - at)
            left = rest if left is None else min(left, rest)
        forecast = "" if left is None else f", about {format_span(round(max(left, 1.0)) * 1_000_000)} left"
        return f"{text}: {100 * share:.0f} %{forecast}"

    def report(self) -> None:
        """Report until the context is closed: a line for each stage that has taken some seconds, and none twice."""
        while not self._wait(FIRST / 6):
            stage = self._stage
            if stage is not self._reported and self._clock() - stage.began >= FIRST:
                self._reported = stage
                self._lines.tell("info", "progress", self.now())

    def __enter__(self) -> Self:
        # The command's own lines would say less, again and again.
        self._lines.close()
        if self._lines.live:
            self._lines.show(self.now)
        else:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        if self._lines.live:
            self._lines.close()
        else:
            self._thread.join()
