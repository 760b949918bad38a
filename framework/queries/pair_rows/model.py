"""The two sides of a pair, as part of an entry."""

from __future__ import annotations

from pydantic import Field

from skyband.framework.base.items import SCORE_VALUE, ItemShape, Part, by_score
from skyband.framework.base.units import Name
from skyband.framework.queries.models import QueryPart


class Between(QueryPart):
    """Pairs only between two sides of the stream; other values pair with nothing."""

    column: Name = Field(description="The column that says which side a row is on.")
    a: str | int | float | bool = Field(description="Value of side a.")
    b: str | int | float | bool = Field(description="Value of side b.")


_BY_AGE = (Part("older", "the older object of the pair"), Part("newer", "the newer object of the pair"))
_BY_SIDE = (Part("a", "side a of the pair"), Part("b", "side b of the pair"))


def pair_of(between: Between | None) -> ItemShape:
    """Two rows, by age or by side, and their score."""
    parts = _BY_AGE if between is None else _BY_SIDE
    return ItemShape(parts, by_score(parts), (SCORE_VALUE,))
