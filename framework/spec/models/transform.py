"""The steps of ``transform``: derived columns and filters in Spark SQL."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from skyband.framework.base.units import Name, Text
from skyband.framework.spec.models.base import Model, short_or_long
from skyband.framework.spec.models.column_types import ColumnType


class DerivedColumn(Model):
    """A derived column with an explicit type."""

    sql: Text = Field(description="A deterministic Spark SQL expression.")
    type: ColumnType = Field(description="Type of the result.")


DeriveSpec = Annotated[Annotated[Text, Tag("<short>")] | Annotated[DerivedColumn, Tag("<long>")], Discriminator(short_or_long)]


class DeriveStep(Model):
    """New columns from Spark SQL, in order; later ones may use earlier ones."""

    derive: dict[Name, DeriveSpec] = Field(min_length=1, description="New columns: name -> Spark SQL expression.")


class WhereStep(Model):
    """A filter: rows that fail it are counted as filtered and not processed."""

    where: Text = Field(description="A Spark SQL condition for the rows to keep.")


def step_kind(value: Any) -> str:
    """Return the tag of the transform step that a value is meant to be."""
    if isinstance(value, DeriveStep) or (isinstance(value, dict) and "derive" in value):
        return "<derive>"
    return "<where>"


Step = Annotated[Annotated[DeriveStep, Tag("<derive>")] | Annotated[WhereStep, Tag("<where>")], Discriminator(step_kind)]
