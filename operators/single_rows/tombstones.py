"""Past deletions, kept while a restored window might bring back a row they deleted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyband.operators.base import I64, NEVER, AnyArray, Window
from skyband.operators.windows import count_of


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Deletions that have happened: key, seq of the deleted object, instant."""

    key: I64
    seq: I64
    time: I64

    @classmethod
    def empty(cls) -> Tombstones:
        """Return no deletions."""
        none = np.empty(0, np.int64)
        return cls(none, none, none)

    def with_(self, more: Tombstones) -> Tombstones:
        """Return these deletions and ``more``."""
        return Tombstones(*(np.concatenate([getattr(self, f), getattr(more, f)]) for f in ("key", "seq", "time")))

    def where(self, keep: AnyArray) -> Tombstones:
        """Return the deletions that ``keep`` selects."""
        return Tombstones(self.key[keep], self.seq[keep], self.time[keep])

    def alive(self, next_seq: I64, until: int, window: Window) -> Tombstones:
        """Return the deletions whose object would still be alive in ``window`` (an object is no newer than its deletion)."""
        keep = self.seq >= next_seq[self.key] - count_of(window)
        if window.micros is not None and len(keep):
            keep &= self.time >= until - window.micros
        return self.where(keep)

    def times(self, key: I64, seq: I64) -> I64:
        """Return the instant of deletion of every object (key, seq), sorted, or ``NEVER``. O((objects + deletions) log)."""
        out = np.full(len(key), NEVER)
        if len(self.key) == 0 or len(key) == 0:
            return out
        d = len(self.key)
        k, s = np.concatenate([self.key, key]), np.concatenate([self.seq, seq])
        order = np.lexsort((np.arange(len(k)), s, k))  # a deletion stands just before its object
        k, s = k[order], s[order]
        hit = np.flatnonzero((k[1:] == k[:-1]) & (s[1:] == s[:-1]) & (order[1:] >= d)) + 1
        before = order[hit - 1]
        hit, before = hit[before < d], before[before < d]
        out[order[hit] - d] = self.time[before]
        return out
