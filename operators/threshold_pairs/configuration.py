"""What all pairs within bounds of a score are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from skyband.operators.base import Window
from skyband.operators.expressions.ast import Node
from skyband.operators.pair_rows.queries import ALL_PAIRS, Between, BoundedPairQuery, check_bounded
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.state_keys import StateKeys


@dataclass(frozen=True, kw_only=True)
class ThresholdPairsConfiguration(ScoredPairs):
    """Every pair (a, b) with a score within bounds, for all ``queries``.

    a is the older object, or with ``between`` the one of side a. Queries agree in the bound on the better side (see ``ScoredPairs``).
    ``texts`` are the plan's text constants. Raises ValueError for no queries, names used twice, a query without a bound or with one that is
    NaN, a window larger than the state's or of another kind, and equal sides.
    """

    scoring: Node
    direction: Literal["min", "max"]
    where: Node | None = None
    between: Between | None = None
    queries: tuple[BoundedPairQuery, ...]
    window: Window
    texts: tuple[str, ...] = ()
    deletes: bool = False
    """Whether rows may be deletions."""

    state_format: ClassVar[str] = "ThresholdPairs"
    query_types: ClassVar[frozenset[str]] = frozenset({"threshold_pairs"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = ALL_PAIRS

    def __post_init__(self) -> None:
        check_bounded(self.queries, self.window, "threshold_pairs")
        self.check_scored()
