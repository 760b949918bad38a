"""The state and logic of ``CappedTopKPairs``: every partner in the window is scored."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, AnyArray, Arrivals, State
from skyband.operators.pair_rows.capped.kernels import walk
from skyband.operators.pair_rows.capped.limits import Limits, limits_of
from skyband.operators.pair_rows.kernels.tables import Advance, Bucket, ChangeRows, Pairs, Skyband
from skyband.operators.pair_rows.logic import PairConfiguration, PairRowsLogic, sub_batch
from skyband.operators.topk_pairs.configuration import CappedTopKPairsConfiguration
from skyband.operators.topk_pairs.kernels.capped import drive_capped
from skyband.operators.topk_pairs.logic import PairsLogic, compiled_driver
from skyband.operators.topk_pairs.zoned import ZonedDriver


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


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive_capped``, compiled once for all scoring expressions."""
    return compiled_driver(drive_capped, Limits(0, 0, 0, 0)) if jit.HAVE_NUMBA else drive_capped


class CappedPairsLogic(PairsLogic, CappedLogic):
    """About N vectorised scores per arrival, O(state) per change."""

    def __init__(self, configuration: CappedTopKPairsConfiguration, state: State | None) -> None:
        super().__init__(configuration, state)

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        self.zones.drop_if_moved(self.windows.pool.moves)
        run = ZonedDriver(driver(), self.zones)
        return run(self.settings, self.limits, self.queries, bucket, self.progress, advance, self.work)[:4]
