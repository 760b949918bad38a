"""The entry of a spec: rows that no other row beats."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.units import WHOLE, Name, Number
from skyband.framework.queries.loyalty_rows.model import Columns
from skyband.framework.queries.models import K, QueryModel


class Skyline(QueryModel):
    """Rows that no other row beats in every dimension."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {"top": ["by"], "by": ["top"], "size": ["weights"], "weights": ["size"]}}
    )

    type: Literal["skyline"]
    dimensions: dict[Name, Literal["min", "max", "equal"]] = Field(min_length=1, description="Column -> which end is better.")
    prefer: tuple[Columns, ...] = Field(
        default=(),
        description="Dimensions in the order of their priority, alone or in lists of equal priority; the others come last.",
    )
    band: Annotated[int, Field(ge=1, le=4096), WHOLE] = Field(
        default=1, description="Fewer than this many rows beat a row (1: the skyline)."
    )
    distinct: bool = Field(default=False, description="A newer equal row counts as beating an older one.")
    top: K | None = Field(default=None, description="Only so many of these rows, the first by the score 'by'.")
    by: Name | None = Field(default=None, description="Name of the scoring function of 'top'.")

    size: K | None = Field(default=None, description="Only so many of these rows, those preferred by weights closest to 'weights'.")
    weights: dict[Name, Annotated[Number, Field(ge=0)]] | None = Field(
        default=None, min_length=1, description="Dimension -> its weight, of which only the share in their sum matters; with 'size'."
    )

    @property
    def shown(self) -> tuple[str, ...]:
        """See ``QueryModel.shown``: the compared columns."""
        return tuple(self.dimensions)

    @property
    def scoring(self) -> str | None:
        """The scoring function that the entry uses."""
        return self.by

    @property
    def k(self) -> int | None:
        """How many rows the result has at most."""
        return self.top

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights of the dimensions in their order, divided by their sum."""
        given = [float((self.weights or {}).get(c, 0.0)) for c in self.dimensions]
        largest = max(given)
        scaled = [w / largest for w in given]
        return tuple(w / sum(scaled) for w in scaled)

    @property
    def preferred(self) -> tuple[tuple[str, ...], ...]:
        """The levels that ``prefer`` lists."""
        return tuple((level,) if isinstance(level, str) else tuple(level) for level in self.prefer)

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The dimensions with an order, by levels of priority."""
        named = {c for level in self.preferred for c in level}
        rest = tuple(c for c, d in self.dimensions.items() if d != "equal" and c not in named)
        return (*self.preferred, rest) if rest else self.preferred
