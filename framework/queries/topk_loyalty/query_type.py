"""Top-k loyalty: the k objects that satisfied a criterion longest within the window."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Literal

from pydantic import Field

from skyband.framework.queries.loyalty_rows.loyalty_type import LoyaltyRows, LoyaltyType
from skyband.framework.queries.models import K

# The entry of a spec: the k most loyal objects.


class TopKLoyalty(LoyaltyRows):
    """The k objects that satisfied a criterion longest within the window."""

    type: Literal["topk_loyalty"]
    k: K = Field(description="How many objects.")


class TopKLoyaltyType(LoyaltyType):
    """See ``protocol.QueryType``."""

    name = "topk_loyalty"
    model = TopKLoyalty
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")


QUERY_TYPE = TopKLoyaltyType()
