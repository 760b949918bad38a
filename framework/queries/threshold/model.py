"""The entry of a spec: all rows whose score passes a bound, or a list of such queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.units import Number
from skyband.framework.queries.single_rows.model import ScoredRows

BOUNDS = ("above", "at_least", "below", "at_most")


class Threshold(ScoredRows):
    """All rows whose score passes a bound, or two bounds on different sides."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["scoring"]}, {"required": ["queries_from"]}]})

    bounds: ClassVar[tuple[str, ...]] = BOUNDS
    ranked: ClassVar[bool] = False

    type: Literal["threshold"]
    at_least: Number | None = Field(default=None, description="score >= this")
    above: Number | None = Field(default=None, description="score > this")
    at_most: Number | None = Field(default=None, description="score <= this")
    below: Number | None = Field(default=None, description="score < this")

    @classmethod
    def bad_bounds(cls, bounds: Mapping[str, float | None]) -> str | None:
        """See ``ScoredRows``."""
        given = [b for b, v in bounds.items() if v is not None]
        if not given:
            return "has no bound: one of at_least, above, at_most, below"
        if two_on_one_side(given):
            return f"has two bounds on one side ({', '.join(given)})"
        return "has bounds that nothing can pass" if nothing_passes(*(bounds[b] for b in BOUNDS)) else None


def two_on_one_side(given: list[str]) -> bool:
    """Whether two of the bounds named bound the same side."""
    return {"at_least", "above"} <= set(given) or {"at_most", "below"} <= set(given)


def nothing_passes(above: float | None, at_least: float | None, below: float | None, at_most: float | None) -> bool:
    """Whether no score is above and at least, below and at most these bounds."""
    lows = [(b, strict) for b, strict in ((above, True), (at_least, False)) if b is not None]
    highs = [(b, strict) for b, strict in ((below, True), (at_most, False)) if b is not None]
    return any(low > high or (low == high and (s or t)) for low, s in lows for high, t in highs)
