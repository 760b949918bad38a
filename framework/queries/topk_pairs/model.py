"""The entry of a spec: the k best pairs of rows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skyband.framework.queries.models import K
from skyband.framework.queries.scored_pairs.model import ScoredPairs


class TopKPairs(ScoredPairs):
    """The k best pairs of rows."""

    type: Literal["topk_pairs"]
    k: K = Field(description="How many pairs.")
    max_per_object: K | None = Field(default=None, description="How many pairs of the result one row may be in.")

    @property
    def cap(self) -> int | None:
        """``max_per_object`` where it can matter: no row is in more than k of k pairs."""
        return self.max_per_object if self.max_per_object is not None and self.max_per_object < self.k else None
