"""The entry of a spec: the k best rows, or a list of such queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.units import Number
from skyband.framework.queries.models import K
from skyband.framework.queries.single_rows.model import ScoredRows


class TopK(ScoredRows):
    """The k best rows."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["scoring", "k"]}, {"required": ["queries_from"]}]})

    bounds: ClassVar[tuple[str, ...]] = ("min_score", "max_score")
    ranked: ClassVar[bool] = True

    type: Literal["topk"]
    min_score: Number | None = Field(default=None, description="Only with at least this score.")
    max_score: Number | None = Field(default=None, description="Only with at most this score.")
    k: K | None = Field(default=None, description="How many; with queries_from, for rows that do not say.")

    @classmethod
    def bad_bounds(cls, bounds: Mapping[str, float | None]) -> str | None:
        """See ``ScoredRows``."""
        least, most = bounds["min_score"], bounds["max_score"]
        if least is not None and most is not None and least > most:
            return "has a min_score larger than its max_score: nothing can pass"
        return None
