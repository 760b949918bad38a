"""Top-k pairs with a cap per object: no object is in more than c pairs of a result (docs/algorithms Theorem D)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.topk_pairs.capped_configuration import CappedTopKPairsConfiguration

if TYPE_CHECKING:
    from skyband.operators.topk_pairs.capped_logic import CappedPairsLogic


class CappedTopKPairs(CappedTopKPairsConfiguration):
    """The operator of a ``CappedTopKPairsConfiguration``."""

    def build(self, state: State | None) -> CappedPairsLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk_pairs.capped_logic import CappedPairsLogic

        return CappedPairsLogic(self, state)
