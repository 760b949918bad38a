"""The entry of a spec: the k most loyal objects."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skyband.framework.queries.loyalty_rows.model import LoyaltyRows
from skyband.framework.queries.models import K


class TopKLoyalty(LoyaltyRows):
    """The k objects that satisfied a criterion longest within the window."""

    type: Literal["topk_loyalty"]
    k: K = Field(description="How many objects.")
