"""The spec as typed, frozen models: types, defaults and documentation of every field.

The models check single fields; ``spec.checks`` checks everything that needs several fields or the columns. The JSON schema for editors and
the reference pages are generated from these models, so every field has a description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PrivateAttr, Tag

from skyband.framework.base.units import WHOLE, Batches, Duration, ExactNumber, JobName, Name, Percent, PositiveDuration, Size, Text
from skyband.framework.queries.models import QueryModel
from skyband.framework.sources.several.format import SEVERAL, SOURCE
from skyband.framework.spec.models.base import Model, short_or_long
from skyband.framework.spec.models.scoring import Scoring, WindowSpec
from skyband.framework.spec.models.source import Dimension, Lookup, OneOfSources, Source, SourceColumn, Step, Tokens

# The statistics of a spec.

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


# The section ``tests`` of a spec: input rows and expected tables, for ``skyband test``.

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
    finish: bool | Literal["end"] = Field(
        default=True,
        description="Declare the input complete after the last row, like run --finish; end: at the end of the windows that hold it, like "
        "run --finish-at end.",
    )
    expect: dict[Name, tuple[Row, ...]] = Field(
        default_factory=dict,
        description="Table of the job to all its rows: <query>_changes, <query>, <query>_now, <query>_trajectory, <query>_final, "
        "rejected. Only the columns that are given are compared. `skyband test --record` writes this field.",
    )

    @property
    def finish_at(self) -> Literal["newest", "end"]:
        """Return how far the input is declared complete, if it is."""
        return "end" if self.finish == "end" else "newest"


# The section ``quality`` of a spec: rules on rows, expectations on tables, rules over runs.

RuleSeverity = Annotated[
    Literal["warn", "reject", "fail"],
    Field(
        description="For a row that breaks the rule: warn counts and processes it, reject moves it to table rejected, fail stops the run."
    ),
]
ExpectationName = Annotated[str, Field(pattern=r"^expect_[a-z0-9_]+$")]


class RowCondition(Model):
    """A condition that every row must meet (null passes)."""

    name: Name = Field(description="Name of the rule, as it appears in table rejected.")
    expect: Text = Field(description="A Spark SQL condition.")
    severity: RuleSeverity = "reject"


class RowExpectation(BaseModel):
    """A Great Expectations expectation that every single row must meet; other fields are its arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    expectation: ExpectationName = Field(description="Name of an expectation about single rows.")
    name: Name | None = Field(default=None, description="Name of the rule. Default: made from its columns and the expectation.")
    severity: RuleSeverity = "reject"


def rule_kind(value: Any) -> str:
    """Return the tag of the row rule that a value is meant to be."""
    return "<expectation>" if isinstance(value, RowExpectation) or (isinstance(value, dict) and "expectation" in value) else "<expect>"


Rule = Annotated[Annotated[RowCondition, Tag("<expect>")] | Annotated[RowExpectation, Tag("<expectation>")], Discriminator(rule_kind)]


class TableCheck(BaseModel):
    """A Great Expectations expectation on a table of the job; other fields are its arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    table: Name = Field(description="A table of the job: a query's name, <query>_changes, <query>_now, rejected, runs, ...")
    expectation: ExpectationName = Field(description="Name of the expectation.")
    severity: Literal["critical", "warning", "info"] = Field(default="critical", description="Severity of a failure.")
    scope: Literal["new", "whole"] | None = Field(
        default=None,
        description="Rows to check: new (added since the last check; the default for append-only tables) or whole.",
    )


class RunRule(Model):
    """A rule over the batches of a run: max_delay, or min_rows and per."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["max_delay"]}, {"required": ["min_rows", "per"]}]})

    max_delay: PositiveDuration | None = Field(
        default=None, description="Maximum delay between the newest event time and the commit of a batch that read rows."
    )
    min_rows: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(
        default=None, description="Minimum number of rows to read per ..."
    )
    per: PositiveDuration | None = Field(default=None, description="... this time (with min_rows), counted back from now.")
    severity: Literal["critical", "warning"] = Field(default="critical", description="Severity of a failure.")


