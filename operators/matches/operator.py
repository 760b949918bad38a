"""For every arrival its best older partners, reported once (docs/algorithms D2, D3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.matches.configuration import MatchesConfiguration, ScoredMatchesConfiguration

if TYPE_CHECKING:
    from skyband.operators.matches.logic import MatchesLogic
    from skyband.operators.pair_rows.partner_shards import PartnerShard
    from skyband.operators.shards import Share


class Matches(MatchesConfiguration):
    """The operator of a ``MatchesConfiguration``. Its changes are all ``+``, a step an arrival that has a match, the best first."""

    def build(self, state: State | None) -> MatchesLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.set_index.partners import SetPartnerSearch

        return MatchesLogic(self, partial(SetPartnerSearch, self), state)

    @property
    def can_be_sharded(self) -> bool:
        """Return True: shards mark deleted objects in their windows as the operator does."""
        return True

    def build_shard(self, share: Share, state: State | None) -> PartnerShard:
        """See ``Shardable``."""
        from skyband.operators.matches.logic import partner_queries
        from skyband.operators.pair_rows.partner_shards import PartnerShard
        from skyband.operators.set_index.partners import SetPartnerSearch

        return PartnerShard(SetPartnerSearch(self, partner_queries(self)), share, state)

    def build_merge(self, state: State | None) -> MatchesLogic:
        """See ``Shardable``."""
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
        """See ``Shardable``."""
        from skyband.operators.matches.logic import partner_queries
        from skyband.operators.pair_rows.partner_shards import PartnerShard
        from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch

        return PartnerShard(ScoredPartnerSearch(self, partner_queries(self)), share, state)

    def build_merge(self, state: State | None) -> MatchesLogic:
        """See ``Shardable``."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.pair_rows.partner_shards import FoundSearch

        return MatchesLogic(self, partial(FoundSearch, self), state)
