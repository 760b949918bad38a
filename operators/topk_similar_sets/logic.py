"""The logic of ``TopKSimilarSets``: the pairs' skyband, with candidates from the index of the window's sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, AnyArray, Arrivals, State
from skyband.operators.expressions.compile import score_type
from skyband.operators.pair_rows.kernels.tables import (
    FOUND,
    KEY_COLUMNS,
    REFILLS,
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
from skyband.operators.set_index.kernels.probe import COUNTED, PROBED, READ, WEIGHED
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index, Tokens, new_index
from skyband.operators.set_index.sets import Sets, new_sets
from skyband.operators.topk_similar_sets.configuration import TopKSimilarSetsConfiguration
from skyband.operators.topk_similar_sets.kernels import SearchCriteria, drive

FEWEST: int = 32
"""Smallest number of arrivals of a sub-batch."""


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled once for all conditions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return drive
    from numba import typeof

    none = np.empty(0, np.int64)
    bucket = Bucket(np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), no_skyband(), 0)
    fixed = (Settings(0, 0, 0, 0, 0, 0, 0), SearchCriteria(0, 0.0, False))
    moving = (no_queries(), bucket, no_progress(0, 0, 0), Advance(none, none, 0, 0))
    sets = ArrivingSets(Tokens(none, none), none, 0)
    signature = (score_type(), score_type(), *map(typeof, (*fixed, *moving, sets, new_index(1, 1, 1, 1, 0), none, none)))
    compiled: Callable[..., Any] = jit.jit(signature)(drive)
    return compiled


class SimilarSetsLogic(PairRowsLogic):
    """Probes the lists of an arrival's tokens as far back as its similarity can enter the skyband; O(k) per change."""

    def __init__(self, configuration: TopKSimilarSetsConfiguration, state: State | None) -> None:
        self.sets = Sets(configuration)
        self.external, self.is_unusable = configuration.external, configuration.unusable
        worst_score = max(configuration.worst_score(q) for q in configuration.queries)
        self.criteria = SearchCriteria(self.sets.function, worst_score, self.sets.has_condition)
        super().__init__(configuration, state)
        # Most pairs of arrivals share no token, so they cost less than pairs of numbers.
        self.settings = self.settings._replace(sub_batch=max(FEWEST, self.settings.sub_batch))

    def _grow(self, keys: int) -> None:
        super()._grow(keys)
        self.sets.grow(keys)

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        tokens, largest = self.sets.tokens(arrivals) if len(arrivals) else (Tokens(np.zeros(1, np.int64), np.empty(0, np.int64)), 0)
        row, compiled, counted = self.sets.rows_of(arrivals, advance.keys), driver(), []

        def drive(queries: Queries, bucket: Bucket, progress: Progress, of: Advance, work: I64, index: Index) -> DriverResult[Index]:
            counters = np.zeros(PROBED, np.int64)
            sets = ArrivingSets(tokens, row + of.first_new - advance.first_new, largest)
            found: DriverResult[Index] = compiled(
                *self.sets.tests, self.settings, self.criteria, queries, bucket, progress, of, sets, index, work, counters
            )  # fmt: skip
            if len(queries.k):
                counted.append(counters)
            return found

        inputs = self.queries, bucket, self.progress, advance, self.work, self.sets.index
        parts = segments(self.settings, self.queries, bucket, advance, again=False)
        rows, written, skyband, end, self.sets.index = run_segments(drive, *inputs, parts, new_sets) if parts else drive(*inputs)
        self.sets.counters += np.sum(counted, axis=0)
        return rows, written, skyband, end

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        """Return a mask of the arrivals without tokens."""
        return self.is_unusable(arrivals)

    def _external(self, score: F64) -> F64:
        return self.external(score)

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self.sets.restore(self.settings, self.windows, state.rows, self.until)

    def _work_done(self) -> dict[str, int]:
        """Return and reset the counters of the search, with candidates and refills."""
        counts = self.sets.counters
        found = {"read": int(counts[READ]), "weighed": int(counts[WEIGHED]), "counted": int(counts[COUNTED])}
        counts[:] = 0
        return found | {"candidates": int(self.work[FOUND]), "refills": int(self.work[REFILLS])}
