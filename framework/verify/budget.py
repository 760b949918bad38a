"""The limits of a sample that ``verify`` recomputes, and the time budget."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.units import format_span
from skyband.framework.console.lines import Lines

SECONDS: Final = 30.0
"""The default time limit."""
KEYS: Final = 5
"""The default number of keys where only ``instants`` is limited."""
MOST: Final = 1_000_000
"""The largest value of a limit."""
LEAST_SHARE: Final = 1 / 3
"""The least share of the time limit that samples get, however long the earlier parts took."""

OFTEN: Final = 1_024
"""After so many items the time is looked at."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Sample:
    """How much to recompute from the source. ``seed`` decides the order of keys and instants.

    ``keys``: the most keys. ``instants``: the most instants of each query and key. ``seconds``: the time limit of ``verify``.
    ``everything``: all keys and all events, without a time limit. By default the time limit is 30 seconds. With ``instants`` alone there is
    no time limit, but at most 5 keys.

    Raises SkybandError SKY-E201 for a number that is out of range, and for a limit together with ``everything``.
    """

    keys: int | None = None
    instants: int | None = None
    seed: int = 0
    seconds: float | None = None
    everything: bool = False

    def __post_init__(self) -> None:
        for name, number in (("--keys", self.keys), ("--instants", self.instants)):
            if number is not None and not 1 <= number <= MOST:
                said = f"{name} {_shown(number)} is out of range"
                raise SkybandError("SKY-E201", said, hint=f"use 1 to {MOST:,}, or --all for everything")
        if self.seconds is not None and not (math.isfinite(self.seconds) and 0 < self.seconds <= MOST):
            raise SkybandError("SKY-E201", f"--seconds {self.seconds:g} is out of range", hint=f"use more than 0 and at most {MOST:,}")
        if self.everything and (self.keys, self.instants, self.seconds) != (None, None, None):
            raise SkybandError(
                "SKY-E201", "--all cannot be combined with limits", hint="omit --all, or omit --keys, --instants and --seconds"
            )

    @property
    def limit(self) -> float | None:
        """The time limit in seconds; None if ``verify`` ends when the whole sample is done."""
        if self.everything or (self.instants is not None and self.seconds is None):
            return None
        return SECONDS if self.seconds is None else self.seconds

    @property
    def most_keys(self) -> int | None:
        """The most keys that are compared; None: all."""
        return KEYS if self.keys is None and self.limit is None and not self.everything else self.keys


def _shown(number: int) -> str:
    return f"{number:,}" if abs(number) < 10**30 else "with more than 30 digits"


class OutOfTime(Exception):
    """The seconds that were asked for are over: what has not been compared by now is left out."""


T = TypeVar("T")


class Budget:
    """The time budget of one ``verify``, from its creation. ``limit``: seconds, None for no limit.

    ``asked``: the limit was asked for, and holds for everything. Otherwise it only limits the sample, and replay takes what it needs.
    """

    def __init__(self, limit: float | None, clock: Clock = time.monotonic, asked: bool = False) -> None:
        self._limit = limit
        self._clock = clock
        self._asked = asked and limit is not None
        self.started = clock()
        self._end = math.inf if limit is None else self.started + limit
        self._stage_end = math.inf

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self._clock() - self.started

    @property
    def left(self) -> float | None:
        """The seconds that are left of a limit that was asked for; None without one."""
        return max(0.0, self._end - self._clock()) if self._asked else None

    @property
    def seconds_left(self) -> float | None:
        """The seconds that are left of the limit; None without one."""
        return None if self._limit is None else max(0.0, self._end - self._clock())

    def replaying(self, alone: bool) -> None:
        """Start the replay: of a limit that was asked for it gets all (``alone``), or leaves a third to the comparison with the source."""
        if self._asked and self._limit is not None:
            self._stage_end = self.started + self._limit * (1 if alone else 1 - LEAST_SHARE)

    def sampling(self) -> None:
        """Start the comparison with the source: it gets the time that is left, at least a third of a limit that was not asked for."""
        if self._asked:
            self._stage_end = self._end
        elif self._limit is not None:
            self._end = max(self._end, self._clock() + LEAST_SHARE * self._limit)

    def late(self) -> bool:
        """Return True if the time is over."""
        return self._clock() >= self._end

    def never_late(self) -> bool:
        """Return True if a limit that was asked for is over; of any other limit nothing is."""
        return self._asked and self.late()

    def check(self) -> None:
        """Raise OutOfTime if the stage's share of a limit that was asked for is over."""
        if self._asked and self._clock() >= self._stage_end:
            raise OutOfTime

    def checked(self, items: Iterable[T]) -> Iterator[T]:
        """Yield ``items``, and ``check`` from time to time."""
        for n, item in enumerate(items):
            if n % OFTEN == 0:
                self.check()
            yield item

    def half(self) -> Callable[[], bool]:
        """Return a function that returns True once half of the time that is left now is over."""
        now = self._clock()
        end = now + (self._end - now) / 2
        return lambda: self._clock() >= end


UNLIMITED: Final = Budget(None)
"""A budget without a limit."""


# Report what a command is doing: on a terminal in a line that updates in place, elsewhere one line for each long stage.
#
# A stage that knows how much it has to do shows its share and a forecast.

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