class Quality(Model):
    """Data quality: rules on every row, expectations on tables."""

    rows: tuple[Rule, ...] = Field(default=(), description="Rules that every row is checked against before it is processed.")
    tables: tuple[TableCheck, ...] = Field(default=(), description="Great Expectations on the job's tables, by their original names.")
    runs: tuple[RunRule, ...] = Field(default=(), description="Rules over the batches of a run.")
    check_every: Batches | None = Field(
        default=None, description="In continuous runs, also check tables and runs at this interval, e.g. 100 batches."
    )
    max_rejected: Percent = Field(
        default=1.0, description="Maximum share of rejected rows of a run; above it the exit code is 4. 100% allows any.",
        json_schema_extra={"default": "1%"},
    )  # fmt: skip
    max_unusable: Percent | None = Field(
        default=None, description="Maximum share of a run's rows that a query selects but cannot use, because the score is null or the set "
        "short; above it the exit code is 4. Default: any share below 100%. 100% allows any.",
    )  # fmt: skip


# The section ``alerts`` of a spec: changes of results that become messages to a channel, which the operator has configured by name.

MOST_ALERTS: Final = 50
"""The largest number of alerts of a job: each has a thread."""
EVERY: Final = 10_000_000
"""The default of ``every`` in microseconds."""
When = Literal["enter", "leave", "value"]


class Alert(Model):
    """Messages about changes of results, at least once, to a channel of the operator. May change at any time, without a rebuild."""

    channel: Name = Field(description="Name of a channel in the file that SKYBAND_CHANNELS names.")
    queries: tuple[Name, ...] = Field(default=(), description="Queries whose results are watched. Default: all.")
    when: tuple[When, ...] = Field(
        default=("enter", "leave"),
        min_length=1,
        description="When to send a message: an item enters a result, leaves it, or its value passes `above` or `below`.",
    )
    above: ExactNumber | None = Field(default=None, description="For value: an item's value becomes greater than this.")
    below: ExactNumber | None = Field(default=None, description="For value: an item's value becomes smaller than this.")
    message: Text | None = Field(
        default=None,
        max_length=500,
        description="Text of a message; {name} inserts a value. Default: what happened, to which item, and when.",
    )
    history: bool = Field(
        default=False,
        description="Whether the job's first run also sends changes from before its start: those of the history that the source holds.",
    )
    batch: Annotated[int, Field(ge=1, le=1000), WHOLE] = Field(default=100, description="Maximum number of messages in one request.")
    every: Duration | None = Field(default=None, description="Minimum time between two requests. Default: 10 seconds.")
    at_most: Annotated[int, Field(ge=1, le=10_000), WHOLE] = Field(
        default=100, description="Maximum number of messages per minute. Further ones become one message with their number."
    )


# The section ``schedule`` of a spec: when and how Airflow runs the job.


class Retries(Model):
    """How Airflow retries a run after a temporary failure: every wait is twice the previous one."""

    count: Annotated[int, Field(ge=0, le=100), WHOLE] = Field(default=2, description="Maximum number of retries.")
    wait: PositiveDuration = Field(
        default=60_000_000, description="Wait before the first retry; it doubles with every further one.",
        json_schema_extra={"default": "1 minute"},
    )  # fmt: skip
    longest: PositiveDuration = Field(
        default=3_600_000_000, description="Maximum wait.", json_schema_extra={"default": "1 hour"}
    )  # fmt: skip


