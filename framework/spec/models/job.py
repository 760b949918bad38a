"""The spec as typed, frozen models: types, defaults and documentation of every field.

The models check single fields; ``spec.checks`` checks everything that needs several fields or the columns. The JSON schema for editors and
the reference pages are generated from these models, so every field has a description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, PlainValidator, PrivateAttr, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from skyband.framework.base.units import (
    WHOLE,
    Duration,
    JobName,
    Name,
    Number,
    Option,
    PositiveDuration,
    Size,
    Text,
    any_case,
    written,
)
from skyband.framework.queries.models import QueryModel
from skyband.framework.sources.registry import SOURCES
from skyband.framework.spec.models.base import Model
from skyband.framework.spec.models.examples import SpecTest
from skyband.framework.spec.models.quality import Quality
from skyband.framework.spec.models.schedule import Schedule
from skyband.framework.spec.models.sink import Sink
from skyband.framework.spec.models.vectors import Dimension
from skyband.framework.spec.models.words import WORDS
from skyband.operators.base import TOKENS, Kind

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

MAX_TOKENS: Final = 1_000_000

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


def token_kinds(names: Iterable[str]) -> dict[str, Kind]:
    """Return the kinds of sets of tokens, by the names that they have beside columns."""
    return {TOKENS + name: "tokens" for name in names}


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


# Tags of unions appear in pydantic's error locations; the angle brackets distinguish them from field names.
def _short_or_long(value: Any) -> str:
    return "<long>" if isinstance(value, (dict, Model)) else "<short>"


ColumnSpec = Annotated[Annotated[ColumnType, Tag("<short>")] | Annotated[SourceColumn, Tag("<long>")], Discriminator(_short_or_long)]


class EventTime(Model):
    """The time of a row, and how long to wait for rows that arrive out of order."""

    column: Name = Field(description="A timestamp column with the time of the event, in UTC.")
    watermark: Duration = Field(
        default=0, description="How long to wait for rows that arrive out of order; rows that arrive later are rejected as late.",
        json_schema_extra={"default": "0 seconds"},
    )  # fmt: skip
    tie_break: tuple[Name, ...] = Field(default=(), description="Columns that order rows of equal time, before the id.")


def _source_format(value: Any) -> str:
    formats = list(SOURCES.all())
    if isinstance(value, str) and value in formats:
        return value
    *most, last = (f"'{name}'" for name in formats)
    raise PydanticCustomError("literal_error", "not a source format", {"expected": f"{', '.join(most)} or {last}"})


def _source_formats(schema: dict[str, Any]) -> None:
    schema |= {"enum": list(SOURCES.all()), "type": "string"}


SourceFormatName = Annotated[str, PlainValidator(_source_format)]


class Source(Model):
    """Where rows come from, and which columns identify, order and group them."""

    format: SourceFormatName = Field(description="Format of the source.", json_schema_extra=_source_formats)
    path: Text | None = Field(
        default=None,
        description="A directory, a file, a pattern or a table, relative to the spec's directory. ${NAME} inserts an environment variable.",
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        repr=False,
        description="Options of the format. CSV files have a header unless {header: false}; a quote inside quotes is doubled "
        "unless escape is set.",
    )
    columns: dict[Name, ColumnSpec] = Field(alias="schema", min_length=1, description="Columns to read, with their types.")
    id: tuple[Name, ...] = Field(min_length=1, description="Columns that identify a row.")
    event_time: EventTime = Field(description="When a row happened.")
    partition_by: tuple[Name, ...] = Field(default=(), description="Key columns: every combination of their values is a separate stream.")
    unique: Literal["checked", "assumed"] = Field(
        default="checked", description="checked: reject rows whose id is already in the window; assumed: skip this check."
    )
    on_bad_file: Literal["stop", "reject"] = Field(
        default="stop", description="For a file that cannot be read: stop the run, or reject the file as one row of table rejected."
    )
    on_drift: Literal["stop", "warn"] = Field(
        default="stop", description="For a column that is missing or has another type than in the first run: stop the run, or warn."
    )


class DerivedColumn(Model):
    """A derived column with an explicit type."""

    sql: Text = Field(description="A deterministic Spark SQL expression.")
    type: ColumnType = Field(description="Type of the result.")


DeriveSpec = Annotated[Annotated[Text, Tag("<short>")] | Annotated[DerivedColumn, Tag("<long>")], Discriminator(_short_or_long)]


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


class WindowSpec(Model):
    """A sliding window: the most recent ``count`` rows, ``time``, or both (whichever ends first)."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["count"]}, {"required": ["time"]}]})

    count: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(default=None, description="The most recent N rows of a key.")
    time: PositiveDuration | None = Field(default=None, description="Rows no older than this.")


