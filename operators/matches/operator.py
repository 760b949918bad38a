"""For every arrival its best older partners, reported once (docs/algorithms D2, D3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.matches.configuration import MatchesConfiguration, ScoredMatchesConfiguration

if TYPE_CHECKING:
    from skyband.operators.matches.logic import MatchesLogic


class Matches(MatchesConfiguration):
    """The operator of a ``MatchesConfiguration``. Its changes are all ``+``, a step an arrival that has a match, the best first."""

    def build(self, state: State | None) -> MatchesLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.set_index.partners import SetPartnerSearch

        return MatchesLogic(self, partial(SetPartnerSearch, self), state)


class ScoredMatches(ScoredMatchesConfiguration):
    """The operator of a ``ScoredMatchesConfiguration``; its changes are those of ``Matches``."""

    def build(self, state: State | None) -> MatchesLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.matches.logic import MatchesLogic
        from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch

        return MatchesLogic(self, partial(ScoredPartnerSearch, self), state)
