"""Keep events that come back after a fixed time: switches as echoes, reports as stale."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64
from skyband.operators.loyalty.kernels.tables import FAR, Past

NONE: I64 = np.empty(0, np.int64)


class Pending:
    """A queue ordered by time: int64 ``time`` and ``object``, the live entries from ``head`` up to ``tail``."""

    def __init__(self, time: I64 = NONE, place: I64 = NONE) -> None:
        self.time, self.object = time, place
        self.head, self.tail = 0, len(time)

    def live(self) -> Past:
        """Return all entries still to come, in order of time."""
        return Past(self.time[self.head : self.tail], self.object[self.head : self.tail])

    def first(self) -> int:
        """Return the time of the first entry, or ``FAR``."""
        return int(self.time[self.head]) if self.head < self.tail else FAR

    def due(self, until: int, key_of: I64) -> tuple[Past, I64]:
        """Take the entries before ``until``, by key and then by time, with their keys. ``key_of``: keys of the objects."""
        end = self.head + int(np.searchsorted(self.time[self.head : self.tail], until))
        time, place = self.time[self.head : end], self.object[self.head : end]
        self.head = end
        key = key_of[place]
        if len(key) and (key != key[0]).any():
            order = np.argsort(key, kind="stable")
            time, place, key = time[order], place[order], key[order]
        return Past(time, place), key

    def add(self, time: I64, place: I64, since: int, keys: int) -> None:
        """Append the entries of ``since`` or later; ``time`` ascends within each of the ``keys``, and none precedes a stored entry."""
        if keys > 1:
            order = np.argsort(time, kind="stable")
            time, place = time[order], place[order]
        first = np.searchsorted(time, since)
        time, place = time[first:], place[first:]
        if self.tail + len(time) > len(self.time):
            live = self.live()
            room = 2 * (len(live.time) + len(time)) + 64
            self.time, self.object = (np.concatenate([array, np.empty(room - len(array), np.int64)]) for array in live)
            self.head, self.tail = 0, len(live.time)
        self.time[self.tail : self.tail + len(time)], self.object[self.tail : self.tail + len(time)] = time, place
        self.tail += len(time)

    def insert(self, time: I64, place: I64) -> None:
        """Add entries among those still to come, wherever they belong. O(entries)."""
        live = self.live()
        all_times, places = np.concatenate([live.time, time]), np.concatenate([live.object, place])
        order = np.argsort(all_times, kind="stable")
        self.time, self.object, self.head, self.tail = all_times[order], places[order], 0, len(order)

    def keep(self, new_place: I64) -> Pending:
        """Return the queue with its objects at ``new_place``, without those of negative places."""
        live = self.live()
        place = new_place[live.object]
        return Pending(live.time[place >= 0], place[place >= 0])


def span_of_keys(key: I64) -> I64:
    """Return the distinct keys of an ascending column."""
    if len(key) == 0 or key[0] == key[-1]:
        return key[:1]
    return key[np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))]
