"""The section ``lookups`` of a spec: static tables whose columns every row of the source takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from skyband.framework.base.units import Name, Option, Text
from skyband.framework.spec.models.base import Model, short_or_long
from skyband.framework.spec.models.source import ColumnSpec


class Validity(Model):
    """The columns that say when a row of the table is valid: its interval is half open."""

    start: Name = Field(alias="from", description="A timestamp or date column: valid from then on. Null: always before `to`.")
    end: Name = Field(alias="to", description="A timestamp or date column: no longer valid then. Null: for ever.")


AsOf = Annotated[Annotated[Literal["none"], Tag("<short>")] | Annotated[Validity, Tag("<long>")], Discriminator(short_or_long)]


def _list_or_mapping(value: Any) -> str:
    return "<mapping>" if isinstance(value, dict) else "<list>"


Take = Annotated[
    Annotated[tuple[Name, ...], Field(min_length=1), Tag("<list>")] | Annotated[dict[Name, Name], Field(min_length=1), Tag("<mapping>")],
    Discriminator(_list_or_mapping),
]


Missing = Annotated[
    Literal["null", "reject"],
    BeforeValidator(lambda value: "null" if value is None else value),  # YAML reads null as no value
    WithJsonSchema({"enum": [None, "reject"]}),
]


def _former_name(schema: dict[str, Any]) -> None:
    """Let editors accept ``on``, the former name of ``match``."""
    fields = schema["properties"]
    fields["on"] = {**fields["match"], "title": "On", "deprecated": True, "deprecationMessage": "its name is now match"}
    schema["required"].remove("match")
    schema["anyOf"] = [{"required": ["match"]}, {"required": ["on"]}]


class Lookup(Model):
    """A static table, read when a run starts. Each row of the source takes columns of the one row that has its key."""

    model_config = ConfigDict(json_schema_extra=_former_name)

    format: Literal["delta", "parquet", "csv"] = Field(description="Format of the table.")
    path: Text = Field(
        description="A directory, a file, a pattern or a Delta table, relative to the spec's directory. ${NAME} inserts an environment "
        "variable."
    )
    options: dict[str, Option] = Field(
        default_factory=dict, repr=False, description="Options of the format, as for a source. A Delta table takes none."
    )
    columns: dict[Name, ColumnSpec] = Field(alias="schema", min_length=1, description="Columns of the table to read, with their types.")
    match: dict[Name, Name] = Field(
        min_length=1,
        description="Column of the source: column of the table that has to be equal. All of them together are the table's key. Specs may "
        "still say `on`, which YAML 1.1 reads as true.",
    )
    take: Take = Field(description="Columns of the table to add to the row: a list, or new name: column.")
    as_of: AsOf = Field(
        default="none",
        description="none: a key has one row. {from: column, to: column}: a key has a row for each interval of validity, and a row of the "
        "source takes that of its event time.",
    )
    missing: Missing = Field(
        default="null",
        description="For a row of the source without a row in the table: null, take nulls; or reject it with reason no_match:<name>.",
        json_schema_extra={"default": "null"},
    )

    @property
    def taken(self) -> dict[str, str]:
        """Return new name -> column of the table."""
        return dict(self.take) if isinstance(self.take, dict) else {name: name for name in self.take}
