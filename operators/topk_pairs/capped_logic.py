"""The state and logic of ``CappedTopKPairs``: every partner in the window is scored."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from skyband.operators import jit
from skyband.operators.base import Arrivals, State
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.capped.logic import CappedLogic
from skyband.operators.pair_rows.kernels.tables import Advance, Bucket, ChangeRows, Skyband
from skyband.operators.topk_pairs.configuration import CappedTopKPairsConfiguration
from skyband.operators.topk_pairs.kernels.capped import drive_capped
from skyband.operators.topk_pairs.logic import PairsLogic, compiled_driver


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive_capped``, compiled once for all scoring expressions."""
    return compiled_driver(drive_capped, Limits(0, 0, 0, 0)) if jit.HAVE_NUMBA else drive_capped


class CappedPairsLogic(PairsLogic, CappedLogic):
    """About N vectorised scores per arrival, O(state) per change."""

    def __init__(self, configuration: CappedTopKPairsConfiguration, state: State | None) -> None:
        super().__init__(configuration, state)

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        found: tuple[ChangeRows, int, Skyband, int] = driver()(
            *self.scoring, self.settings, self.limits, self.queries, bucket, self.progress, advance, self.work
        )
        return found
