"""Shards and merges of ``TopKPairs`` and ``CappedTopKPairs`` (docs/algorithms D6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from skyband.operators import jit
from skyband.operators.base import Arrivals, State
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows
from skyband.operators.pair_rows.kernels.tables import Advance, Bucket, ChangeRows, Skyband
from skyband.operators.pair_rows.shard import FoundPairsLogic, SkybandShard, compiled_merge, found_rows
from skyband.operators.shards import Share
from skyband.operators.topk_pairs.capped_logic import CappedPairsLogic
from skyband.operators.topk_pairs.configuration import TopKPairsConfiguration
from skyband.operators.topk_pairs.kernels.capped import drive_capped_found
from skyband.operators.topk_pairs.kernels.shard import CappedShare, drive_capped_shard, drive_shard
from skyband.operators.topk_pairs.logic import PairsLogic, compiled_driver
from skyband.operators.topk_pairs.zoned import ZonedDriver


@cache
def shard_driver() -> Callable[..., Any]:
    """Return ``drive_shard``, compiled once for all scoring expressions."""
    return compiled_driver(drive_shard, OwnBlocks(0, 1, 1)) if jit.HAVE_NUMBA else drive_shard


@cache
def capped_shard_driver() -> Callable[..., Any]:
    """Return ``drive_capped_shard``, compiled once for all scoring expressions."""
    return (
        compiled_driver(drive_capped_shard, CappedShare(Limits(0, 0, 0, 0), OwnBlocks(0, 1, 1))) if jit.HAVE_NUMBA else drive_capped_shard
    )


@cache
def capped_merge_driver() -> Callable[..., Any]:
    """Return ``drive_capped_found``, compiled once."""
    return compiled_merge(drive_capped_found, Limits(0, 0, 0, 0)) if jit.HAVE_NUMBA else drive_capped_found


class PairsShard(SkybandShard, PairsLogic):
    """One shard of ``TopKPairs``."""

    def __init__(self, configuration: TopKPairsConfiguration, share: Share, state: State | None) -> None:
        self.share = share
        super().__init__(configuration, state)
        # A trial needs arrivals of the share.
        self.zones.trial *= share.of

    def _find(self, _arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        return self._zoned(shard_driver(), self._own, bucket, advance)

    def _zoned(self, driver: Callable[..., Any], more: Any, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        self.zones.drop_if_moved(self.windows.pool.moves)
        run: ZonedDriver[ShardRows] = ZonedDriver(driver, self.zones)
        return run(self.settings, more, self.queries, bucket, self.progress, advance, self.work)[:4]


class CappedPairsShard(PairsShard, CappedPairsLogic):
    """One shard of ``CappedTopKPairs``. Its limits hold for the pairs of its share alone, too (docs/algorithms Theorem D).

    It sends what the staircase of a sub-batch's start lets pass, and all pairs among the arrivals of the sub-batch.
    """

    def _find(self, _arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        return self._zoned(capped_shard_driver(), CappedShare(self.limits, self._own), bucket, advance)


class PairsMerge(FoundPairsLogic, PairsLogic):
    """The state of ``PairsLogic``, of pairs that shards found."""


class CappedPairsMerge(CappedPairsLogic):
    """The state of ``CappedPairsLogic``, of pairs that shards found."""

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        found, run = found_rows(arrivals, advance, len(bucket.keys)), capped_merge_driver()
        rows, written, skyband, end = run(self.settings, self.limits, found, self.queries, bucket, self.progress, advance, self.work)
        return rows, written, skyband, end
