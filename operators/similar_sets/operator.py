"""Every pair of sets of a stream that is similar enough (docs/algorithms D3). The shared state is those pairs, of the largest window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from skyband.operators.base import State
from skyband.operators.pair_rows.queries import ALL_PAIRS, BoundedPairQuery, check_bounded
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.state_keys import StateKeys

if TYPE_CHECKING:
    from skyband.operators.pair_rows.all_pairs import AllPairsLogic
    from skyband.operators.pair_rows.partner_shards import PartnerShard
    from skyband.operators.shards import Share

# What all pairs of sets that are similar enough are asked for.


@dataclass(frozen=True, kw_only=True)
class SimilarSetsConfiguration(SetsConfiguration):
    """Every pair that is similar enough, for all ``queries``: ``min_score``, or of the distance ``hamming`` ``max_score``.

    Raises ValueError for no queries, names used twice, a query without a bound or with one that is NaN or on the better side, a window
    larger than the state's or of another kind, and what ``SetsConfiguration`` refuses.
    """

    queries: tuple[BoundedPairQuery, ...]

    state_format: ClassVar[str] = "SimilarSets"
    query_types: ClassVar[frozenset[str]] = frozenset({"similar_sets"})
    state_keys: ClassVar[StateKeys] = ALL_PAIRS

    def __post_init__(self) -> None:
        self.check()
        check_bounded(self.queries, self.window, "similar_sets")
        for q in self.queries:
            self.check_bounds(q.name, q.min_score, q.max_score)


class SimilarSets(SimilarSetsConfiguration):
    """The operator of a ``SimilarSetsConfiguration``."""

    def build(self, state: State | None) -> AllPairsLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.pair_rows.all_pairs import AllPairsLogic
        from skyband.operators.set_index.partners import SetPartnerSearch

        return AllPairsLogic(self, partial(SetPartnerSearch, self), state)

    @property
    def can_be_sharded(self) -> bool:
        """Return True: shards mark deleted objects in their windows as the operator does."""
        return True

    def build_shard(self, share: Share, state: State | None) -> PartnerShard:
        """Return one shard, as ``Shardable.build_shard``."""
        from skyband.operators.pair_rows.all_pairs import partner_queries
        from skyband.operators.pair_rows.partner_shards import PartnerShard
        from skyband.operators.set_index.partners import SetPartnerSearch

        return PartnerShard(SetPartnerSearch(self, partner_queries(self)), share, state)

    def build_merge(self, state: State | None) -> AllPairsLogic:
        """Return the merge of shards, as ``Shardable.build_merge``."""
        from skyband.operators.pair_rows.all_pairs import AllPairsLogic
        from skyband.operators.pair_rows.partner_shards import FoundSearch

        return AllPairsLogic(self, partial(FoundSearch, self), state)
