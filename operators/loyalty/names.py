"""The objects of a bucket by number, and their rank by name."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64, AnyArray, Named

NOBODY = -1


class Numbers:
    """From the host's numbers to places 0, 1, 2, ...: a table while numbers are dense, else a search."""

    def __init__(self, numbers: I64) -> None:
        self.order: AnyArray = np.argsort(numbers, kind="stable")
        self.sorted = numbers[self.order]
        self.low = int(self.sorted[0]) if len(numbers) else 0
        reach = int(self.sorted[-1]) - self.low + 1 if len(numbers) else 0
        self.table: AnyArray | None = None
        if reach <= 8 * len(numbers) + 65_536:
            self.table = np.full(reach, NOBODY, np.int64)
            self.table[numbers - self.low] = np.arange(len(numbers))

    def places(self, numbers: I64) -> I64:
        """The places of ``numbers``, or ``NOBODY``."""
        if self.table is not None:
            at = numbers - self.low
            known = (at >= 0) & (at < len(self.table))
            if known.all():
                found: I64 = self.table[at]
                return found
            out = np.full(len(numbers), NOBODY)
            out[known] = self.table[at[known]]
            return out
        at = np.searchsorted(self.sorted, numbers)
        at[at == len(self.sorted)] = 0
        return np.where(self.sorted[at] == numbers, self.order[at], NOBODY)


class Names:
    """Names of objects by place: ``length`` int64 (n,) and ``words`` (n, longest), padded."""

    def __init__(self) -> None:
        self.length = np.empty(0, np.int64)
        self.words = np.empty((0, 0), np.int64)

    def add(self, named: Named, which: I64) -> None:
        """Append the names of the rows ``which`` of ``named``."""
        start = named.words.start
        length = (start[1:] - start[:-1])[which]
        wide = max(self.words.shape[1], int(length.max(initial=0)))
        new = np.full((len(which), wide), np.iinfo(np.int64).min)
        for c in range(wide):
            has = length > c
            new[has, c] = named.words.values[start[which[has]] + c]
        self._append(length, new)

    def _append(self, length: I64, words: I64) -> None:
        wide = words.shape[1]
        held = np.full((len(self.length), wide), np.iinfo(np.int64).min)
        held[:, : self.words.shape[1]] = self.words
        self.length = np.concatenate([self.length, length])
        self.words = np.concatenate([held, words])

    def keep(self, places: I64) -> None:
        """Only those, in this order."""
        self.length, self.words = self.length[places], self.words[places]

    def ranks(self) -> I64:
        """0, 1, 2, ... by name; the shorter first where one begins the other."""
        order = np.lexsort((self.length, *self.words.T[::-1]))
        out = np.empty(len(order), np.int64)
        out[order] = np.arange(len(order))
        return out
