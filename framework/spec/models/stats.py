"""The statistics of a spec."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import ConfigDict, Discriminator, Field, Tag

from skyband.framework.base.units import WHOLE, Name, PositiveDuration
from skyband.framework.spec.models.base import Model, short_or_long
from skyband.framework.spec.models.window import WindowSpec

Function = Literal["mean", "stddev", "min", "max", "sum", "count"]
FUNCTIONS: Final[tuple[Function, ...]] = get_args(Function)
"""Functions of statistics, in the order of their columns."""

StatisticsWindow = Annotated[
    Annotated[PositiveDuration, Tag("<short>")] | Annotated[WindowSpec, Tag("<long>")],
    Discriminator(short_or_long),
]


class Statistics(Model):
    """Statistics that each row gets of the rows before it. Use at least one of the functions, each of a column."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [f]} for f in FUNCTIONS]})

    mean: Name | None = Field(default=None, description="The mean of a column.")
    stddev: Name | None = Field(default=None, description="The standard deviation of a column, of a sample: null for one value.")
    min: Name | None = Field(default=None, description="The least value of a column.")
    max: Name | None = Field(default=None, description="The greatest value of a column.")
    sum: Name | None = Field(default=None, description="The sum of a column.")
    count: Name | None = Field(default=None, description="The number of rows in which a column, of any type, is not null.")
    by: tuple[Name, ...] = Field(
        default=(), description="Only rows with the same values in these columns count. Default: all rows of the key."
    )
    window: StatisticsWindow = Field(
        default=WindowSpec(),
        description="Only these rows count: a time such as 30 days, or count, time or both. Default: the job's window.",
    )
    at_least: Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE] = Field(
        default=1, description="Values that are not null without which a statistic is null. Counts are never null."
    )

    @property
    def functions(self) -> tuple[tuple[Function, str], ...]:
        """Return the functions with their columns."""
        return tuple((f, column) for f in FUNCTIONS if (column := getattr(self, f)) is not None)

    @property
    def bounds(self) -> WindowSpec:
        """Return the window; what it does not bound is bounded by the job's."""
        return WindowSpec.model_construct(time=self.window) if isinstance(self.window, int) else self.window


def column_of(name: str, function: str) -> str:
    """Return the column of a statistic in rows and tables."""
    return f"{name}_{function}"


def written_as(name: str, function: str) -> str:
    """Return a statistic as expressions write it."""
    return f"{name}.{function}"
