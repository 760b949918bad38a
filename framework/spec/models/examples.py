"""The spec's part ``tests``: rows in, tables out; run by ``skyband test``, never by a run."""

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
    """Rows of the source, and what tables of the job hold once they have been taken."""

    name: Text = Field(description="What is shown.")
    rows: tuple[RowOrMark, ...] = Field(
        min_length=1,
        description="Rows of the source: column -> value, null where one is left out. drop: the rows before have been taken, and the "
        "watermark has passed them, when those after come; restart: and the job was stopped and started again in between.",
    )
    finish: bool = Field(default=True, description="Whether the input is declared complete after the last row, as by run --finish.")
    expect: dict[Name, tuple[Row, ...]] = Field(
        default_factory=dict,
        description="Table of the job -> all of its rows, by the columns named here: <query>_changes, <query>, <query>_now, "
        "<query>_trajectory, rejected. What is left out is not compared. `skyband test --record` writes it.",
    )