class Schedule(Model):
    """When and how Airflow runs the job, in a DAG of its own. Use exactly one of ``cron`` and ``assets``."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["cron"]}, {"required": ["assets"]}]})

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)] | None = Field(
        default=None, description="Id of the DAG. Default: the job's name."
    )
    description: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="One-line description of the DAG."
    )
    owner: Annotated[str, Field(pattern=r"^[^,]+$", max_length=200)] = Field(default="skyband", description="Owner of the DAG.")
    tags: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(default=(), description="Tags of the DAG in Airflow.")
    cron: Text | None = Field(default=None, description="Five cron fields, UTC, or @hourly, @daily, @weekly, @monthly, @yearly.")
    assets: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Run when all of these assets were updated: <job>.<table> of another spec, or an asset's name or URI of any other DAG.",
    )
    retries: Retries = Field(default=Retries(), description="Retries after a temporary failure.")
    timeout: PositiveDuration | None = Field(default=None, description="Stop and retry a run that takes longer.")
    maintain: PositiveDuration = Field(
        default=86_400_000_000, description="How often to run skyband maintain on the tables, after a run.",
        json_schema_extra={"default": "1 day"},
    )  # fmt: skip
    connection: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)] | None = Field(
        default=None, description="Airflow connection (of type spark) to the cluster for the runs. Default: the local machine."
    )
    paused: bool = Field(default=False, description="Pause the DAG when Airflow first loads it.")


# The section ``sink`` of a spec: the directory of the job's tables, and the Kafka sink.

TOPIC: Final = "{job}.{query}.changes"
"""The default name of a topic."""


class KafkaSink(Model):
    """The Kafka sink: topics that receive every committed change at least once."""

    servers: Text = Field(description="HOST:PORT of the brokers, comma-separated.")
    topic: Text = Field(
        default=TOPIC,
        description="Name of the topics, in which {job} and {query} insert names. Without {query} all queries share one topic.",
    )
    queries: tuple[Name, ...] = Field(default=(), description="Queries whose changes are sent. Default: all.")
    user: Text | None = Field(default=None, description="User name of the login.")
    password: Text | None = Field(default=None, repr=False, description="Password of the login, from the environment: ${NAME}.")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="Mechanism of the login. Default: SCRAM-SHA-512 if a login is given."
    )
    tls: bool = Field(default=False, description="Connect to the brokers over TLS.")


def _feed(value: Any) -> Any:
    return "<queries>" if isinstance(value, (list, tuple)) else "<all>"


Feed = Annotated[Annotated[bool, Tag("<all>")] | Annotated[tuple[Name, ...], Tag("<queries>")], Discriminator(_feed)]


class Sink(Model):
    """Where the job writes its tables."""

    path: Text = Field(description="Directory of the job's Delta tables and its checkpoint, relative to the spec's directory.")
    catalog: Text | None = Field(
        default=None, description="Schema of a catalog in which all tables are registered: CATALOG.SCHEMA of Unity Catalog, or SCHEMA of "
        "the Hive metastore. Who runs the job configures where the catalog is.",
    )  # fmt: skip
    kafka: KafkaSink | None = Field(default=None, description="Also send the changes to Kafka topics.")
    iceberg: bool = Field(
        default=False, description="Also write Iceberg metadata over the same Parquet files whenever results are published, below _iceberg."
    )
    change_data_feed: Feed = Field(
        default=False, description="Keep Delta's change data feed for the tables of results: of all queries, or of the listed ones."
    )


def with_feed(sink: Sink, queries: Iterable[str]) -> tuple[str, ...]:
    """Return the queries whose tables of results have a change data feed; ``queries`` are those of the spec."""
    if isinstance(sink.change_data_feed, tuple):
        return sink.change_data_feed
    return tuple(queries) if sink.change_data_feed else ()


def topics(kafka: KafkaSink, job: str, queries: Iterable[str]) -> list[tuple[str, str]]:
    """Return (query, topic) of the queries whose changes are sent; ``queries`` are those of the spec."""
    return [(q, kafka.topic.replace("{job}", job).replace("{query}", q)) for q in kafka.queries or queries]


def _trigger(value: Any) -> Any:
    return "<once>" if isinstance(value, str) and value.strip().lower() == "once" else "<duration>"


def _shards(value: Any) -> Any:
    return "<auto>" if isinstance(value, str) and value.strip().lower() == "auto" else "<number>"


MOST_SHARDS: Final = 256
"""The largest number of shards."""
ShardCount = Annotated[int, Field(ge=1, le=MOST_SHARDS), WHOLE]
Trigger = Annotated[Annotated[Literal["once"], Tag("<once>")] | Annotated[PositiveDuration, Tag("<duration>")], Discriminator(_trigger)]


class Run(Model):
    """How the job runs. All fields may change at any time; ``buckets``, which divide the state, only to a multiple."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["max_files", "max_bytes"]}})

    trigger: Trigger = Field(
        default="once",
        description="once: process the input that exists now and end; or the interval between looks for new input, e.g. 10 seconds.",
    )
    engine: Literal["spark", "local"] = Field(
        default="spark",
        description="What runs the job. spark: Spark, on this machine or a cluster. local: the command's own process, without Spark, for "
        "jobs whose source it can read. skyband explain says whether it can.",
    )
    max_files: Annotated[int, Field(ge=1), WHOLE] | None = Field(default=None, description="Maximum number of files per batch.")
    max_bytes: Size | None = Field(default=None, description="Maximum size of a batch in bytes, e.g. 256m.")
    buckets: Annotated[int, Field(ge=1, le=4096), WHOLE] | None = Field(
        default=None, description="Number of parts of the state, by key. Default: 16, or 1 without key columns."
    )
    shards: Annotated[Annotated[Literal["auto"], Tag("<auto>")] | Annotated[ShardCount, Tag("<number>")], Discriminator(_shards)] = Field(
        default=1,
        description="Number of tasks that share the search for pairs of each part of the state; 1: none but the one of that part. auto: "
        "as many as there are cores, if the search for pairs takes long enough.",
    )
    keep: PositiveDuration | None = Field(
        default=None, description="How long to keep rows of table runs and names of processed files that no longer exist. Default: 90 days."
    )


