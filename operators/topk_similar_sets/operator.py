"""The most similar pairs of sets of a stream, for the queries that share a similarity (docs/algorithms D3).

The shared state is the K-skyband of pairs of the largest window, as for pairs of any score; candidates come from lists of the sets that
hold a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from skyband.operators.base import State
from skyband.operators.pair_rows.queries import DELETED
from skyband.operators.state_keys import Group, Named, StateKeys
from skyband.operators.topk_similar_sets.configuration import TopKSimilarSetsConfiguration

if TYPE_CHECKING:
    from skyband.operators.shards import Share
    from skyband.operators.topk_similar_sets.deletes import DeletableSetsLogic
    from skyband.operators.topk_similar_sets.logic import SimilarSetsLogic, SimilarSetsMerge, SimilarSetsShard


class TopKSimilarSets(TopKSimilarSetsConfiguration):
    """The operator of a ``TopKSimilarSetsConfiguration``."""

    def build(self, state: State | None) -> SimilarSetsLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk_similar_sets.logic import SimilarSetsLogic

        return SimilarSetsLogic(self, state)

    @property
    def can_be_sharded(self) -> bool:
        """Return whether the search can be divided: not if rows can be deleted."""
        return not self.deletes

    def build_shard(self, share: Share, state: State | None) -> SimilarSetsShard:
        """Return one shard, as ``Shardable.build_shard``."""
        from skyband.operators.topk_similar_sets.logic import SimilarSetsShard

        return SimilarSetsShard(self, share, state)

    def build_merge(self, state: State | None) -> SimilarSetsMerge:
        """Return the merge of shards, as ``Shardable.build_merge``."""
        from skyband.operators.topk_similar_sets.logic import SimilarSetsMerge

        return SimilarSetsMerge(self, state)


@dataclass(frozen=True, kw_only=True)
class TopKSimilarSetsDeletes(TopKSimilarSetsConfiguration):
    """The operator where rows may be deletions.

    A deletion can bring any pair back, so there is no skyband: each query has a list of its best pairs, some more than k.
    """

    deletes: bool = True

    state_format: ClassVar[str] = "TopKSimilarSetsDeletes"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={
            "next": 0, "step": 1, "wake": 1, "due": 1, "shown": 1, "shown_score": 0, "shown_older": 0, "shown_newer": 0, "shown_deleted": 0,
            "best_length": 1, "best_oldest": 1, "best_bound_score": 1, "best_bound_older": 1, "best_bound_newer": 1,
        },
        groups=(Group(Named("best_key"), {"best_place": 0, "best_score": 0, "best_older": 0, "best_newer": 0}), DELETED),
    )  # fmt: skip

    def build(self, state: State | None) -> DeletableSetsLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk_similar_sets.deletes import DeletableSetsLogic

        return DeletableSetsLogic(self, state)
