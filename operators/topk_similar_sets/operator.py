"""The most similar pairs of sets of a stream, for the queries that share a similarity (docs/algorithms D3).

The shared state is the K-skyband of pairs of the largest window, as for pairs of any score; candidates come from lists of the sets that
hold a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.topk_similar_sets.configuration import TopKSimilarSetsConfiguration

if TYPE_CHECKING:
    from skyband.operators.topk_similar_sets.logic import SimilarSetsLogic


class TopKSimilarSets(TopKSimilarSetsConfiguration):
    """The operator of a ``TopKSimilarSetsConfiguration``."""

    def build(self, state: State | None) -> SimilarSetsLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk_similar_sets.logic import SimilarSetsLogic

        return SimilarSetsLogic(self, state)
