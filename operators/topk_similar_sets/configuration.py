"""What the most similar sets are asked for: a similarity and the queries that share a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skyband.operators.pair_rows.queries import PAIR_ROWS, PairQuery
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.state_keys import StateKeys
from skyband.operators.windows import check_ranked


@dataclass(frozen=True, kw_only=True)
class TopKSimilarSetsConfiguration(SetsConfiguration):
    """The most similar pairs, for all ``queries`` and any k <= ``keep_k``.

    A query's ``min_score`` (``max_score`` of the distance ``hamming``) is the score a pair must have at least; pairs that reach none of
    the queries' are not kept. Raises ValueError for k < 1, k > ``keep_k``, a window larger than the state's or of another kind, a bound
    that is NaN or on the better side, and what ``SetsConfiguration`` refuses.
    """

    queries: tuple[PairQuery, ...]
    keep_k: int

    state_format: ClassVar[str] = "TopKSimilarSets"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk_similar_sets"})
    state_keys: ClassVar[StateKeys] = PAIR_ROWS

    @property
    def partner_nanos(self) -> float:
        """See ``shards.Shardable``: most lists are read to a part."""
        return 0.03

    def __post_init__(self) -> None:
        self.check()
        check_ranked(self.queries, self.keep_k, self.window, self.direction, "topk_similar_sets")
        for q in self.queries:
            self.check_bounds(q.name, q.min_score, q.max_score)
