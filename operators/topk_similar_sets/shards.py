"""Shards and merge of ``TopKSimilarSets`` (docs/algorithms D6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, AnyArray, Arrivals, State
from skyband.operators.expressions.compile import score_type
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows
from skyband.operators.pair_rows.kernels.tables import KEY_COLUMNS, Advance, Bucket, Settings, Skyband
from skyband.operators.pair_rows.logic import no_skyband, sub_batch
from skyband.operators.pair_rows.shard import FoundPairsLogic, SkybandShard
from skyband.operators.pair_rows.windows import no_objects
from skyband.operators.set_index.kernels.tables import ArrivingSets, Tokens, new_index
from skyband.operators.shards import Share
from skyband.operators.topk_similar_sets.configuration import TopKSimilarSetsConfiguration
from skyband.operators.topk_similar_sets.kernels import SearchCriteria, drive_shard
from skyband.operators.topk_similar_sets.logic import SimilarSetsLogic

SHORTER, LEAST = 2, 8
"""Sub-batches of shards are shorter by this factor, with so many arrivals at the least: of pairs among them fewer are found in vain."""


@cache
def shard_driver() -> Callable[..., Any]:
    """Return ``drive_shard``, compiled once for all conditions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return drive_shard
    from numba import typeof

    none = np.empty(0, np.int64)
    bucket = Bucket(np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), no_skyband(), 0)
    tables = (
        Settings(0, 0, 0, 0, 0, 0, 0), SearchCriteria(0, 0.0, False), OwnBlocks(0, 1, 1), bucket, Advance(none, none, 0, 0),
        ArrivingSets(Tokens(none, none), none, 0), new_index(1, 1, 1, 1, 0), none, none,
    )  # fmt: skip
    compiled: Callable[..., Any] = jit.jit((score_type(), score_type(), *map(typeof, tables)))(drive_shard)
    return compiled


class SimilarSetsShard(SkybandShard, SimilarSetsLogic):
    """One shard: the index of all sets, and the skyband of the pairs of its share."""

    def __init__(self, configuration: TopKSimilarSetsConfiguration, share: Share, state: State | None) -> None:
        self.share = share
        super().__init__(configuration, state)
        self.settings = self.settings._replace(sub_batch=max(LEAST, sub_batch(configuration.keep_k) // SHORTER))

    def _find(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        tokens, largest = self.sets.tokens(arrivals)
        sets = ArrivingSets(tokens, self.sets.rows_of(arrivals, advance.keys), largest)
        rows, found, skyband, end, self.sets.index = shard_driver()(
            *self.sets.tests, self.settings, self.criteria, self._own, bucket, advance, sets, self.sets.index, self.work,
            self.sets.counters,
        )  # fmt: skip
        return rows, found, skyband, end


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
