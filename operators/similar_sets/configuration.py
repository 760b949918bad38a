"""What all pairs of sets that are similar enough are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skyband.operators.pair_rows.queries import ALL_PAIRS, BoundedPairQuery, check_bounded
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.state_keys import StateKeys


@dataclass(frozen=True, kw_only=True)
class SimilarSetsConfiguration(SetsConfiguration):
    """Every pair that is similar enough, for all ``queries``: ``min_score``, or of the distance ``hamming`` ``max_score``.

    Raises ValueError for no queries, names used twice, a query without a bound or with one that is NaN or on the better side, a window
    larger than the state's or of another kind, and what ``SetsConfiguration`` refuses.
    """

    queries: tuple[BoundedPairQuery, ...]

    state_format: ClassVar[str] = "SimilarSets"
    query_types: ClassVar[frozenset[str]] = frozenset({"similar_sets"})
    state_keys: ClassVar[StateKeys] = ALL_PAIRS

    def __post_init__(self) -> None:
        self.check()
        check_bounded(self.queries, self.window, "similar_sets")
        for q in self.queries:
            self.check_bounds(q.name, q.min_score, q.max_score)
