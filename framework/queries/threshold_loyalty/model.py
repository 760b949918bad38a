"""The entry of a spec: all objects that are loyal enough."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skyband.framework.base.units import PositiveDuration
from skyband.framework.queries.loyalty_rows.model import LoyaltyRows


class ThresholdLoyalty(LoyaltyRows):
    """All objects that satisfied a criterion for at least so long within the window."""

    type: Literal["threshold_loyalty"]
    at_least: PositiveDuration = Field(description="How much of the window's time, such as 6 hours.")