_ONE: Final[Any] = {"description": "One source says its format and schema itself.", "required": ["format", "schema"]}


class Job(Model):
    """A Skyband job: one source or several, any number of scoring functions and queries, one sink."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["sources"]}, {"properties": {"source": _ONE}}]})

    job: JobName = Field(description="Name of the job.")
    source: Source = Field(description="Where rows come from. With sources: what all of them have in common.")
    sources: dict[Name, OneOfSources] = Field(
        default_factory=dict, description="Several sources that make up one stream, by name; then source has no format, path and schema."
    )
    lookups: dict[Name, Lookup] = Field(
        default_factory=dict, description="Static tables by name. Rows take columns of them before `transform`."
    )
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
    stats: dict[Name, Statistics] = Field(
        default_factory=dict,
        description="Statistics of the rows before each row, by name.",
    )
    # `models.walk` finds the model of a query by its `type`.
    queries: dict[Name, QueryModel] = Field(min_length=1, description="Queries by name. Every query has tables of its own.")
    sink: Sink = Field(description="Where the job writes its tables.")
    alerts: dict[Name, Alert] = Field(
        default_factory=dict, max_length=MOST_ALERTS, description="Alerts by name: messages about changes of results."
    )
    run: Run = Field(default=Run(), description="How the job runs.")
    schedule: Schedule | None = Field(default=None, description="When Airflow runs the job.")
    tests: tuple[SpecTest, ...] = Field(
        default=(), description="Tests of the spec: input rows and expected tables. skyband test runs them; skyband run ignores them."
    )

    _variables: tuple[tuple[tuple[str | int, ...], str], ...] = PrivateAttr(())
    _relative_source: str | None = PrivateAttr(None)
    _relative_sources: tuple[tuple[str, str], ...] = PrivateAttr(())

    @property
    def has_deletions(self) -> bool:
        """Return True if objects may be deleted: by rows that delete, or by rows that replace them."""
        return self.deletes is not None or self.source.op is not None or self.source.on_duplicate == "replace"

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

    @property
    def relative_sources(self) -> dict[str, str]:
        """Return the paths of ``sources`` as in the spec, by name, of those that are relative to the spec's directory."""
        return dict(self._relative_sources)

    def with_sources(self, sources: Mapping[str, OneOfSources], relative: Mapping[str, str]) -> Job:
        """Return the job with ``sources``, whose paths in the spec are ``relative`` where they are so."""
        made = self.model_copy(update={"sources": dict(sources)})
        made._relative_sources = tuple(relative.items())
        return made


# Several sources as the one source that the rest of a job sees.

_OF_EACH: Final = ("format", "path", "table", "options", "schema", "on_bad_file", "max_line", "on_drift")
"""Fields of ``source`` that each of several sources has for itself."""


def given_for_all(data: Mapping[str, Any]) -> list[str]:
    """Return the fields of ``source`` in the data of a spec that belong to each of its ``sources``."""
    source = data.get("source")
    return [name for name in _OF_EACH if "sources" in data and isinstance(source, dict) and name in source]


def as_one(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of a spec with what its ``source`` lacks because each of its ``sources`` has it."""
    source = data.get("source")
    if "sources" not in data or not isinstance(source, dict):
        return data
    common = {name: value for name, value in source.items() if name not in _OF_EACH}
    return {**data, "source": {**common, "format": SEVERAL, "schema": {SOURCE: "string"}}}


def merged(job: Job) -> Job:
    """Return ``job`` with all columns of its ``sources`` as those of ``source``, and the source's name as part of the id.

    A row is identified by its id and its source: two sources may use the same ids.
    """
    if not job.sources or job.source.format != SEVERAL or job.source.by_position:
        return job
    columns = dict(job.source.columns)
    for one in job.sources.values():
        for name, spec in one.columns.items():
            columns.setdefault(name, spec.type if isinstance(spec, SourceColumn) else spec)
    id_ = (*job.source.id, *([SOURCE] if SOURCE not in job.source.id else []))
    return job.model_copy(update={"source": job.source.model_copy(update={"columns": columns, "given_id": id_})})
