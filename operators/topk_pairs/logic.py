"""The state and logic of ``TopKPairs``: every partner in the window is scored."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, NULL, AnyArray, Arrivals, State
from skyband.operators.expressions.canonical import attributes
from skyband.operators.expressions.compile import count_type, score_type
from skyband.operators.pair_rows.kernels.tables import (
    KEY_COLUMNS,
    Advance,
    Bucket,
    ChangeRows,
    Progress,
    Queries,
    Settings,
    Skyband,
)
from skyband.operators.pair_rows.logic import PairRowsLogic, no_progress, no_queries, no_skyband
from skyband.operators.pair_rows.segments import DriverResult, run_segments, segments
from skyband.operators.pair_rows.windows import no_objects
from skyband.operators.topk_pairs import long_runs
from skyband.operators.topk_pairs.configuration import TopKPairsConfiguration
from skyband.operators.topk_pairs.kernels.driver import drive


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled once for all scoring expressions: its signature is the types of its tables."""
    return compiled_driver(drive, 0.0) if jit.HAVE_NUMBA else drive


def compiled_driver(function: Callable[..., Any], more: Any) -> Callable[..., Any]:
    """Compile a driver with the arguments of ``drive``, one of the type of ``more`` after ``settings``, for just these types."""
    from numba import typeof

    none = np.empty(0, np.int64)
    bucket = Bucket(np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), no_skyband(), 0)
    tables = (Settings(0, 0, 0, 0, 0, 0, 0), more, no_queries(), bucket, no_progress(0, 0, 0), Advance(none, none, 0, 0), none)
    signature = (count_type(), score_type(), count_type(), score_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(function)
    return compiled


def _without_index(
    compiled: long_runs.Compiled, settings: Settings, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64,
    index: None,
) -> DriverResult[None]:  # fmt: skip
    return (*long_runs.run(compiled, settings, queries, bucket, progress, advance, work), None)


def _none() -> None:
    return None


class PairsLogic(PairRowsLogic):
    """About N vectorised scores per arrival, O(k) per change."""

    def __init__(self, configuration: TopKPairsConfiguration, state: State | None) -> None:
        kernel = configuration.kernel
        as_b = (kernel.count_block, kernel.score_block)
        as_a = as_b if configuration.between is None else (kernel.swapped.count_block, kernel.swapped.score_block)
        self.scoring = (*as_a, *as_b)
        self.negated = configuration.direction == "max"
        self.read = attributes(configuration.scoring)
        super().__init__(configuration, state)

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        compiled, inputs = partial(driver(), *self.scoring), (self.queries, bucket, self.progress, advance, self.work)
        parts = segments(self.settings, self.queries, bucket, advance)
        if parts:
            return run_segments(partial(_without_index, compiled, self.settings), *inputs, None, parts, _none)[:4]
        return long_runs.run(compiled, self.settings, *inputs)

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        """Return which arrivals have a null in an attribute of the score."""
        bad = np.zeros(len(arrivals), bool)
        for c in self.read:
            x = arrivals.columns[c.name]
            bad |= np.isnan(x) if c.kind == "float" else x == NULL
        return bad

    def _external(self, score: F64) -> F64:
        out: F64 = (-score if self.negated else score) + 0.0
        return out
