"""What entries about pairs of rows with a score have in common."""

from __future__ import annotations

from pydantic import Field

from skyband.framework.base.units import Name, Number
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.pair_rows.model import Between


class ScoredPairs(QueryModel):
    """Pairs of rows by a score of both."""

    scoring: Name = Field(description="Name of a scoring function.")
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    min_score: Number | None = Field(default=None, description="Only pairs with at least this score.")
    max_score: Number | None = Field(default=None, description="Only pairs with at most this score.")
