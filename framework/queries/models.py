"""Pydantic models of the fields that the entries of all query types share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from skyband.framework.base.units import WHOLE, Name, PositiveDuration, Text, WindowLength

K = Annotated[int, Field(ge=1, le=1_000_000), WHOLE]
"""The number of items of a result."""


class QueryPart(BaseModel):
    """A mapping within a query: frozen, no unknown fields, values never shown in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Hop(QueryPart):
    """Windows of one size that begin every so often: at a boundary b, the rows of [b - size, b)."""

    size: PositiveDuration = Field(description="Length of a window.")
    every: PositiveDuration = Field(description="Results are as of the multiples of this time, each of which ends a window.")


class QueryWindow(QueryPart):
    """A window of a query, no larger than the job's: the most recent rows (``count``, ``time`` or both), ``tumbling``, ``hop`` or
    ``session``."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [f]} for f in ("count", "time", "tumbling", "hop", "session")]})

    count: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(default=None, description="The most recent n rows of a key.")
    time: PositiveDuration | None = Field(default=None, description="Rows no older than this.")
    tumbling: WindowLength | None = Field(
        default=None, description="Length of windows that follow each other, such as 1 hour or 1 month: all rows leave where one ends."
    )
    zone: Text | None = Field(
        default=None, description="Time zone whose clock divides tumbling windows, such as Europe/Berlin. Default: UTC."
    )
    offset: PositiveDuration | None = Field(
        default=None, description="Moves tumbling windows: with tumbling 1 day and offset 6 hours they begin at 06:00."
    )
    hop: Hop | None = Field(default=None, description="Windows that overlap, as of their ends: instead of time and the query's every.")
    session: PositiveDuration | None = Field(
        default=None, description="The rows of a key (of queries about groups: of a group), until none has come for this long."
    )

    @property
    def follows(self) -> bool:
        """Return True if windows follow each other: tumbling ones and sessions."""
        return self.tumbling is not None or self.session is not None


class QueryModel(BaseModel):
    """Fields of every query type. A type's model adds ``type: Literal["its name"]`` and its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    type: str
    source: Name | None = Field(
        default=None,
        alias="from",
        description="Only rows of this one of several sources take part; or, with the name of a query, the entries of its result.",
    )
    window: QueryWindow | None = Field(default=None, description="Default: the job's window.")
    where: Text | None = Field(default=None, description="Only these rows or pairs take part.")
    carry: tuple[Name, ...] = Field(default=(), description="Columns to carry into the result, beside the id.")
    every: PositiveDuration | None = Field(default=None, description="Changes at multiples of this time instead of after every event.")
    operator: Text | None = Field(default=None, description="Operator to use instead of the compiler's choice.")

    @property
    def shown(self) -> tuple[str, ...]:
        """Columns that the tables contain even without ``carry``."""
        return ()


def _one_or_several(value: Any) -> str:
    return "<several>" if isinstance(value, (list, tuple)) else "<one>"


# Tags of unions stand in pydantic's error locations; the angle brackets keep them apart from field names.
Columns = Annotated[
    Annotated[Name, Tag("<one>")] | Annotated[tuple[Name, ...], Field(min_length=1), Tag("<several>")], Discriminator(_one_or_several)
]
"""A column or several."""