class Keep(Model):
    """State to keep beyond the needs of the queries."""

    k: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = Field(description="The largest k of snapshots that are requested later.")


class ExpressionScoring(Model):
    """A score by any expression over a.<column> and b.<column> (pairs) or <column> (single rows)."""

    expression: Text = Field(description="The score. a is the older row of a pair, b the newer one.")
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


TERM_FUNCTIONS: Final = ("abs_difference", "squared_difference", "sum", "average", "product", "min", "max")


class Term(Model):
    """A local score of one column, times a weight. Use exactly one of the functions, or an expression."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [f]} for f in (*TERM_FUNCTIONS, "expression")]})

    abs_difference: Name | None = Field(default=None, description="abs(a.x - b.x)")
    squared_difference: Name | None = Field(default=None, description="(a.x - b.x) squared")
    sum: Name | None = Field(default=None, description="a.x + b.x")
    average: Name | None = Field(default=None, description="(a.x + b.x) / 2")
    product: Name | None = Field(default=None, description="a.x * b.x")
    min: Name | None = Field(default=None, description="min(a.x, b.x)")
    max: Name | None = Field(default=None, description="max(a.x, b.x)")
    expression: Text | None = Field(default=None, description="Any expression over a.<column> and b.<column> of one column.")
    monotone: bool = Field(
        default=False,
        description="Declare that the expression is loosely monotone, where that is not proven: for every value of one row, it rises or "
        "falls all the way as the other row's value moves away from it, upwards or downwards.",
    )
    weight: Number = Field(default=1.0, description="Factor of the term. A negative one turns the order round.")


class GlobalScoring(Model):
    """A monotone combination of per-attribute scores of a pair."""

    combine: Literal["sum", "product", "min", "max"] = Field(description="How the terms combine into one score.")
    terms: tuple[Term, ...] = Field(min_length=1, description="The terms.")
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


class LinearScoring(Model):
    """A weighted sum of columns of a single row."""

    linear: dict[Name, Number] = Field(min_length=1, description="Mapping: column to weight.")
    direction: Literal["min", "max"] = Field(default="max", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


class FunctionScoring(Model):
    """A scoring function of an installed package, over columns."""

    function: Name = Field(description="Name under which the package registers the function.")
    columns: dict[Name, Name] = Field(
        default_factory=dict, description="Mapping: parameter of the function to column. Default: the column with the parameter's name."
    )
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


def scoring_kind(value: Any) -> str:
    """Return the tag of the scoring model that a value is meant to be."""
    if isinstance(value, GlobalScoring) or (isinstance(value, dict) and ("combine" in value or "terms" in value)):
        return "<global>"
    if isinstance(value, LinearScoring) or (isinstance(value, dict) and "linear" in value):
        return "<linear>"
    if isinstance(value, FunctionScoring) or (isinstance(value, dict) and "function" in value):
        return "<function>"
    return "<expression>"


Scoring = Annotated[
    Annotated[ExpressionScoring, Tag("<expression>")]
    | Annotated[GlobalScoring, Tag("<global>")]
    | Annotated[LinearScoring, Tag("<linear>")]
    | Annotated[FunctionScoring, Tag("<function>")],
    Discriminator(scoring_kind),
]


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


def _trigger(value: Any) -> Any:
    return "<once>" if isinstance(value, str) and value.strip().lower() == "once" else "<duration>"


Trigger = Annotated[Annotated[Literal["once"], Tag("<once>")] | Annotated[PositiveDuration, Tag("<duration>")], Discriminator(_trigger)]


class Run(Model):
    """How the job runs. All fields may change at any time; ``buckets``, which divide the state, only to a multiple."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["max_files", "max_bytes"]}})

    trigger: Trigger = Field(
        default="once",
        description="once: process the input that exists now and end; or the interval between looks for new input, e.g. 10 seconds.",
    )
    max_files: Annotated[int, Field(ge=1), WHOLE] | None = Field(default=None, description="Maximum number of files per batch.")
    max_bytes: Size | None = Field(default=None, description="Maximum size of a batch in bytes, e.g. 256m.")
    buckets: Annotated[int, Field(ge=1, le=4096), WHOLE] | None = Field(
        default=None, description="Number of parts of the state, by key. Default: 16, or 1 without key columns."
    )
    keep: PositiveDuration | None = Field(
        default=None, description="How long to keep rows of table runs and names of processed files that no longer exist. Default: 90 days."
    )


