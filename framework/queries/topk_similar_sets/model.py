"""The entry of a spec: the k most similar pairs of sets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skyband.framework.queries.models import K
from skyband.framework.queries.set_pairs.model import SetPairs


class TopKSimilarSets(SetPairs):
    """The k most similar pairs of sets."""

    type: Literal["topk_similar_sets"]
    k: K = Field(description="How many pairs.")
