"""Top-k loyalty: the k objects that satisfied a criterion longest within the window."""

from __future__ import annotations

from pathlib import Path as FilePath

from skyband.framework.queries.loyalty_rows.loyalty_type import LoyaltyType
from skyband.framework.queries.topk_loyalty.model import TopKLoyalty


class TopKLoyaltyType(LoyaltyType):
    """See ``protocol.QueryType``."""

    name = "topk_loyalty"
    model = TopKLoyalty
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")


QUERY_TYPE = TopKLoyaltyType()
