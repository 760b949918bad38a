"""The entry of a spec: rows that no other row beats."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from skyband.framework.base.units import WHOLE, Name
from skyband.framework.queries.models import QueryModel


class Skyline(QueryModel):
    """Rows that no other row beats in every dimension."""

    type: Literal["skyline"]
    dimensions: dict[Name, Literal["min", "max", "equal"]] = Field(min_length=1, description="Column -> which end is better.")
    band: Annotated[int, Field(ge=1, le=4096), WHOLE] = Field(
        default=1, description="Fewer than this many rows beat a row (1: the skyline)."
    )
    distinct: bool = Field(default=False, description="A newer equal row counts as beating an older one.")

    @property
    def shown(self) -> tuple[str, ...]:
        """See ``QueryModel.shown``: the compared columns."""
        return tuple(self.dimensions)
