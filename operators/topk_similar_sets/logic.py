"""The logic of ``TopKSimilarSets``, whole or of a shard: the pairs' skyband, with candidates from the index of the window's sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, AnyArray, Arrivals, State
from skyband.operators.expressions.compile import score_type
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows
from skyband.operators.pair_rows.kernels.tables import FOUND, REFILLS, Advance, Bucket, ChangeRows, Skyband, Task
from skyband.operators.pair_rows.logic import PairRowsLogic, no_task, sub_batch
from skyband.operators.pair_rows.segments import DriverResult, run_segments, segments
from skyband.operators.pair_rows.shard import FoundPairsLogic, SkybandShard
from skyband.operators.set_index.kernels.probe import COUNTED, PROBED, READ, WEIGHED
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index, Tokens, new_index
from skyband.operators.set_index.sets import Sets, new_sets
from skyband.operators.shards import Share
from skyband.operators.topk_similar_sets.configuration import TopKSimilarSetsConfiguration
from skyband.operators.topk_similar_sets.kernels import SearchCriteria, drive, drive_shard

FEWEST: int = 32
"""Smallest number of arrivals of a sub-batch."""
SHORTER, LEAST = 2, 8
"""Sub-batches of shards are shorter by this factor, with so many arrivals at the least: of pairs among them fewer are found in vain."""


def compiled_driver(function: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """Compile a driver with arguments of the types of ``more`` before the task, for just these types and all conditions."""
    from numba import typeof

    none = np.empty(0, np.int64)
    tables = (*more, no_task(), ArrivingSets(Tokens(none, none), none, 0), new_index(1, 1, 1, 1, 0), none)
    compiled: Callable[..., Any] = jit.jit((score_type(), score_type(), *map(typeof, tables)))(function)
    return compiled


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled: its signature is the types of its tables."""
    return compiled_driver(drive, SearchCriteria(0, 0.0, False)) if jit.HAVE_NUMBA else drive


@cache
def shard_driver() -> Callable[..., Any]:
    """Return ``drive_shard``, compiled."""
    return compiled_driver(drive_shard, SearchCriteria(0, 0.0, False), OwnBlocks(0, 1, 1)) if jit.HAVE_NUMBA else drive_shard


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

        def drive(task: Task, index: Index) -> DriverResult[Index]:
            counters = np.zeros(PROBED, np.int64)
            sets = ArrivingSets(tokens, row + task.advance.first_new - advance.first_new, largest)
            result: DriverResult[Index] = compiled(*self.sets.tests, self.criteria, task, sets, index, counters)
            if len(task.queries.k):
                counted.append(counters)
            return result

        task, index = self._task(bucket, advance), self.sets.index
        parts = segments(task, again=False)
        rows, written, skyband, end, self.sets.index = run_segments(drive, task, index, parts, new_sets) if parts else drive(task, index)
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


# Shards and the merge (docs/algorithms D6).


class SimilarSetsShard(SkybandShard, SimilarSetsLogic):
    """One shard: the index of all sets, and the skyband of the pairs of its share."""

    def __init__(self, configuration: TopKSimilarSetsConfiguration, share: Share, state: State | None) -> None:
        self.share = share
        super().__init__(configuration, state)
        self.settings = self.settings._replace(sub_batch=max(LEAST, sub_batch(configuration.keep_k) // SHORTER))

    def _find(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        tokens, largest = self.sets.tokens(arrivals)
        sets = ArrivingSets(tokens, self.sets.rows_of(arrivals, advance.keys), largest)
        task = self._task(bucket, advance)
        rows, written, skyband, end, self.sets.index = shard_driver()(
            *self.sets.tests, self.criteria, self._own, task, sets, self.sets.index, self.sets.counters
        )  # fmt: skip
        return rows, written, skyband, end


class SimilarSetsMerge(FoundPairsLogic):
    """The state of ``SimilarSetsLogic``, of pairs that shards found, without an index."""

    def __init__(self, configuration: TopKSimilarSetsConfiguration, state: State | None) -> None:
        self.external, self.is_unusable = configuration.external, configuration.unusable
        super().__init__(configuration, state)

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        """Return a mask of the arrivals without tokens."""
        return self.is_unusable(arrivals)

    def _external(self, score: F64) -> F64:
        return self.external(score)
