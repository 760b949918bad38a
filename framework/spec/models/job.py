"""The spec as typed, frozen models: types, defaults and documentation of every field.

The models check single fields; ``spec.checks`` checks everything that needs several fields or the columns. The JSON schema for editors and
the reference pages are generated from these models, so every field has a description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, PrivateAttr, Tag

from skyband.framework.base.units import WHOLE, JobName, Name, PositiveDuration, Size, Text
from skyband.framework.queries.models import QueryModel
from skyband.framework.spec.models.alerts import MOST_ALERTS, Alert
from skyband.framework.spec.models.base import Model
from skyband.framework.spec.models.examples import SpecTest
from skyband.framework.spec.models.lookups import Lookup
from skyband.framework.spec.models.quality import Quality
from skyband.framework.spec.models.schedule import Schedule
from skyband.framework.spec.models.scoring import Scoring
from skyband.framework.spec.models.sink import Sink
from skyband.framework.spec.models.source import OneOfSources, Source
from skyband.framework.spec.models.stats import Statistics
from skyband.framework.spec.models.tokens import Tokens
from skyband.framework.spec.models.transform import Step
from skyband.framework.spec.models.vectors import Dimension
from skyband.framework.spec.models.window import WindowSpec


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
