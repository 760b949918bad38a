"""Map the numbers of a bucket's objects to places, and rank objects by name."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64, AnyArray, Named
from skyband.operators.jit import inner, jit


@inner
def name_before(length: I64, words: I64, first: int, second: int) -> bool:
    """Return True if one name comes before another: word by word, the shorter first where one begins the other."""
    for index in range(min(length[first], length[second])):
        if words[first, index] != words[second, index]:
            return bool(words[first, index] < words[second, index])
    return bool(length[first] < length[second])


@jit
def insert_places(length: I64, words: I64, order: I64, rank: I64, new: I64, place: I64, last: int) -> bool:
    """Write the positions in ``order`` of the places ``new``, sorted by name, and their ranks between those of their neighbours.

    Return False if there is no gap for a rank between neighbours. O(new log order).
    """
    count = len(order)
    for index in range(len(new)):
        low_place, high_place = place[index - 1] if index > 0 else 0, count
        while low_place < high_place:
            middle = (low_place + high_place) >> 1
            if name_before(length, words, order[middle], new[index]):
                low_place = middle + 1
            else:
                high_place = middle
        place[index] = low_place
    index = 0
    while index < len(new):
        end = index
        while end < len(new) and place[end] == place[index]:
            end += 1
        low = rank[order[place[index] - 1]] if place[index] > 0 else 0
        high = rank[order[place[index]]] if place[index] < count else last
        gap = (high - low) // (end - index + 1)
        if gap < 1:
            return False
        for other in range(index, end):
            rank[new[other]] = low + gap * (other - index + 1)
        index = end
    return True


NOBODY = -1
LAST = 2**62
"""All ranks are below."""
PAD = np.iinfo(np.int64).min


class Numbers:
    """A map from the host's numbers to places 0, 1, 2, ...: a table while numbers are dense, else a search."""

    def __init__(self, numbers: I64) -> None:
        self.n = len(numbers)
        self.low = int(numbers.min(initial=0)) if self.n else 0
        reach = int(numbers.max()) - self.low + 1 if self.n else 0
        self.table: AnyArray | None = None
        self.sorted = self.order = numbers[:0]
        if reach <= 8 * self.n + 65_536:
            self.table = np.full(2 * reach + 1024, NOBODY, np.int64)
            self.table[numbers - self.low] = np.arange(self.n)
        else:
            self.order = np.argsort(numbers, kind="stable")
            self.sorted = numbers[self.order]

    def extended(self, numbers: I64) -> Numbers:
        """Return the map for ``numbers``: the earlier ones, then some more."""
        index = numbers[self.n :] - self.low
        if self.table is None or not self.n or int(index.min(initial=0)) < 0 or int(index.max(initial=0)) >= len(self.table):
            return Numbers(numbers)
        self.table[index] = np.arange(self.n, len(numbers))
        self.n = len(numbers)
        return self

    def places(self, numbers: I64) -> I64:
        """Return the places of ``numbers``, or ``NOBODY``."""
        if self.table is not None:
            known = (numbers >= self.low) & (numbers < self.low + len(self.table))
            if known.all():
                found: I64 = self.table[numbers - self.low]
                return found
            found = np.full(len(numbers), NOBODY)
            found[known] = self.table[numbers[known] - self.low]
            return found
        index = np.searchsorted(self.sorted, numbers)
        index[index == len(self.sorted)] = 0
        return np.where(self.sorted[index] == numbers, self.order[index], NOBODY)


class Names:
    """Names of the objects by place, and their ranks: int64 that are in the order of names, with gaps between them for others.

    ``length`` (room,), ``words`` (room, longest), padded, ``rank`` (room,); ``order``: places by name.
    """

    def __init__(self, length: I64, words: I64) -> None:
        self.length, self.words, self.n = length, words, len(length)
        self.rank = np.empty(self.n, np.int64)
        self._rank_all()

    def _rank_all(self) -> None:
        self.order: AnyArray = np.lexsort((self.length[: self.n], *self.words[: self.n].T[::-1]))
        self.rank[self.order] = LAST // (self.n + 1) * np.arange(1, self.n + 1)

    def add(self, named: Named, which: I64) -> bool:
        """Append the names of the rows ``which`` of ``named``; return True if other ranks change. O(new log all + a copy of the order)."""
        first, end = self.n, self.n + len(which)
        start = named.words.start
        length = (start[1:] - start[:-1])[which]
        self._room(end, int(length.max(initial=0)))
        self.length[first:end] = length
        self.words[first:end] = PAD
        for column in range(int(length.max(initial=0))):
            has = length > column
            self.words[first:end][has, column] = named.words.values[start[which[has]] + column]
        self.n = end
        new = first + np.lexsort((length, *self.words[first:end].T[::-1]))
        place = np.empty(len(new), np.int64)
        fits = insert_places(self.length, self.words, self.order, self.rank, new, place, LAST)
        if not fits:
            self._rank_all()
            return True
        self.order = np.insert(self.order, place, new)
        return False

    def _room(self, objects: int, longest: int) -> None:
        room, width = len(self.length), self.words.shape[1]
        if objects <= room and longest <= width:
            return
        room, width = max(room, 2 * objects if objects > room else room), max(width, longest)
        words = np.full((room, width), PAD)
        words[: self.n, : self.words.shape[1]] = self.words[: self.n]
        self.words = words
        self.length, self.rank = (
            np.concatenate([array[: self.n], np.zeros(room - self.n, np.int64)]) for array in (self.length, self.rank)
        )

    def keep(self, places: I64) -> Names:
        """Return these names alone, in this order."""
        return Names(self.length[places], self.words[places])
