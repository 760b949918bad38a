"""The two sides of a pair, as part of an entry."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, model_validator

from skyband.framework.base.items import SCORE_VALUE, ItemShape, Part, by_score
from skyband.framework.base.units import Name
from skyband.framework.queries.models import QueryPart


def _or_sources(schema: dict[str, Any]) -> None:
    sides = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    schema["properties"]["source"] = sides | {"description": "Two of several sources, side a first: short for column, a and b."}
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["source"]}]


class Between(QueryPart):
    """Pairs only between two sides of the stream; other values pair with nothing.

    Of several sources, ``{source: [asks, bids]}`` is short for the column ``source`` with these values.
    """

    model_config = ConfigDict(json_schema_extra=_or_sources)

    column: Name = Field(description="The column that says which side a row is on; of several sources, the column source does.")
    a: str | int | float | bool = Field(description="Value of side a.")
    b: str | int | float | bool = Field(description="Value of side b.")

    @model_validator(mode="before")
    @classmethod
    def _of_sources(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(sides := given.get("source"), list) and len(given) == 1 and len(sides) == 2:
            return {"column": "source", "a": sides[0], "b": sides[1]}
        return given


_BY_AGE = (Part("older", "the older object of the pair"), Part("newer", "the newer object of the pair"))
_BY_SIDE = (Part("a", "side a of the pair"), Part("b", "side b of the pair"))


def pair_of(between: Between | None) -> ItemShape:
    """Two rows, by age or by side, and their score."""
    parts = _BY_AGE if between is None else _BY_SIDE
    return ItemShape(parts, by_score(parts), (SCORE_VALUE,))
