"""Stretches of event times: the instants of a batch as intervals without a gap longer than a limit, for jumps of the watermark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.plan.model import IntakeNode
from skyband.operators.base import Window

I64 = npt.NDArray[np.int64]

SCHEMA: Final = pa.schema([("first", pa.int64()), ("last", pa.int64())])
"""A stretch: its first and its last instant, in microseconds."""

_MOST: Final = 1_000
"""The most stretches that a task keeps: those around its longest gaps."""
_CELLS: Final = 4
"""The most cells of time per instant: with more, most are empty, and sorting is faster."""


def limit_of(node: IntakeNode, window: Window) -> int | None:
    """Return the length of the gaps that matter to a job, in microseconds: ``max_jump`` or its window; None if none does."""
    return min((m for m in (node.jump_micros, window.micros) if m is not None), default=None)


class Stretches:
    """The stretches of the instants added so far, ascending: no gap between two of them is ``limit`` microseconds or shorter."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.first: I64 = np.zeros(0, np.int64)
        self.last: I64 = np.zeros(0, np.int64)

    def add(self, instants: I64) -> None:
        """Add ``instants`` (int64, microseconds, any order). O(n), and O(n log n) if they are out of order and far apart."""
        if not len(instants):
            return
        low, high = instants.min(), instants.max()
        if high - low <= self._limit:
            first, last = np.array([low]), np.array([high])
        else:
            gaps = np.diff(instants)
            if gaps.min() < 0:
                first, last = _unordered(instants, int(low), int(high), self._limit)
            else:
                first, last = _cut(instants, instants, gaps, self._limit)
        self.merge(first, last)

    def merge(self, first: I64, last: I64) -> None:
        """Add stretches. O(n log n) in all stretches."""
        if not len(first):
            return
        first, last = np.concatenate([self.first, first]), np.concatenate([self.last, last])
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        gaps = first[1:] - last[:-1]
        limit = self._limit
        if len(gaps) >= _MOST:
            limit = max(limit, int(np.partition(gaps, -_MOST)[-_MOST]))
        self.first, self.last = _cut(first, last, gaps, limit)

    def table(self) -> pa.Table:
        """Return the stretches as rows of ``SCHEMA``."""
        return pa.table([self.first, self.last], schema=SCHEMA)


def of_tables(tables: Iterable[pa.Table], limit: int) -> Stretches:
    """Return the stretches of all ``tables`` (``SCHEMA``) together."""
    found = Stretches(limit)
    for table in tables:
        found.merge(table["first"].to_numpy(), table["last"].to_numpy())
    return found


def _unordered(instants: I64, low: int, high: int, limit: int) -> tuple[I64, I64]:
    """Return the stretches of ``instants`` from ``low`` to ``high``; some may be divided where no gap is longer than ``limit``.

    A gap longer than ``limit`` holds a whole cell of half that length. So only instants beside empty cells are sorted.
    """
    width = max(1, limit // 2)
    if (high - low) // width >= _CELLS * len(instants):
        instants = np.sort(instants)
        return _cut(instants, instants, np.diff(instants), limit)
    cell = (instants - low) // width
    taken = np.zeros(int(cell.max()) + 3, bool)
    taken[cell + 1] = True
    edge = taken & ~(np.roll(taken, 1) & np.roll(taken, -1))
    edges = np.sort(instants[edge[cell + 1]])
    # The number of empty stretches of cells before an instant tells which stretch it belongs to.
    number = np.cumsum(taken & ~np.roll(taken, 1))[(edges - low) // width + 1]
    at = np.flatnonzero(np.diff(number))
    return edges[np.append(0, at + 1)], edges[np.append(at, len(edges) - 1)]


def _cut(first: I64, last: I64, gaps: I64, limit: int) -> tuple[I64, I64]:
    """Return the first and last instants of the stretches that gaps longer than ``limit`` separate."""
    at = np.flatnonzero(gaps > limit)
    return first[np.append(0, at + 1)], last[np.append(at, len(last) - 1)]
