"""The entry of a spec: all objects that are loyal enough."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.units import Percent, PositiveDuration
from skyband.framework.queries.loyalty_rows.model import LoyaltyRows


class ThresholdLoyalty(LoyaltyRows):
    """All objects that satisfied a criterion for at least so long within the window."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["at_least"]}, {"required": ["share"]}]})

    type: Literal["threshold_loyalty"]
    at_least: PositiveDuration | None = Field(default=None, description="How much of the window's time, such as 6 hours.")
    share: Percent | None = Field(default=None, description="What share of the window's time instead, such as 80%.")

    def least(self, window: int) -> int:
        """Return for how many microseconds of a ``window`` in microseconds an object must satisfy the criterion, rounded up."""
        if self.share is None:
            return self.at_least or 0
        # A percentage has 9 decimals at most: its shortest spelling is what the spec says.
        return ceil(Fraction(repr(self.share)) * window / 100)
