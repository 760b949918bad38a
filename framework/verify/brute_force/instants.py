"""In which order a query's instants are recomputed for one key: changes, events and instants between them, each shuffled, in turn."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from skyband.framework.plan.model import LogicalQuery, QueryNode
from skyband.framework.verify.brute_force.objects import Accepted
from skyband.framework.verify.stored import Key

I64 = npt.NDArray[np.int64]

BETWEEN = 2
"""After so many events of a sample comes any instant between the first row and the last."""


class Stream:
    """The instants of one stream of changes: those of one key for a query, or for one of a list of queries (``asked``)."""

    def __init__(self, query: QueryNode, asked: LogicalQuery | None, key: Key, mine: Accepted, until: int, reported: Sequence[int]) -> None:
        """``reported``: instants of the stream's changes. ``until``: the last instant up to which results are complete."""
        self.asked = asked
        self.name: Key = (asked.name, *key) if asked is not None and query.members else key
        self.covered = np.zeros(len(mine.time), bool)
        """Of every row whether the result after it has been recomputed."""
        self.steps: set[int] = set()
        """The reported steps that have been recomputed."""
        self._query = query
        self._time = np.array(mine.time, np.int64)
        self._until = until
        self._reported = np.array([t for t in reported if t <= until], np.int64)
        self._known = _instants(query, asked, self._time, mine, until, reported)
        self._seen: set[int] = set()
        self._following: deque[int] = deque()

    @property
    def rows(self) -> int:
        """How many rows have a result after them: with ``every`` those up to the last boundary."""
        every = self._query.every_micros
        return int(np.searchsorted(self._time, self._until // every * every, side="right")) if every else len(self._time)

    def order(self, seed: int, everything: bool) -> Iterator[int]:
        """The instants, each once. ``everything``: only those at which something happens, in order, and those that ``follow``."""
        if everything:
            for at in self._known.tolist():
                yield from self._new([at])
                while self._following:
                    yield from self._new([self._following.popleft()])
            return
        number = zlib.crc32(repr((seed, self._query.name, self.name)).encode())
        shuffle = np.random.default_rng(number)
        # Reported changes are few among the events, and there a mistake is most likely to show: they take turns with all others.
        reported = deque(shuffle.permutation(self._reported).tolist())
        for n, at in enumerate(shuffle.permutation(self._known).tolist(), 1):
            if reported:
                yield from self._new([reported.popleft()])
            yield from self._new([at])
            if n % BETWEEN == 0 and self._query.item.lasting:
                first = int(self._time[0])
                yield from self._new([int(shuffle.integers(first, max(first, self._until), endpoint=True))])

    def follow(self, instants: Sequence[int]) -> list[int]:
        """Of ``instants`` at which something may happen next those that are new; they are part of the order."""
        found = [t for t in instants if t <= self._until and t not in self._seen]
        self._following += found
        return found

    def _new(self, instants: Sequence[int]) -> Iterator[int]:
        for at in instants:
            if at not in self._seen:
                self._seen.add(at)
                yield at

    def cover(self, at: int) -> None:
        """The result at ``at`` has been recomputed."""
        every = self._query.every_micros
        low, high = (at - 1, at) if not every else (at // every * every - every, at // every * every)
        first, end = np.searchsorted(self._time, [low, high], side="right")
        self.covered[first:end] = True


def _instants(
    query: QueryNode, asked: LogicalQuery | None, time: I64, mine: Accepted, until: int, reported: Sequence[int]
) -> I64:  # fmt: skip
    """All instants at which a row comes, leaves or is deleted, or a change is reported; with ``every`` the boundaries that show them."""
    parts = [time, np.array(reported, np.int64)]
    life = (asked.window if asked is not None else query.window).micros
    if query.item.lasting and life is not None:
        parts.append(time + life)
    if mine.deletions:
        parts.append(np.array([t for t, _, _ in mine.deletions], np.int64))
    found = np.concatenate(parts)
    if query.every_micros:
        found = -(-found // query.every_micros) * query.every_micros
    return np.unique(found[found <= until])
