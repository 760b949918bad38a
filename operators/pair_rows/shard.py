"""The state of a shard of an operator with a K-skyband of pairs (``operators.shards``): the whole window, and the skyband of its share.

The pairs of its own arrivals have a K-skyband of their own, whose staircase decides which of the next ones may be needed. It has no
queries and no progress.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit, shards
from skyband.operators.base import AnyArray, Arrivals, Instant
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.pair_rows.kernels.found import FoundRows, drive_found
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows
from skyband.operators.pair_rows.kernels.tables import Advance, Bucket, ChangeRows, Queries, Skyband
from skyband.operators.pair_rows.logic import PairRowsLogic, no_queries, no_task
from skyband.operators.shards import Share


class SkybandShard(PairRowsLogic):
    """A ``PairRowsLogic`` that finds pairs instead of making changes; a subclass searches."""

    share: Share

    @abstractmethod
    def _find(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        """Search for partners of the own arrivals of ``advance``. Return the pairs found, their number, the skybands' arena and its end."""

    @property
    def _own(self) -> OwnBlocks:
        return OwnBlocks(self.share.number, self.share.of, shards.BLOCK)

    def _query_tables(self) -> tuple[Queries, int]:
        return no_queries(), 0

    def _saved_progress(self) -> dict[str, AnyArray]:
        return {}

    def _restore_progress(self, arrays: Mapping[str, AnyArray]) -> None:
        """Ignore what the operator's own logic has reported."""

    def find(self, arrivals: Arrivals, until: Instant) -> FoundPairs:
        """Return the pairs of its share of the arrivals, as ``ShardLogic.find``."""
        since, self.until = self.until, max(self.until, until)
        if not len(arrivals):
            return FoundPairs.none()
        self.arrived += len(arrivals)
        self._grow(int(arrivals.key[-1]) + 1)
        keys, firsts = self.windows.append(arrivals, since)
        bucket = Bucket(self.windows.keys, self.windows.objects, self.skybands, self.skybands_end)
        rows, found, self.skybands, self.skybands_end = self._find(arrivals, bucket, Advance(keys, firsts, since, self.until))
        query = np.zeros(found, np.int64)
        return FoundPairs(query, rows.key[:found], rows.older[:found], rows.newer[:found], rows.score[:found])

    def counters(self) -> dict[str, int]:
        """Return the arrivals and the work done for its share of them, and reset both."""
        found = {"objects": self.arrived, **self._work_done()}
        self.arrived = 0
        self.work[:] = 0
        return found


# The logic of a K-skyband of pairs that shards found (``operators.shards``): it merges, and searches for nothing.


def compiled_merge(function: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """Compile a driver of found pairs, with arguments of the types of ``more`` before those pairs, for just these types."""
    from numba import typeof

    none = np.empty(0, np.int64)
    tables = (*more, FoundRows(none, none, np.empty(0), none), no_task())
    compiled: Callable[..., Any] = jit.jit(tuple(map(typeof, tables)))(function)
    return compiled


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive_found``, compiled once for all operators."""
    return compiled_merge(drive_found) if jit.HAVE_NUMBA else drive_found


def found_rows(arrivals: Arrivals, advance: Advance, keys: int) -> FoundRows:
    """Return the pairs found of ``arrivals``, those of ``advance``, as kernels take them; ``keys``: how many the key table has.

    Raises ValueError if there are none, or some of other arrivals.
    """
    found = arrivals.found
    if found is None:
        if len(arrivals):
            raise ValueError("arrivals without the pairs that shards found")
        found = FoundPairs.none()
    first_row = np.searchsorted(arrivals.key, advance.keys)
    offset = np.full(keys, -(2**62))
    offset[advance.keys] = first_row - advance.first_new
    newer, known = found.newer >> 1, (found.key >= 0) & (found.key < keys)
    row = offset[np.where(known, found.key, 0)] + newer if keys else np.empty(0, np.int64)
    known &= (row >= 0) & (row < len(arrivals))
    if not known.all() or not np.array_equal(np.asarray(arrivals.key)[row], found.key):
        raise ValueError("pairs of other arrivals were found")
    first_row = np.append(first_row, len(arrivals)).astype(np.int64)
    older, score = np.ascontiguousarray(found.older, np.int64), np.ascontiguousarray(found.score, np.float64)
    return FoundRows(np.ascontiguousarray(row, np.int64), older, score, first_row)


class FoundPairsLogic(PairRowsLogic):
    """A ``PairRowsLogic`` that takes the candidates from ``Arrivals.found``."""

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        found = found_rows(arrivals, advance, len(bucket.keys))
        rows, written, skyband, end = driver()(found, self._task(bucket, advance))
        return rows, written, skyband, end
