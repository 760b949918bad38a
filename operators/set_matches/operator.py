"""For every arriving set its most similar older ones, told once (docs/algorithms.md D3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.set_matches.configuration import SetMatchesConfiguration

if TYPE_CHECKING:
    from skyband.operators.set_matches.logic import SetMatchesLogic


class SetMatches(SetMatchesConfiguration):
    """The operator of a ``SetMatchesConfiguration``. Its changes are all ``+``, a step an arrival that has a match, the best first."""

    def build(self, state: State | None) -> SetMatchesLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.set_matches.logic import SetMatchesLogic

        return SetMatchesLogic(self, state)
