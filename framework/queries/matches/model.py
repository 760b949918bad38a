"""The entry of a spec: for every arriving row the k best older ones, by their sets of tokens or by a score of both rows."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.units import Name, Number
from skyband.framework.plan.model import OperatorNode
from skyband.framework.queries.models import K, QueryModel
from skyband.framework.queries.pair_rows.model import Between
from skyband.framework.queries.set_pairs.model import FORMULAS
from skyband.operators.set_index.functions import Similarity


class Matches(QueryModel):
    """For every row, once, at its arrival: the k best rows of the window before it, by a score of both or how similar their sets are."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["scoring"]}, {"required": ["tokens"]}]})

    type: Literal["matches"]
    scoring: Name | None = Field(default=None, description="Name of a scoring function of two rows.")
    tokens: Name | None = Field(default=None, description="Instead of scoring: name of the sets under 'tokens:'.")
    similarity: Similarity = Field(default="jaccard", description=f"With tokens. {FORMULAS}")
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    k: K = Field(description="How many older rows at most.")
    min_score: Number | None = Field(default=None, description="Only pairs with at least this score, or at least this similar.")
    max_score: Number | None = Field(default=None, description="Only pairs with at most this score; of tokens, with hamming only.")
    every: ClassVar[None] = None  # type: ignore[misc]
    """No field of this type: what is reported once, at an arrival, has no boundaries."""


# The two forms of an entry and of its operator: by the similarity of sets of tokens, or by a score.


def of_sets(node: OperatorNode) -> bool:
    """Return True if the operator matches sets of tokens."""
    return hasattr(node.operator, "similarity")
