"""The section ``tests`` of a spec: input rows and expected tables, for ``skyband test``."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from skyband.framework.base.units import Name, Text
from skyband.framework.spec.models.base import Model

DROP: Final = "drop"
RESTART: Final = "restart"


def _row_or_mark(value: Any) -> str:
    return "<row>" if isinstance(value, dict) else "<mark>"


Row = dict[str, Any]
RowOrMark = Annotated[
    Annotated[Row, Tag("<row>")] | Annotated[Literal["drop", "restart"], Tag("<mark>")],
    Discriminator(_row_or_mark),
]


class SpecTest(Model):
    """A test of the spec: rows of the source, and the tables of the job after they were processed."""

    name: Text = Field(description="Name of the test.")
    rows: tuple[RowOrMark, ...] = Field(
        min_length=1,
        description="Rows of the source: column to value; a column that is left out is null. drop: process the rows before it, and pass "
        "the watermark over them, before the rows after it arrive; restart: like drop, and also restart the job.",
    )
    lookups: dict[Name, tuple[Row, ...]] = Field(
        default_factory=dict,
        description="Look-up to the rows of its table: column of its schema to value. A look-up that is left out has an empty table.",
    )
    clock: Text | None = Field(
        default=None, description="The clock of event_time.max_ahead, e.g. 2024-01-02 10:00. Default: no row is too far ahead."
    )
    finish: bool = Field(default=True, description="Declare the input complete after the last row, like run --finish.")
    expect: dict[Name, tuple[Row, ...]] = Field(
        default_factory=dict,
        description="Table of the job to all its rows: <query>_changes, <query>, <query>_now, <query>_trajectory, <query>_final, "
        "rejected. Only the columns that are given are compared. `skyband test --record` writes this field.",
    )
