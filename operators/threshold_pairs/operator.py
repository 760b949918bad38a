"""Every pair of a stream with a score within bounds (docs/algorithms D2). The shared state is those pairs, of the largest window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import State, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.pair_rows.queries import ALL_PAIRS, Between, BoundedPairQuery, check_bounded
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.state_keys import StateKeys

if TYPE_CHECKING:
    from skyband.operators.pair_rows.all_pairs import AllPairsLogic
    from skyband.operators.pair_rows.partner_shards import PartnerShard
    from skyband.operators.shards import Share

# What all pairs within bounds of a score are asked for.


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


class ThresholdPairs(ThresholdPairsConfiguration):
    """The operator of a ``ThresholdPairsConfiguration``."""

    def build(self, state: State | None) -> AllPairsLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.pair_rows.all_pairs import AllPairsLogic
        from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch

        return AllPairsLogic(self, partial(ScoredPartnerSearch, self), state)

    @property
    def can_be_sharded(self) -> bool:
        """Return True: shards mark deleted objects in their windows as the operator does."""
        return True

    def build_shard(self, share: Share, state: State | None) -> PartnerShard:
        """Return one shard, as ``Shardable.build_shard``."""
        from skyband.operators.pair_rows.all_pairs import partner_queries
        from skyband.operators.pair_rows.partner_shards import PartnerShard
        from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch

        return PartnerShard(ScoredPartnerSearch(self, partner_queries(self)), share, state)

    def build_merge(self, state: State | None) -> AllPairsLogic:
        """Return the merge of shards, as ``Shardable.build_merge``."""
        from skyband.operators.pair_rows.all_pairs import AllPairsLogic
        from skyband.operators.pair_rows.partner_shards import FoundSearch

        return AllPairsLogic(self, partial(FoundSearch, self), state)
