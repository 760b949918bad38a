"""The limits of a sample that ``verify`` recomputes, and the time budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from skyband.framework.base.errors import SkybandError

SECONDS: Final = 30.0
"""The default time limit."""
KEYS: Final = 5
"""The default number of keys where only ``instants`` is limited."""
MOST: Final = 1_000_000
"""The largest value of a limit."""
LEAST_SHARE: Final = 1 / 3
"""The least share of the time limit that samples get, however long the earlier parts took."""

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


class Budget:
    """The time budget of one ``verify``, from its creation. ``limit``: seconds, None for no limit."""

    def __init__(self, limit: float | None, clock: Clock = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self.started = clock()
        self._end = math.inf if limit is None else self.started + limit

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self._clock() - self.started

    def sampling(self) -> None:
        """Start the sampling part: it gets the time that is left, at least a third of the limit."""
        if self._limit is not None:
            self._end = max(self._end, self._clock() + LEAST_SHARE * self._limit)

    def late(self) -> bool:
        """Return True if the time is over."""
        return self._clock() >= self._end

    def half(self) -> Callable[[], bool]:
        """Return a function that returns True once half of the time that is left now is over."""
        now = self._clock()
        end = now + (self._end - now) / 2
        return lambda: self._clock() >= end