class Job(Model):
    """A Skyband job: one source, any number of scoring functions and queries, one sink."""

    job: JobName = Field(description="Name of the job.")
    source: Source = Field(description="Where rows come from.")
    transform: tuple[Step, ...] = Field(default=(), description="Deterministic Spark SQL, in order.")
    deletes: Text | None = Field(
        default=None, description="A predicate for rows that delete the row of their id. Some query types do not support deletions."
    )
    quality: Quality = Field(default=Quality(), description="Data quality rules.")
    window: WindowSpec = Field(description="The largest window a query may use.")
    scoring: dict[Name, Scoring] = Field(default_factory=dict, description="Scoring functions by name.")
    tokens: dict[Name, Tokens] = Field(default_factory=dict, description="Sets of tokens by name, which set queries compare.")
    vectors: dict[Name, Dimension] = Field(
        default_factory=dict,
        description="Vectors that expressions over pairs compare: list column (array<float>, array<double>) -> its dimension. Rows with "
        "another number of elements, or with one that is null or not finite, are rejected.",
    )
    # `models.walk` finds the model of a query by its `type`.
    queries: dict[Name, QueryModel] = Field(min_length=1, description="Queries by name. Every query has tables of its own.")
    sink: Sink = Field(description="Where the job writes its tables.")
    run: Run = Field(default=Run(), description="How the job runs.")
    schedule: Schedule | None = Field(default=None, description="When Airflow runs the job.")
    tests: tuple[SpecTest, ...] = Field(
        default=(), description="Tests of the spec: input rows and expected tables. skyband test runs them; skyband run ignores them."
    )

    _variables: tuple[tuple[tuple[str | int, ...], str], ...] = PrivateAttr(())
    _relative_source: str | None = PrivateAttr(None)

    @property
    def variables(self) -> tuple[tuple[tuple[str | int, ...], str], ...]:
        """Return (path, text in the spec) of all values from the environment, which are never stored or shown."""
        return self._variables

    def with_variables(self, written: Mapping[tuple[str | int, ...], str]) -> Job:
        """Return the job with a note that the values at these paths came from the environment."""
        made = self.model_copy()
        made._variables = tuple(written.items())
        return made

    @property
    def relative_source(self) -> str | None:
        """Return the source path as in the spec, if it is relative to the spec's directory, else None."""
        return self._relative_source

    def with_relative_source(self, path: str) -> Job:
        """Return the job with ``path`` as its source path relative to the spec's directory."""
        made = self.model_copy()
        made._relative_source = path
        return made
