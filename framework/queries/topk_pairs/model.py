"""The entry of a spec: the k best pairs of rows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skyband.framework.base.units import Name, Number
from skyband.framework.queries.models import K, QueryModel
from skyband.framework.queries.pair_rows.model import Between


class TopKPairs(QueryModel):
    """The k best pairs of rows."""

    type: Literal["topk_pairs"]
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    k: K = Field(description="How many pairs.")
    min_score: Number | None = Field(default=None, description="Only pairs with at least this score.")
    scoring: Name = Field(description="Name of a scoring function.")
    max_score: Number | None = Field(default=None, description="Only pairs with at most this score.")
    max_per_object: K | None = Field(default=None, description="How many pairs of the result one row may be in.")

    @property
    def cap(self) -> int | None:
        """``max_per_object`` where it can matter: no row is in more than k of k pairs."""
        return self.max_per_object if self.max_per_object is not None and self.max_per_object < self.k else None
