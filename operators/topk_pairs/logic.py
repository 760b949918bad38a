"""The state and logic of ``TopKPairs``: every partner in the window is scored, but for those that a zone map excludes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, AnyArray, Arrivals, State
from skyband.operators.expressions.compile import bound_type, count_type, score_type
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
from skyband.operators.pair_rows.zone_maps.kernels import no_zones
from skyband.operators.pair_rows.zone_maps.maps import ZoneMaps
from skyband.operators.topk_pairs import long_runs
from skyband.operators.topk_pairs.configuration import TopKPairsConfiguration
from skyband.operators.topk_pairs.kernels.partners import drive
from skyband.operators.topk_pairs.zoned import ZonedDriver


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled once for all scoring expressions: its signature is the types of its tables."""
    return compiled_driver(drive, 0.0) if jit.HAVE_NUMBA else drive


def compiled_driver(function: Callable[..., Any], more: Any) -> Callable[..., Any]:
    """Compile a driver with the arguments of ``drive``, one of the type of ``more`` after ``settings``, for just these types."""
    from numba import typeof

    none = np.empty(0, np.int64)
    bucket = Bucket(np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), no_skyband(), 0)
    settings, progress = Settings(0, 0, 0, 0, 0, 0, 0), no_progress(0, 0, 0)
    tables = (no_zones(0, 0), settings, more, no_queries(), bucket, progress, Advance(none, none, 0, 0), none)
    signature = (count_type(), score_type(), count_type(), score_type(), bound_type(), bound_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(function)
    return compiled


class PairsLogic(PairRowsLogic):
    """About N vectorised scores per arrival, O(k) per change."""

    def __init__(self, configuration: TopKPairsConfiguration, state: State | None) -> None:
        self.scored = configuration
        self.zones = ZoneMaps(configuration)
        super().__init__(configuration, state)
        self.settings = self.settings._replace(costly=int(configuration.costly))

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        inputs = (self.queries, bucket, self.progress, advance, self.work)
        self.zones.drop_if_moved(self.windows.pool.moves)
        parts = segments(self.settings, self.queries, bucket, advance)
        if not parts:
            return long_runs.run(ZonedDriver(driver(), self.zones), self.settings, *inputs)
        rows, written, skyband, end, self.zones = run_segments(self._run_segment, *inputs, self.zones, parts, self.zones.new)
        return rows, written, skyband, end

    def _run_segment(
        self, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64, zones: ZoneMaps
    ) -> DriverResult[ZoneMaps]:
        driven = ZonedDriver(driver(), zones)
        return (*long_runs.run(driven, self.settings, queries, bucket, progress, advance, work), zones)

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        return self.scored.unusable(arrivals)

    def _external(self, score: F64) -> F64:
        return self.scored.external(score)
