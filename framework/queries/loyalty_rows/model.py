"""The fields that entries about the loyalty of objects have in common."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from skyband.framework.base.items import ItemShape, Part, RankTerm, TimeVarying, Value
from skyband.framework.base.units import Name, PositiveDuration, Text
from skyband.framework.queries.models import QueryModel

LOYALTY: Final = "loyalty_seconds"
SLOPE: Final = "slope"

_VALUES: Final = (
    Value(LOYALTY, "double", "for how many seconds of the window's time before {when} the object satisfied the criterion"),
    Value(SLOPE, "int", "how that moves from {when} on, in seconds a second: 1, 0 or -1"),
)


def _one_or_several(value: Any) -> str:
    return "<several>" if isinstance(value, (list, tuple)) else "<one>"


# Tags of unions stand in pydantic's error locations; the angle brackets keep them apart from field names.
Columns = Annotated[
    Annotated[Name, Tag("<one>")] | Annotated[tuple[Name, ...], Field(min_length=1), Tag("<several>")], Discriminator(_one_or_several)
]
"""A column or several."""


class LoyaltyRows(QueryModel):
    """Objects that many rows report on, by how long they satisfied a criterion within the window."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["object"]}, {"required": ["of"]}]})

    object: Columns | None = Field(
        default=None,
        description="Column(s) that name the object a row reports on. With `of`, the default is what the query's result consists of.",
        json_schema_extra={"type": ["string", "array"]},
    )
    of: Name | None = Field(
        default=None, description="A query: the object satisfies the criterion while an item of its is in the result of that query."
    )
    criteria: Text | None = Field(
        default=None, description="A predicate over a row, such as temp > 30: whether the object satisfies the criterion from now on."
    )
    updates: Name | None = Field(default=None, description="A column that says so itself: a boolean, or 0 and 1.")
    stale_after: PositiveDuration | None = Field(
        default=None, description="How long a report counts if no other comes. Default: until the next."
    )
    held: Name | None = Field(
        default=None, description="A text column with earlier switches of the object, which an edge filter held back: instants, or null."
    )
    trace: Literal["members", "all"] = Field(
        default="members", description="Whose trajectories are written: of the result's members, or of all objects."
    )

    @property
    def objects(self) -> tuple[str, ...]:
        """Return the columns that name the object."""
        return (self.object,) if isinstance(self.object, str) else self.object or ()


def loyal_object(columns: tuple[str, ...], trace_all: bool) -> ItemShape:
    """Return the item that ``columns`` name: the more loyal first, of equal ones the rising, then by name."""
    rank = (RankTerm((LOYALTY,), "desc"), RankTerm((SLOPE,), "desc"), *(RankTerm((c,), "asc") for c in columns))
    return ItemShape((Part("", "the object", columns),), rank, _VALUES, time_varying=TimeVarying(LOYALTY, SLOPE, trace_all))
