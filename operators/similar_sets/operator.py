"""Every pair of sets of a stream that is similar enough (docs/algorithms D3). The shared state is those pairs, of the largest window."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.similar_sets.configuration import SimilarSetsConfiguration

if TYPE_CHECKING:
    from skyband.operators.pair_rows.all_pairs import AllPairsLogic


class SimilarSets(SimilarSetsConfiguration):
    """The operator of a ``SimilarSetsConfiguration``."""

    def build(self, state: State | None) -> AllPairsLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.pair_rows.all_pairs import AllPairsLogic
        from skyband.operators.set_index.partners import SetPartnerSearch

        return AllPairsLogic(self, partial(SetPartnerSearch, self), state)
