"""The configuration of top-k pairs: a scoring expression over pairs and the queries that share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from skyband.operators.base import Window
from skyband.operators.expressions.ast import Node
from skyband.operators.pair_rows.queries import DELETED, PAIR_ROWS, Between, PairQuery
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.state_keys import Group, Named, StateKeys
from skyband.operators.windows import check_ranked

_RESERVE: Final = Group(Named("sky_key"), {"sky_window": 0, "sky_score": 0, "sky_older": 0, "sky_newer": 0, "sky_stair": 0})
TOPK_PAIRS: Final = StateKeys(
    each={**PAIR_ROWS.each, "floor_score": 0, "floor_older": 0, "floor_newer": 0, "gone": 0}, groups=(_RESERVE, DELETED)
)
"""The positions of keys in the checkpoint of a K-skyband, or of reserves where rows can be deleted."""

SPARE: Final[tuple[int, int]] = (3, 32)
"""A reserve that is filled again gets K pairs and 3K + 32 spare ones."""
MOST: Final = 4
"""A reserve holds at most 4 times as many pairs."""


@dataclass(frozen=True)
class TopKPairsConfiguration(ScoredPairs):
    """One scoring expression over a pair (a, b) and its queries.

    a is the older object, or with ``between`` the one of side a, whatever its age. Queries that share a state agree in the bound on its
    *better* side (``min_score`` for direction min): it decides which pairs are candidates at all. Raises ValueError for k < 1,
    k > ``keep_k``, a window larger than the state's or of another kind, a bound that is NaN, equal sides, or names used twice.
    """

    scoring: Node
    direction: Literal["min", "max"]
    where: Node | None
    between: Between | None
    queries: tuple[PairQuery, ...]
    keep_k: int
    window: Window
    texts: tuple[str, ...] = ()
    deletes: bool = False
    """Whether rows may be deletions."""

    state_format: ClassVar[str] = "TopKPairs"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk_pairs"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = TOPK_PAIRS

    def __post_init__(self) -> None:
        check_ranked(self.queries, self.keep_k, self.window, self.direction, "topk_pairs")
        self.check_scored()


@dataclass(frozen=True)
class CappedTopKPairsConfiguration(TopKPairsConfiguration):
    """A ``TopKPairsConfiguration`` whose results hold an object at most ``max_per_object`` times.

    A result is what a walk through the window's pairs in rank order takes: every pair that has no object in ``max_per_object`` taken pairs,
    until there are k. Raises ValueError for a cap below 1 or above ``keep_k``, too.
    """

    max_per_object: int = 1

    state_format: ClassVar[str] = "CappedTopKPairs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.max_per_object <= self.keep_k:
            raise ValueError(f"max_per_object = {self.max_per_object}: from 1 to {self.keep_k}")
