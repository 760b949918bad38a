"""Track the objects that leave the window early: deleted, or replaced by another row of their id.

A deletion takes no number and moves no other expiry (docs/semantics 10).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.framework.streaming.bucket.store import address, split_address
from skyband.framework.streaming.rows import blocks
from skyband.operators.base import Window

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Deletions:
    """One bucket's deletions. Unless ``active`` every method is a no-op."""

    def __init__(self, active: bool, window: Window) -> None:
        self.active = active
        self.window = window
        self.at: I64 = np.empty(0, np.int64)
        self.time: I64 = np.empty(0, np.int64)

    def add(self, key: I64, time: I64, target: I64) -> None:
        """Note the objects that accepted rows delete: targets >= 0."""
        if self.active:
            gone = target >= 0
            self.at = np.append(self.at, address(key[gone], target[gone]))
            self.time = np.append(self.time, time[gone])

    def arrays(self, next_seq: I64, until: int) -> dict[str, I64]:
        """Addresses and instants of the deletions whose objects would still be in the window; the others are forgotten."""
        keep = np.ones(len(self.at), bool)
        if self.window.micros:
            keep &= self.time >= until - self.window.micros  # an object is no newer than its deletion
        if self.window.count:
            key, seq = split_address(self.at)
            keep &= seq >= next_seq[key] - self.window.count
        self.at, self.time = self.at[keep], self.time[keep]
        return {"at": self.at, "time": self.time}

    def restore(self, value: bytes | None, held: I64) -> Bool:
        """Takes back what ``arrays`` gave; which of the addresses ``held`` (sorted) have not been deleted."""
        if self.active and value:
            arrays = blocks.bytes_arrays(value)
            self.at, self.time = arrays["at"].copy(), arrays["time"].copy()
        return ~np.isin(held, self.at)
