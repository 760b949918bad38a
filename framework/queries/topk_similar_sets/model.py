"""The entry of a spec: the k most similar pairs of sets."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from skyband.framework.queries.models import K, QueryModel
from skyband.framework.queries.pair_rows.model import Between
from skyband.framework.spec.units import NUMBER, Name

Similarity = Literal["jaccard", "cosine", "dice", "overlap", "hamming"]

DISTANCES: Final = frozenset({"hamming"})
"""Functions of which the smallest values rank first."""


SHARES: Final = frozenset({"jaccard", "cosine", "dice"})
"""Functions of which no value is larger than 1."""


class TopKSimilarSets(QueryModel):
    """The k most similar pairs of sets."""

    type: Literal["topk_similar_sets"]
    tokens: Name = Field(description="Name of the sets under 'tokens:'.")
    similarity: Similarity = Field(
        default="jaccard",
        description="Of sets of a and b tokens, o in common: jaccard o/(a+b-o), cosine o/sqrt(ab), dice 2o/(a+b), overlap o; "
        "hamming, a distance: a+b-2o.",
    )
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    k: K = Field(description="How many pairs.")
    min_score: Annotated[float, Field(gt=0), NUMBER] | None = Field(default=None, description="Only pairs at least this similar.")
    max_score: Annotated[float, Field(ge=0), NUMBER] | None = Field(default=None, description="hamming: only pairs at most this far apart.")
