"""The state and logic of an operator of pairs with a cap per object; a subclass finds the candidates."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from skyband.operators.base import F64, AnyArray, State
from skyband.operators.pair_rows.capped.kernels.walk import walk
from skyband.operators.pair_rows.capped.limits import limits_of
from skyband.operators.pair_rows.kernels.tables import Pairs
from skyband.operators.pair_rows.logic import PairConfiguration, PairRowsLogic, sub_batch


class CappedConfiguration(PairConfiguration, Protocol):
    """The part of an operator's configuration that the logic reads."""

    @property
    def max_per_object(self) -> int:
        """Return the pairs of a result that an object may be in, 1 to K."""
        ...


class CappedLogic(PairRowsLogic):
    """A ``PairRowsLogic`` with another staircase, which the checkpoint keeps, and with results by a greedy walk.

    The state may hold more than results need, depending on how the stream is cut, so it makes no table.
    """

    def __init__(self, configuration: CappedConfiguration, state: State | None) -> None:
        self.limits = limits_of(configuration.max_per_object, configuration.keep_k)
        super().__init__(configuration, state)
        # The state is larger than a plain one, and a pass over it costs more: longer sub-batches pay.
        self.settings = self.settings._replace(sub_batch=3 * sub_batch(self.limits.chosen))

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the checkpoint of ``PairRowsLogic`` with the staircase."""
        _, at = self._alive()
        return {**super().checkpoint(), "sky_stair": self.skybands.stair[at]}

    def _stair(self, state: State, scores: F64) -> F64:
        stair: F64 = np.array(state.arrays["sky_stair"], np.float64)
        return stair

    def _best(self, pairs: Pairs, k: int) -> Pairs:
        best = Pairs(np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64))
        first = int(pairs.older.min(initial=0 if not len(pairs.older) else pairs.older[0]))
        marks = np.zeros(int((pairs.newer >> 1).max(initial=first)) - first + 1, np.int64)
        taken = walk(pairs, len(pairs.score), k, self.limits.cap, first, marks, best)
        return Pairs(best.score[:taken], best.older[:taken], best.newer[:taken])
