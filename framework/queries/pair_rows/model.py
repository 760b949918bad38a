"""The two sides of a pair, as part of an entry."""

from __future__ import annotations

from pydantic import Field

from skyband.framework.base.units import Name
from skyband.framework.queries.models import QueryPart


class Between(QueryPart):
    """Pairs only between two sides of the stream; other values pair with nothing."""

    column: Name = Field(description="The column that says which side a row is on.")
    a: str | int | float | bool = Field(description="Value of side a.")
    b: str | int | float | bool = Field(description="Value of side b.")
