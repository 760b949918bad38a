"""What all pairs of sets that are similar enough are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skyband.operators.base import Window
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.state_keys import Group, Named, StateKeys
from skyband.operators.windows import check_window


@dataclass(frozen=True, slots=True)
class SimilarSetsQuery:
    """All pairs of ``window`` with a score of at least ``min_score`` (of the distance ``hamming``: at most ``max_score``)."""

    name: str
    window: Window
    min_score: float | None = None
    max_score: float | None = None
    every_micros: int | None = None


@dataclass(frozen=True, kw_only=True)
class SimilarSetsConfiguration(SetsConfiguration):
    """Every pair that is similar enough, for all ``queries``.

    Raises ValueError for no queries, names used twice, a query without a bound or with one that is NaN or on the better side, a window
    larger than the state's or of another kind, and what ``SetsConfiguration`` refuses.
    """

    queries: tuple[SimilarSetsQuery, ...]

    state_format: ClassVar[str] = "SimilarSets"
    query_types: ClassVar[frozenset[str]] = frozenset({"similar_sets"})
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"next": 0, "step": 1},
        groups=(Group(Named("key"), {"older": 0, "newer": 0, "score": 0, "newer_time": 0, "older_time": 0, "end": 0}),),
    )

    def __post_init__(self) -> None:
        self.check()
        check_window(self.window, self.window, "similar_sets")
        if not self.queries:
            raise ValueError("a similar_sets state needs at least one query")
        if len({q.name for q in self.queries}) < len(self.queries):
            raise ValueError("two queries of one name")
        for q in self.queries:
            check_window(q.window, self.window, q.name)
            self.check_bounds(q.name, q.min_score, q.max_score)
            if q.min_score is None and q.max_score is None:
                raise ValueError(f"{q.name}: how similar?")
            if q.every_micros is not None and q.every_micros < 1:
                raise ValueError(f"{q.name}: every must be at least 1 microsecond")
