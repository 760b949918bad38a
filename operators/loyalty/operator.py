"""Loyalty: the most loyal objects, and those that are loyal enough (docs/algorithms D5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.loyalty.configuration import LoyaltyConfiguration

if TYPE_CHECKING:
    from skyband.operators.loyalty.logic import LoyaltyLogic


class Loyalty(LoyaltyConfiguration):
    """The operator of a ``LoyaltyConfiguration``: one state for all queries of the same reports and the same T."""

    def build(self, state: State | None) -> LoyaltyLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.loyalty.logic import LoyaltyLogic

        return LoyaltyLogic(self, state)
