"""The ``source`` of a spec, or its ``sources``: where rows come from, and which columns identify, order and group them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, PlainValidator, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from skyband.framework.base.units import AHEAD, WHOLE, Duration, Name, Option, PositiveDuration, Size, Text, any_case, written
from skyband.framework.sources.position import PositionColumn
from skyband.framework.sources.registry import SOURCES
from skyband.framework.sources.several.format import SEVERAL
from skyband.framework.spec.models.base import Model, short_or_long
from skyband.framework.spec.models.words import WORDS
from skyband.operators.base import TOKENS, Kind

# Types of columns in a spec.

TYPES: Final[dict[str, Kind]] = {
    "string": "text", "int": "int", "bigint": "int", "double": "float", "float": "float", "boolean": "bool", "timestamp": "time",
    "date": "time", "array<string>": "list", "array<int>": "list", "array<bigint>": "list",
    "array<float>": "list", "array<double>": "list",
}  # fmt: skip
"""Column types of a spec and their kinds in operators. ``decimal(p,s)`` is a float in operators."""

TYPE_ALIASES: Final[dict[str, str]] = {
    "integer": "int",
    "long": "bigint",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "real": "float",
}

_DECIMAL: Final = re.compile(r"decimal\s*\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


def _column_type(value: str) -> str:
    text = re.sub(r"\s*([<>])\s*", r"\1", value.strip().lower())
    text = TYPE_ALIASES.get(text, text)
    m = _DECIMAL.fullmatch(text)
    if m and int(m.group(2)) <= int(m.group(1)) <= 38 and int(m.group(1)) > 0:
        return f"decimal({int(m.group(1))},{int(m.group(2))})"
    if text not in TYPES:
        raise PydanticCustomError("column_type", "not a column type")
    return text


def kind_of(type_: str) -> Kind:
    """Return the kind that operators use for a column type of the spec (``decimal`` is float)."""
    return TYPES.get(type_, "float")


_TYPE_SCHEMA: Final = {
    "type": "string",
    "anyOf": [  # names to complete, and their other spellings
        {"enum": [*TYPES, "decimal(10,2)"]},
        written(
            f"types: {', '.join(TYPES)}, decimal(p,s)",
            *(any_case(name).replace("<", r"\s*<\s*").replace(">", r"\s*>") for name in (*TYPES, *TYPE_ALIASES)),
            rf"{any_case('decimal')}\s*\(\s*[0-9]{{1,2}}\s*,\s*[0-9]{{1,2}}\s*\)",
        ),
    ],
}
ColumnType = Annotated[str, AfterValidator(_column_type), WithJsonSchema(_TYPE_SCHEMA)]


class SourceColumn(Model):
    """A column of the source under another name."""

    type: ColumnType = Field(description="Type of the column.")
    source_name: str | None = Field(
        default=None, alias="from", description="The column's name in the source, if it differs; a.b is member b of object a."
    )


ColumnSpec = Annotated[Annotated[ColumnType, Tag("<short>")] | Annotated[SourceColumn, Tag("<long>")], Discriminator(short_or_long)]


def _none_or_duration(value: Any) -> str:
    return "<none>" if isinstance(value, str) and value.strip().lower() == "none" else "<duration>"


MaxAhead = Annotated[Annotated[Literal["none"], Tag("<none>")] | Annotated[Duration, Tag("<duration>")], Discriminator(_none_or_duration)]


class EventTime(Model):
    """The time of a row, and how long to wait for rows that arrive out of order."""

    column: Name = Field(description="A timestamp column with the time of the event, in UTC.")
    watermark: Duration = Field(
        default=0, description="How long to wait for rows that arrive out of order; rows that arrive later are rejected as late.",
        json_schema_extra={"default": "0 seconds"},
    )  # fmt: skip
    tie_break: tuple[Name, ...] = Field(default=(), description="Columns that order rows of equal time, before the id.")
    max_ahead: MaxAhead = Field(
        default=AHEAD, description="Reject rows dated further ahead of the clock at which their batch is planned, as too_far_ahead; none: "
        "accept any time.", json_schema_extra={"default": "1 day"},
    )  # fmt: skip
    max_jump: PositiveDuration | None = Field(
        default=None, description="Stop the run, and write nothing of the batch, if its newest rows are further than this after its others."
    )


def _value(value: Any) -> Any:
    """Numbers become text, as the values of a column do; a truth value is most likely a text that YAML reads as one."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_VALUE = r"^[^'\\]+$"
OperationValue = Annotated[
    str,
    Field(pattern=_VALUE, max_length=64),
    BeforeValidator(_value),
    WithJsonSchema({"type": ["string", "integer"], "pattern": _VALUE, "maxLength": 64}),
]
Values = tuple[OperationValue, ...]


class Operations(Model):
    """A change feed: a column says whether a row brings an object, changes it or deletes it."""

    column: Name = Field(description="The column with the kind of change: a text or a whole number.")
    insert: Values = Field(default=(), description="Values of rows that bring an object. See on_duplicate for an id in the window.")
    update: Values = Field(default=(), description="Values of rows that replace the object of their id, or bring it if there is none.")
    delete: Values = Field(default=(), description="Values of rows that delete the object of their id.")
    ignore: Values = Field(default=(), description="Values of rows that are counted as filtered. Any other value rejects its row.")


def _source_format(value: Any) -> str:
    formats = list(SOURCES.all())
    if isinstance(value, str) and value in (*formats, SEVERAL):  # a check refuses the latter where a spec writes it
        return value
    *most, last = (f"'{name}'" for name in formats)
    raise PydanticCustomError("literal_error", "not a source format", {"expected": f"{', '.join(most)} or {last}"})


def _source_formats(schema: dict[str, Any]) -> None:
    schema |= {"enum": list(SOURCES.all()), "type": "string"}


SourceFormatName = Annotated[str, PlainValidator(_source_format)]


def _of_one_or_several(schema: dict[str, Any]) -> None:
    # What is required of one source, `Job` requires where there are not several.
    schema["required"] = [name for name in schema["required"] if name not in ("format", "schema")]


_PATH: Final = "A directory, a file, a pattern or a table, relative to the spec's directory. ${NAME} inserts an environment variable."
_TABLE: Final = (
    "Instead of path: a Delta table by its name in a catalog: CATALOG.SCHEMA.TABLE of Unity Catalog, or SCHEMA.TABLE of the Hive metastore."
)
_OPTIONS: Final = (
    "Options of the format. CSV files have a header unless {header: false}; a quote inside quotes is doubled unless escape is set."
)


class OneOfSources(Model):
    """One of several sources of a stream. Its rows have the name of the source in the column ``source``."""

    format: SourceFormatName = Field(description="Format of the source.", json_schema_extra=_source_formats)
    path: Text | None = Field(default=None, description=_PATH)
    table: Text | None = Field(default=None, description=_TABLE)
    options: dict[str, Option] = Field(default_factory=dict, repr=False, description=_OPTIONS)
    columns: dict[Name, ColumnSpec] = Field(alias="schema", min_length=1, description="Columns to read, with their types.")
    watermark: Duration | None = Field(
        default=None, description="How long to wait for rows of this source that arrive out of order. Default: event_time.watermark."
    )
    idle_after: PositiveDuration | None = Field(
        default=None,
        description="How far, in event time, the watermark may pass this source when it has no new rows. Default: it waits for them.",
    )
    on_bad_file: Literal["stop", "reject"] = Field(
        default="stop", description="For a file that cannot be read: stop the run, or reject the file as one row of table rejected."
    )
    max_line: Size = Field(
        default="16m",
        description="Maximum size of a line of a CSV or JSON file. A file with a longer one is bad (on_bad_file). So is a packed file "
        "that unpacks to more than 1,000 times as much, and a JSON file with multiLine of more than 16 times as much.",
    )


POSITION: Final = "position"


def _columns_or_position(value: Any) -> str:
    return "<position>" if isinstance(value, str) and value.strip() == POSITION else "<columns>"


_IdColumns = Annotated[tuple[Name, ...], Field(min_length=1), Tag("<columns>")]
Id = Annotated[_IdColumns | Annotated[Literal["position"], Tag("<position>")], Discriminator(_columns_or_position)]


class Source(Model):
    """Where rows come from, and which columns identify, order and group them."""

    model_config = ConfigDict(json_schema_extra=_of_one_or_several)

    format: SourceFormatName = Field(description="Format of the source.", json_schema_extra=_source_formats)
    path: Text | None = Field(default=None, description=_PATH)
    table: Text | None = Field(default=None, description=_TABLE)
    options: dict[str, Option] = Field(default_factory=dict, repr=False, description=_OPTIONS)
    columns: dict[Name, ColumnSpec] = Field(alias="schema", min_length=1, description="Columns to read, with their types.")
    given_id: Id = Field(
        alias="id",
        description="Columns that identify a row, such as [a, b]. position, for data without an id: the file of the row and its number in "
        "it, or the partition and offset of a Kafka record.",
    )
    event_time: EventTime = Field(description="When a row happened.")
    partition_by: tuple[Name, ...] = Field(default=(), description="Key columns: every combination of their values is a separate stream.")
    unique: Literal["checked", "assumed"] = Field(
        default="checked", description="checked: look for each row's id in the window (see on_duplicate); assumed: skip this check."
    )
    on_duplicate: Literal["reject", "replace", "keep_first"] = Field(
        default="reject",
        description="For a row whose id is in the window: reject it, replace the older row, or keep the older row and count the new one "
        "as filtered.",
    )
    op: Operations | None = Field(default=None, description="For a change feed: the column with the kind of change, and its values.")
    on_bad_file: Literal["stop", "reject"] = Field(
        default="stop", description="For a file that cannot be read: stop the run, or reject the file as one row of table rejected."
    )
    max_line: Size = Field(
        default="16m",
        description="Maximum size of a line of a CSV or JSON file. A file with a longer one is bad (on_bad_file). So is a packed file "
        "that unpacks to more than 1,000 times as much, and a JSON file with multiLine of more than 16 times as much.",
    )
    on_drift: Literal["stop", "warn"] = Field(
        default="stop", description="For a column that is missing or has another type than in the first run: stop the run, or warn."
    )

    @property
    def by_position(self) -> bool:
        """Return True if a row is identified by its position."""
        return self.given_id == POSITION

    @property
    def position(self) -> tuple[PositionColumn, ...]:
        """Return the columns that ``id: position`` adds, without those whose name a column of the schema has."""
        kind = SOURCES.all().get(self.format) if self.by_position else None
        declared = {name.lower() for name in self.columns}
        return tuple(c for c in (kind.position if kind is not None else ()) if c.name not in declared)

    @property
    def id(self) -> tuple[str, ...]:
        """Return the columns that identify a row."""
        return tuple(c.name for c in self.position) if self.given_id == POSITION else self.given_id

    @property
    def all_columns(self) -> Mapping[str, ColumnType | SourceColumn]:
        """Return the columns of the schema, then those of the ``position``."""
        return {**self.columns, **{c.name: SourceColumn.model_validate({"type": c.type, "from": c.source_name}) for c in self.position}}


# What the section ``vectors`` of a spec may say.

VECTOR_TYPES: Final = ("array<float>", "array<double>")
"""Column types that vectors are made of."""

Dimension = Annotated[int, Field(ge=1, le=4096), WHOLE]


# The sets of tokens of a spec.

MAX_TOKENS: Final = 1_000_000


def token_kinds(names: Iterable[str]) -> dict[str, Kind]:
    """Return the kinds of sets of tokens, by the names that they have beside columns."""
    return {TOKENS + name: "tokens" for name in names}


class Tokens(Model):
    """The set of tokens of a row: elements of a list, parts of a delimited text, or words of a text (the default)."""

    column: Name = Field(description="A list column (array<string>, array<int>, array<bigint>) or a text column.")
    separator: Text | None = Field(default=None, description="The text between two tokens.")
    words: Text | None = Field(default=None, description="A regular expression (RE2) for one token.", json_schema_extra={"default": WORDS})
    lower: bool | None = Field(
        default=None, description="Convert text to lower case first, character by character. Default: true for words."
    )
    normalize: Literal["nfc", "none"] = Field(
        default="nfc",
        description="nfc: convert text to Unicode's composed form first, so that equal letters compare equal; none: leave it unchanged.",
    )
    stop_words: tuple[Text, ...] = Field(default=(), description="Tokens to ignore. They are removed before n-grams are built.")
    ngrams: Annotated[int, Field(ge=1, le=10), WHOLE] = Field(
        default=1, description="Join every n adjacent tokens into one token. A text with fewer than n tokens has none."
    )
    min_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] = Field(
        default=1, description="A row with fewer distinct tokens is short."
    )
    short: Literal["skip", "reject"] = Field(
        default="skip", description="For a short row: skip it in set queries, or reject it to table rejected."
    )
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] = Field(
        default=10_000, description="Reject rows with more distinct tokens."
    )


# The steps of ``transform``: derived columns and filters in Spark SQL.


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


# The section ``lookups`` of a spec: static tables whose columns every row of the source takes.


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
