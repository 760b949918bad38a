"""The spec as typed, frozen models: shapes, defaults and documentation of every field.

Only what can be said field by field is checked here; what needs two fields or a look at the columns is in ``check``. The JSON schema that
editors use is generated from these models, so every field carries a description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, PlainValidator, PrivateAttr, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from skyband.framework.base.units import (
    NUMBER,
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
from skyband.framework.spec.models.words import WORDS
from skyband.operators.base import Kind

TYPES: Final[dict[str, Kind]] = {
    "string": "text", "int": "int", "bigint": "int", "double": "float", "float": "float", "boolean": "bool", "timestamp": "time",
    "date": "time", "array<string>": "list", "array<int>": "list", "array<bigint>": "list",
}  # fmt: skip
"""Column types of the spec and the kind operators see. ``decimal(p,s)`` is a float to operators."""

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
    """The kind operators see for a column type of the spec (``decimal`` is float)."""
    return TYPES.get(type_, "float")


_TYPE_SCHEMA: Final = {
    "type": "string",
    "anyOf": [  # names to choose from, and other spellings of them
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
        default=None, alias="from", description="The column's name in the source, if it is another one; a.b: member b of object a."
    )


# Tags of unions stand in pydantic's error locations; the angle brackets keep them apart from field names.
def _short_or_long(value: Any) -> str:
    return "<long>" if isinstance(value, (dict, Model)) else "<short>"


ColumnSpec = Annotated[Annotated[ColumnType, Tag("<short>")] | Annotated[SourceColumn, Tag("<long>")], Discriminator(_short_or_long)]


class EventTime(Model):
    """When a row happened, and how long to wait for rows that come out of order."""

    column: Name = Field(description="A timestamp column: the time of the event, UTC.")
    watermark: Duration = Field(
        default=0, description="How much disorder to wait for; rows later than that are rejected as late.",
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
    """Where rows come from and what identifies, orders and groups them."""

    format: SourceFormatName = Field(description="Format of the source.", json_schema_extra=_source_formats)
    path: Text | None = Field(
        default=None,
        description="Directory of files, a file, a pattern or a table, from the directory of the spec. ${NAME}: of the environment.",
    )
    options: dict[str, Option] = Field(
        default_factory=dict,
        repr=False,
        description="Options that the format takes. A CSV file has a header unless {header: false}; a quote within quotes is doubled "
        "unless escape is given.",
    )
    columns: dict[Name, ColumnSpec] = Field(alias="schema", min_length=1, description="Columns to read, with their types.")
    id: tuple[Name, ...] = Field(min_length=1, description="Columns that identify a row.")
    event_time: EventTime = Field(description="When a row happened.")
    partition_by: tuple[Name, ...] = Field(default=(), description="Each value of these columns is a stream of its own.")
    unique: Literal["checked", "assumed"] = Field(
        default="checked", description="assumed: no check for rows with an id that is in the window."
    )
    on_bad_file: Literal["stop", "reject"] = Field(
        default="stop", description="What a file that cannot be read does: stop the run, or go to table rejected as one row."
    )
    on_drift: Literal["stop", "warn"] = Field(
        default="stop", description="What a column does that is missing or of another type than in the first run: stop the run, or warn."
    )


class DerivedColumn(Model):
    """A derived column with its type said."""

    sql: Text = Field(description="A deterministic Spark SQL expression.")
    type: ColumnType = Field(description="Type of the result.")


DeriveSpec = Annotated[Annotated[Text, Tag("<short>")] | Annotated[DerivedColumn, Tag("<long>")], Discriminator(_short_or_long)]


class DeriveStep(Model):
    """New columns from Spark SQL, in order; later ones may use earlier ones."""

    derive: dict[Name, DeriveSpec] = Field(min_length=1, description="New columns: name -> Spark SQL expression.")


class WhereStep(Model):
    """Rows to keep; the others are counted as filtered."""

    where: Text = Field(description="A Spark SQL condition.")


def step_kind(value: Any) -> str:
    """Which of the transform steps a value is meant to be."""
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
    """What to keep beyond the queries' own needs."""

    k: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = Field(description="K for snapshots asked later.")


class ExpressionScoring(Model):
    """A score by any expression over a.<column> and b.<column> (pairs) or <column> (single rows)."""

    expression: Text = Field(description="The score. a is the older row of a pair, b the newer.")
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="Keep more than the queries need.")


TERM_FUNCTIONS: Final = ("abs_difference", "squared_difference", "sum", "product")


