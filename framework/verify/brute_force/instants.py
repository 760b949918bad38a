"""The order in which a query's instants are recomputed for one key: changes, events and instants between them, shuffled, in turn."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from skyband.framework.plan.model import LogicalQuery, QueryNode
from skyband.framework.verify.brute_force.calendars import leaving
from skyband.framework.verify.brute_force.objects import Accepted
from skyband.framework.verify.stored import Key

I64 = npt.NDArray[np.int64]

BETWEEN = 2
"""After this many events, a sample takes a random instant between the first row and the last."""


class Stream:
    """The instants of one stream of changes: of one key, for a query or for one of a table of queries (``logical``)."""

    def __init__(
        self, query: QueryNode, logical: LogicalQuery | None, key: Key, mine: Accepted, until: int, reported: Sequence[int]
    ) -> None:
        """``reported``: instants of the stream's changes. ``until``: the last instant up to which results are complete."""
        self.logical = logical
        self.name: Key = (logical.name, *key) if logical is not None and query.members else key
        self.covered = np.zeros(len(mine.time), bool)
        """For each row, True if the result after it has been recomputed."""
        self.steps: set[int] = set()
        """The reported steps that have been recomputed."""
        self._query = query
        self._time = np.array(mine.time, np.int64)
        self._until = until
        self._reported = np.array([t for t in reported if t <= until], np.int64)
        self._known = _instants(query, logical, self._time, mine, until, reported)
        self._seen: set[int] = set()
        self._following: deque[int] = deque()

    @property
    def rows(self) -> int:
        """The number of rows that a result follows; with ``every`` those up to the last boundary."""
        every = self._query.every_micros
        return int(np.searchsorted(self._time, self._until // every * every, side="right")) if every else len(self._time)

    def cover_until(self, at: int) -> int:
        """Note that all results up to ``at`` are compared; return how many rows they follow."""
        every = self._query.every_micros
        at = min(at, self._until) if not every else min(at, self._until) // every * every
        self.covered[: int(np.searchsorted(self._time, at, side="right"))] = True
        return int(self.covered.sum())

    def order(self, seed: int, everything: bool) -> Iterator[int]:
        """Yield each instant once. ``everything``: those at which something happens, in order, and those of ``follow``."""
        if everything:
            for at in self._known.tolist():
                yield from self._new([at])
                while self._following:
                    yield from self._new([self._following.popleft()])
            return
        number = zlib.crc32(repr((seed, self._query.name, self.name)).encode())
        shuffle = np.random.default_rng(number)
        # Reported changes are few among the events, and a mistake is most likely to show there: take them in turn with the others.
        reported = deque(shuffle.permutation(self._reported).tolist())
        for n, at in enumerate(shuffle.permutation(self._known).tolist(), 1):
            if reported:
                yield from self._new([reported.popleft()])
            yield from self._new([at])
            if n % BETWEEN == 0 and self._query.item.lasting:
                first = int(self._time[0])
                yield from self._new([int(shuffle.integers(first, max(first, self._until), endpoint=True))])

    def follow(self, instants: Sequence[int]) -> list[int]:
        """Return the new ones of ``instants``, at which something may happen next, and add them to the order."""
        found = [t for t in instants if t <= self._until and t not in self._seen]
        self._following += found
        return found

    def _new(self, instants: Sequence[int]) -> Iterator[int]:
        for at in instants:
            if at not in self._seen:
                self._seen.add(at)
                yield at

    def cover(self, at: int) -> None:
        """Note that the result at ``at`` has been recomputed."""
        every = self._query.every_micros
        low, high = (at - 1, at) if not every else (at // every * every - every, at // every * every)
        first, end = np.searchsorted(self._time, [low, high], side="right")
        self.covered[first:end] = True


def _instants(
    query: QueryNode, logical: LogicalQuery | None, time: I64, mine: Accepted, until: int, reported: Sequence[int]
) -> I64:  # fmt: skip
    """Return all instants at which a row arrives, leaves or is deleted, or a change is reported; with ``every`` their boundaries."""
    parts = [time, np.array(reported, np.int64)]
    if query.item.lasting:
        parts += leaving(logical.window if logical is not None else query.window, time)
    if mine.deletions:
        parts.append(np.array([t for t, _, _ in mine.deletions], np.int64))
    found = np.concatenate(parts)
    if query.every_micros:
        found = -(-found // query.every_micros) * query.every_micros
    return np.unique(found[found <= until])
