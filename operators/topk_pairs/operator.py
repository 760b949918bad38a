"""Top-k pairs of a stream by any scoring expression, for the queries that share it (docs/algorithms D2).

The shared state is the K-skyband of pairs of the largest window, about K + 2K ln(N / sqrt(2K)) of them, and its staircase. Where rows can
be deleted, it is a reserve of the best alive pairs for every different window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.topk_pairs.configuration import CappedTopKPairsConfiguration, TopKPairsConfiguration

if TYPE_CHECKING:
    from skyband.operators.shards import Share
    from skyband.operators.topk_pairs.deletes import ReserveLogic
    from skyband.operators.topk_pairs.logic import CappedPairsLogic, CappedPairsMerge, CappedPairsShard, PairsLogic, PairsMerge, PairsShard


class TopKPairs(TopKPairsConfiguration):
    """The operator of a ``TopKPairsConfiguration``."""

    def build(self, state: State | None) -> PairsLogic | ReserveLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        if self.deletes:
            from skyband.operators.topk_pairs.deletes import ReserveLogic

            return ReserveLogic(self, 0, state)
        from skyband.operators.topk_pairs.logic import PairsLogic

        return PairsLogic(self, state)

    @property
    def can_be_sharded(self) -> bool:
        """Return whether the search can be divided (``operators.shards``): not if rows can be deleted."""
        return not self.deletes

    def build_shard(self, share: Share, state: State | None) -> PairsShard:
        """Return one shard, as ``Shardable.build_shard``."""
        from skyband.operators.topk_pairs.logic import PairsShard

        return PairsShard(self, share, state)

    def build_merge(self, state: State | None) -> PairsMerge:
        """Return the merge of shards, as ``Shardable.build_merge``."""
        from skyband.operators.topk_pairs.logic import PairsMerge

        return PairsMerge(self, state)


class CappedTopKPairs(CappedTopKPairsConfiguration):
    """Top-k pairs with a cap per object: no object is in more than c pairs of a result (docs/algorithms Theorem D)."""

    def build(self, state: State | None) -> CappedPairsLogic | ReserveLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        if self.deletes:
            from skyband.operators.topk_pairs.deletes import ReserveLogic

            return ReserveLogic(self, self.max_per_object, state)
        from skyband.operators.topk_pairs.logic import CappedPairsLogic

        return CappedPairsLogic(self, state)

    @property
    def can_be_sharded(self) -> bool:
        """Return whether the search can be divided (``operators.shards``): not if rows can be deleted."""
        return not self.deletes

    def build_shard(self, share: Share, state: State | None) -> CappedPairsShard:
        """Return one shard, as ``Shardable.build_shard``."""
        from skyband.operators.topk_pairs.logic import CappedPairsShard

        return CappedPairsShard(self, share, state)

    def build_merge(self, state: State | None) -> CappedPairsMerge:
        """Return the merge of shards, as ``Shardable.build_merge``."""
        from skyband.operators.topk_pairs.logic import CappedPairsMerge

        return CappedPairsMerge(self, state)
