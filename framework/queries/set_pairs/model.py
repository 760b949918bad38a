"""What entries about pairs of sets have in common."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from skyband.framework.base.units import NUMBER, Name
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.pair_rows.model import Between
from skyband.operators.set_index.functions import Similarity

FORMULAS: Final = (
    "Of sets of a and b tokens, o in common: jaccard o/(a+b-o), cosine sqrt(o*o/(a*b)), dice 2o/(a+b), overlap o; "
    "hamming, a distance: a+b-2o."
)
"""What the similarities are."""


class SetPairs(QueryModel):
    """Pairs of sets by how similar they are."""

    tokens: Name = Field(description="Name of the sets under 'tokens:'.")
    similarity: Similarity = Field(
        default="jaccard",
        description=FORMULAS,
    )
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    min_score: Annotated[float, Field(gt=0), NUMBER] | None = Field(default=None, description="Only pairs at least this similar.")
    max_score: Annotated[float, Field(ge=0), NUMBER] | None = Field(default=None, description="hamming: only pairs at most this far apart.")
