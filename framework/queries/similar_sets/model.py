"""The entry of a spec: all pairs of sets that are similar enough."""

from __future__ import annotations

from typing import Literal

from skyband.framework.queries.set_pairs.model import SetPairs


class SimilarSets(SetPairs):
    """All pairs of sets that are at least so similar."""

    type: Literal["similar_sets"]
