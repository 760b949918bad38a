"""Every pair of sets of a stream that is similar enough (docs/algorithms D3). The shared state is those pairs, of the largest window."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.similar_sets.configuration import SimilarSetsConfiguration

if TYPE_CHECKING:
    from skyband.operators.pair_rows.all_pairs import AllPairsLogic
    from skyband.operators.pair_rows.partner_shards import PartnerShard
    from skyband.operators.shards import Share


class SimilarSets(SimilarSetsConfiguration):
    """The operator of a ``SimilarSetsConfiguration``."""

    def build(self, state: State | None) -> AllPairsLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.pair_rows.all_pairs import AllPairsLogic
        from skyband.operators.set_index.partners import SetPartnerSearch

        return AllPairsLogic(self, partial(SetPartnerSearch, self), state)

    @property
    def can_be_sharded(self) -> bool:
        """Return True: shards mark deleted objects in their windows as the operator does."""
        return True

    def build_shard(self, share: Share, state: State | None) -> PartnerShard:
        """See ``Shardable``."""
        from skyband.operators.pair_rows.all_pairs import partner_queries
        from skyband.operators.pair_rows.partner_shards import PartnerShard
        from skyband.operators.set_index.partners import SetPartnerSearch

        return PartnerShard(SetPartnerSearch(self, partner_queries(self)), share, state)

    def build_merge(self, state: State | None) -> AllPairsLogic:
        """See ``Shardable``."""
        from skyband.operators.pair_rows.all_pairs import AllPairsLogic
        from skyband.operators.pair_rows.partner_shards import FoundSearch

        return AllPairsLogic(self, partial(FoundSearch, self), state)
