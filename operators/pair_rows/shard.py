"""The state of a shard of an operator with a K-skyband of pairs (``operators.shards``): the whole window, and the skyband of its share.

The pairs of its own arrivals have a K-skyband of their own, whose staircase decides which of the next ones may be needed. It has no
queries and no progress.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from skyband.operators import shards
from skyband.operators.base import AnyArray, Arrivals, Instant
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows
from skyband.operators.pair_rows.kernels.tables import Advance, Bucket, Queries, Skyband
from skyband.operators.pair_rows.logic import PairRowsLogic, no_queries
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
        """See ``ShardLogic.find``."""
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
