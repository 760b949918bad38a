"""For every arrival its best older partners, reported once (docs/algorithms D2, D3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import State, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.pair_rows.queries import DELETED, Between, PairQuery
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.state_keys import StateKeys
from skyband.operators.windows import check_ranked

if TYPE_CHECKING:
    from skyband.operators.matches.logic import MatchesLogic
    from skyband.operators.pair_rows.partner_shards import PartnerShard
    from skyband.operators.shards import Share

# What every arrival's best older partners are asked for, by the similarity of sets or by a scoring expression.


@dataclass(frozen=True, kw_only=True)
class MatchesConfiguration(SetsConfiguration):
    """For every arriving set its ``k`` most similar older ones in the query's window, reported once, at its arrival.

    ``min_score`` (``max_score`` of the distance ``hamming``) is the score a pair must have at least. Raises ValueError for k < 1, a window
    larger than the state's or of another kind, a bound that is NaN or on the better side, ``every_micros``, and what
    ``SetsConfiguration`` refuses.
    """

    queries: tuple[PairQuery, ...]

    state_format: ClassVar[str] = "Matches"
    query_types: ClassVar[frozenset[str]] = frozenset({"matches"})
    lasting: ClassVar[bool] = False
    state_keys: ClassVar[StateKeys] = StateKeys(each={"next": 0, "step": 1}, groups=(DELETED,))
    """Nothing of what was reported is kept: there is no result that changes add up to."""

    def __post_init__(self) -> None:
        self.check()
        _check_queries(self.queries, self.window, self.direction)
        for q in self.queries:
            self.check_bounds(q.name, q.min_score, q.max_score)


@dataclass(frozen=True, kw_only=True)
class ScoredMatchesConfiguration(ScoredPairs):
    """For every arriving object its ``k`` best older ones in the query's window by a score, reported once, at its arrival.

    a is the older object, or with ``between`` the one of side a. Queries agree in the bound on the better side (see ``ScoredPairs``).
    ``texts`` are the plan's text constants. Raises ValueError for k < 1, a window larger than the state's or of another kind, a bound that
    is NaN, ``every_micros``, and equal sides.
    """

    scoring: Node
    direction: Literal["min", "max"]
    where: Node | None = None
    between: Between | None = None
    queries: tuple[PairQuery, ...]
    window: Window
    texts: tuple[str, ...] = ()
    deletes: bool = False
    """Whether rows may be deletions: later arrivals do not match deleted rows, and what was reported stays so."""

    state_format: ClassVar[str] = "ScoredMatches"
    query_types: ClassVar[frozenset[str]] = frozenset({"matches"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    lasting: ClassVar[bool] = False
    state_keys: ClassVar[StateKeys] = MatchesConfiguration.state_keys

    def __post_init__(self) -> None:
        _check_queries(self.queries, self.window, self.direction)
        self.check_scored()


def _check_queries(queries: tuple[PairQuery, ...], window: Window, direction: str) -> None:
    check_ranked(queries, max([q.k for q in queries], default=1), window, direction, "matches")
    for q in queries:
        if q.every_micros is not None:
            raise ValueError(f"{q.name}: what is reported once has no boundaries")


class Matches(MatchesConfiguration):
    """The operator of a ``MatchesConfiguration``. Its changes are all ``+``, a step an arrival that has a match, the best first."""

    def build(self, state: State | None) -> MatchesLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.set_index.partners import SetPartnerSearch

        return MatchesLogic(self, partial(SetPartnerSearch, self), state)

    @property
    def can_be_sharded(self) -> bool:
        """Return True: shards mark deleted objects in their windows as the operator does."""
        return True

    def build_shard(self, share: Share, state: State | None) -> PartnerShard:
        """Return one shard, as ``Shardable.build_shard``."""
        from skyband.operators.matches.logic import partner_queries
        from skyband.operators.pair_rows.partner_shards import PartnerShard
        from skyband.operators.set_index.partners import SetPartnerSearch

        return PartnerShard(SetPartnerSearch(self, partner_queries(self)), share, state)

    def build_merge(self, state: State | None) -> MatchesLogic:
        """Return the merge of shards, as ``Shardable.build_merge``."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.pair_rows.partner_shards import FoundSearch

        return MatchesLogic(self, partial(FoundSearch, self), state)


class ScoredMatches(ScoredMatchesConfiguration):
    """The operator of a ``ScoredMatchesConfiguration``; its changes are those of ``Matches``."""

    def build(self, state: State | None) -> MatchesLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch

        return MatchesLogic(self, partial(ScoredPartnerSearch, self), state)

    @property
    def can_be_sharded(self) -> bool:
        """Return True: shards mark deleted objects in their windows as the operator does."""
        return True

    def build_shard(self, share: Share, state: State | None) -> PartnerShard:
        """Return one shard, as ``Shardable.build_shard``."""
        from skyband.operators.matches.logic import partner_queries
        from skyband.operators.pair_rows.partner_shards import PartnerShard
        from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch

        return PartnerShard(ScoredPartnerSearch(self, partner_queries(self)), share, state)

    def build_merge(self, state: State | None) -> MatchesLogic:
        """Return the merge of shards, as ``Shardable.build_merge``."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.pair_rows.partner_shards import FoundSearch

        return MatchesLogic(self, partial(FoundSearch, self), state)
