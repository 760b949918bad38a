"""The objects that satisfied a criterion longest within the last T, as of every instant: ``Loyalty`` and its queries."""

from skyband.operators.loyalty.configuration import LoyaltyQuery
from skyband.operators.loyalty.operator import Loyalty

__all__ = ["Loyalty", "LoyaltyQuery"]
