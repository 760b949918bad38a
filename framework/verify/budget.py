"""How much ``verify`` recomputes: the limits of a sample, and the time that is left for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from skyband.framework.base.errors import SkybandError

SECONDS: Final = 30.0
"""How long ``verify`` takes by default."""
KEYS: Final = 5
"""Keys of a sample that is limited by its instants alone."""
MOST: Final = 1_000_000
"""The largest number that a limit may be."""
LEAST_SHARE: Final = 1 / 3
"""The part of the time that samples get, however long what comes before them took."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Sample:
    """How much is recomputed from the source. ``seed`` decides the order in which keys and instants are taken.

    ``keys``: at most so many. ``instants``: of each query and key at most so many. ``seconds``: how long ``verify`` may take.
    ``everything``: all keys and all events, however long it takes. By default ``verify`` takes 30 seconds; with ``instants`` alone it takes
    as long as 5 keys need. Raises SkybandError SKY-E201 for a number that is out of range, and for a limit together with ``everything``.
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
            raise SkybandError("SKY-E201", "--all goes without limits", hint="leave out --all, or --keys, --instants and --seconds")

    @property
    def limit(self) -> float | None:
        """Seconds that ``verify`` may take; None if it ends when everything in the sample is done."""
        if self.everything or (self.instants is not None and self.seconds is None):
            return None
        return SECONDS if self.seconds is None else self.seconds

    @property
    def most_keys(self) -> int | None:
        """Keys that are compared at most; None: all."""
        return KEYS if self.keys is None and self.limit is None and not self.everything else self.keys


def _shown(number: int) -> str:
    return f"{number:,}" if abs(number) < 10**30 else "with more than 30 digits"


class Budget:
    """The time that a ``verify`` may take, from when it is made. ``limit``: seconds, None: any."""

    def __init__(self, limit: float | None, clock: Clock = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self.started = clock()
        self._end = math.inf if limit is None else self.started + limit

    @property
    def spent(self) -> float:
        """Seconds since it was made."""
        return self._clock() - self.started

    def sampling(self) -> None:
        """What is complete is done: samples get the time that is left, at least a third of the whole."""
        if self._limit is not None:
            self._end = max(self._end, self._clock() + LEAST_SHARE * self._limit)

    def late(self) -> bool:
        """Whether the time is over."""
        return self._clock() >= self._end

    def half(self) -> Callable[[], bool]:
        """What says whether half of the time that is left now is over."""
        now = self._clock()
        end = now + (self._end - now) / 2
        return lambda: self._clock() >= end