class Term(Model):
    """A local score of one attribute, times a weight. Exactly one of the functions."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [f]} for f in TERM_FUNCTIONS]})

    abs_difference: Name | None = Field(default=None, description="abs(a.x - b.x)")
    squared_difference: Name | None = Field(default=None, description="(a.x - b.x) squared")
    sum: Name | None = Field(default=None, description="a.x + b.x")
    product: Name | None = Field(default=None, description="a.x * b.x")
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False), NUMBER] = Field(default=1.0, description="Factor of the term.")


class GlobalScoring(Model):
    """A monotone combination of per-attribute scores of a pair."""

    combine: Literal["sum", "product", "min", "max"] = Field(description="How the terms become one score.")
    terms: tuple[Term, ...] = Field(min_length=1, description="The terms.")
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="Keep more than the queries need.")


class LinearScoring(Model):
    """A weighted sum of columns of a single row."""

    linear: dict[Name, Number] = Field(min_length=1, description="column -> weight")
    direction: Literal["min", "max"] = Field(default="max", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="Keep more than the queries need.")


class FunctionScoring(Model):
    """A scoring function of an installed package, over columns."""

    function: Name = Field(description="Name of the function, as its package registers it.")
    columns: dict[Name, Name] = Field(
        default_factory=dict, description="Parameter of the function -> column; default: the column of the parameter's name."
    )
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="Keep more than the queries need.")


def scoring_kind(value: Any) -> str:
    """Which of the scoring models a value is meant to be."""
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
    """Every row's set of tokens: the elements of a list, the parts of a delimited text, or the words of a text (the default)."""

    column: Name = Field(description="A list (array<string>, array<int>, array<bigint>) or a text.")
    separator: Text | None = Field(default=None, description="What stands between the tokens of a text.")
    words: Text | None = Field(
        default=None, description="What a token of a text looks like, a regular expression (RE2).", json_schema_extra={"default": WORDS}
    )
    lower: bool | None = Field(
        default=None, description="Whether text is lower-cased first, character by character: default true for words."
    )
    normalize: Literal["nfc", "none"] = Field(
        default="nfc", description="nfc: text is put into Unicode's composed form first, so that equal letters are equal; none: as it is."
    )
    stop_words: tuple[Text, ...] = Field(default=(), description="Tokens that do not count. They are removed before n-grams are made.")
    ngrams: Annotated[int, Field(ge=1, le=10), WHOLE] = Field(
        default=1, description="Each n neighbouring tokens together are one token. A text of fewer than n has none."
    )
    min_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] = Field(
        default=1, description="A row with fewer different tokens is short."
    )
    short: Literal["skip", "reject"] = Field(
        default="skip", description="What happens to a short row: skip, it takes no part in set queries; reject, it goes to table rejected."
    )
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] = Field(
        default=10_000, description="Rows with more different tokens are rejected."
    )


def _trigger(value: Any) -> Any:
    return "<once>" if isinstance(value, str) and value.strip().lower() == "once" else "<duration>"


Trigger = Annotated[Annotated[Literal["once"], Tag("<once>")] | Annotated[PositiveDuration, Tag("<duration>")], Discriminator(_trigger)]


class Run(Model):
    """How the job runs. All may change at any time; ``buckets``, which divide the state, to a multiple only."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["max_files", "max_bytes"]}})

    trigger: Trigger = Field(
        default="once", description="once: process the input that exists now; or how often to look for input, e.g. 10 seconds."
    )
    max_files: Annotated[int, Field(ge=1), WHOLE] | None = Field(default=None, description="Most files in one batch.")
    max_bytes: Size | None = Field(default=None, description="Most bytes in one batch, e.g. 256m.")
    buckets: Annotated[int, Field(ge=1, le=4096), WHOLE] | None = Field(
        default=None, description="Parts of the keys; default 16, or 1 without keys."
    )
    keep: PositiveDuration | None = Field(
        default=None, description="How long rows of table runs, and names of taken files that are gone, are kept; default 90 days."
    )


class Job(Model):
    """A Skyband job: one source, any number of scoring functions and queries, one sink."""

    job: JobName = Field(description="Name of the job.")
    source: Source = Field(description="Where rows come from.")
    transform: tuple[Step, ...] = Field(default=(), description="Deterministic Spark SQL, in order.")
    deletes: Text | None = Field(
        default=None, description="A predicate that marks a row as the deletion of its id (not every query type takes deletions)."
    )
    quality: Quality = Field(default=Quality(), description="Data quality rules.")
    window: WindowSpec = Field(description="The largest window a query may use.")
    scoring: dict[Name, Scoring] = Field(default_factory=dict, description="Scoring functions, by name.")
    tokens: dict[Name, Tokens] = Field(default_factory=dict, description="Sets of tokens, by name: what set queries compare.")
    # Each is a model of its type's own, which `model_walk` finds by `type`.
    queries: dict[Name, QueryModel] = Field(min_length=1, description="Queries, by name; each gives its tables.")
    sink: Sink = Field(description="Where the tables go.")
    run: Run = Field(default=Run(), description="How the job runs.")
    schedule: Schedule | None = Field(default=None, description="When Airflow runs the job.")
    tests: tuple[SpecTest, ...] = Field(default=(), description="Rows in, tables out: what skyband test runs, and a run does not look at.")

    _variables: tuple[tuple[tuple[str | int, ...], str], ...] = PrivateAttr(())
    _relative_source: str | None = PrivateAttr(None)

    @property
    def variables(self) -> tuple[tuple[tuple[str | int, ...], str], ...]:
        """Where values of the environment stand: (path, the text as the spec writes it). What is there is never stored nor shown."""
        return self._variables

    def with_variables(self, written: Mapping[tuple[str | int, ...], str]) -> Job:
        """The same job, whose values at these paths came from the environment."""
        made = self.model_copy()
        made._variables = tuple(written.items())
        return made

    @property
    def relative_source(self) -> str | None:
        """The source's path as the spec gives it, if it starts at the spec's directory."""
        return self._relative_source

    def with_relative_source(self, path: str) -> Job:
        """The same job, whose source has the path ``path`` as seen from the spec's directory."""
        made = self.model_copy()
        made._relative_source = path
        return made
