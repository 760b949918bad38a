"""The models of the query types (to be found through the registry)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from skyband.framework.queries.models import QueryWindow
from skyband.framework.queries.single_rows.model import QueriesFrom
from skyband.framework.queries.skyline.model import Skyline
from skyband.framework.queries.threshold.model import Threshold
from skyband.framework.queries.topk.model import TopK
from skyband.framework.queries.topk_pairs.model import Between, TopKPairs

__all__ = ["QUERY_TYPES", "Between", "QueriesFrom", "Query", "QueryWindow", "Skyline", "Threshold", "TopK", "TopKPairs"]

Query = Annotated[TopK | Threshold | TopKPairs | Skyline, Field(discriminator="type")]

QUERY_TYPES: Final = ("topk", "threshold", "topk_pairs", "skyline")
