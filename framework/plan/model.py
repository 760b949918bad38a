"""The compiled plan: a small DAG of frozen nodes that knows nothing of Spark and nothing of YAML.

source -> intake -> pack -> host(operators) -> sink. Everything here is picklable: the host's part travels to the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.lookups import LookupNode
from skyband.framework.plan.source_nodes import SourceClock
from skyband.framework.plan.statistics import STATISTIC_TYPE, StatisticsNode, statistic_columns
from skyband.operators.base import TOKENS, Column, Kind, Operator, Window, object_columns
from skyband.operators.expressions.ast import Node

if TYPE_CHECKING:
    from skyband.operators.single_rows.scores import Linear

KEEP: Final = 90 * 86_400_000_000
"""The default of ``run.keep``: 90 days, in microseconds."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the stream.

    ``type`` is a Spark DDL type in lower case (string, int, bigint, double, float, boolean, timestamp, date, decimal(p,s));
    ``source_name`` is its name in the source, or None for a column of a look-up and for a derived one.
    """

    name: str
    type: str
    kind: Kind
    source_name: str | None = None


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Where rows come from; ``format`` is a name in ``sources.registry``. ``options`` may hold secrets: never print their values.

    ``written``: the path as the spec writes it, if something of it came from the environment. ``relative``: the path as seen from the
    spec's directory, if it is given so. ``plain``: the reader of the source looks at its JSON files itself (``sources.json.plain``).
    ``number``: of the source among those of the query in Spark's checkpoint. ``parts``: the sources that this one consists of (format
    ``several``), by name; then ``fields`` are those of any of them.
    ``position``: columns that readers make of a row's position (``sources.position``), which no file has.
    """

    format: str
    path: str | None
    options: tuple[tuple[str, str], ...]
    fields: tuple[Field, ...]
    max_files_per_batch: int | None = None
    max_bytes_per_batch: str | None = None
    written: str | None = None
    on_bad_file: Literal["stop", "reject"] = "stop"
    on_drift: Literal["stop", "warn"] = "stop"
    relative: str | None = None
    plain: bool = False
    number: int = 0
    parts: tuple[tuple[str, SourceNode], ...] = ()
    position: tuple[Field, ...] = ()

    @property
    def each(self) -> tuple[tuple[str, SourceNode], ...]:
        """Return the sources that are read, by name: its parts, or itself without a name."""
        return self.parts or (("", self),)

    @property
    def shown(self) -> str:
        """Return the format, or each of several sources with its format."""
        return ", ".join(f"{name} ({part.format})" for name, part in self.parts) or self.format


@dataclass(frozen=True, slots=True)
class Derive:
    """A derived column: name and Spark SQL expression."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Filter:
    """A row filter: rows for which ``sql`` is not true are counted as filtered."""

    sql: str


@dataclass(frozen=True, slots=True)
class RowRule:
    """What is valid (null passes). A row that makes ``sql`` false is used and counted, rejected with ``rule:<names>``, or stops the run."""

    name: str
    sql: str
    severity: Literal["warn", "reject", "fail"] = "reject"


@dataclass(frozen=True, slots=True)
class TokenNode:
    """Sets of tokens called ``name``: of each row the distinct tokens of ``column``, as codes.

    A list's elements; a text split at ``separator``, or what ``words`` (RE2) finds in it, lower-cased first if ``lower``. ``stop_words`` do
    not count; ``ngrams`` neighbours together are one token. A row with more than ``most`` is rejected; one with fewer than ``least`` has an
    empty set, or is rejected too (``short``).

    ``normalize`` and ``short`` are None in a job of a former version (``plan.former``), which knew neither: text stays as it is, short rows
    are rejected. ``given`` names those of ``words``, ``normalize`` and ``short`` that the spec sets.
    """

    name: str
    column: str
    separator: str | None
    words: str | None
    lower: bool
    stop_words: tuple[str, ...]
    ngrams: int
    least: int
    most: int
    normalize: Literal["nfc", "none"] | None = "nfc"
    short: Literal["skip", "reject"] | None = "skip"
    given: tuple[str, ...] = ()

    @property
    def composes(self) -> bool:
        """Return True if text is converted to Unicode's composed form (NFC) first."""
        return self.normalize == "nfc"

    @property
    def skips_short(self) -> bool:
        """Return True if a row with fewer than ``least`` tokens is accepted, with an empty set."""
        return self.short == "skip"

    @property
    def codes(self) -> str:
        """Return the name of the column with the codes."""
        return TOKENS + self.name


@dataclass(frozen=True, slots=True)
class VectorNode:
    """A list column whose rows are vectors of ``dimension`` finite numbers, or null; other rows are rejected."""

    column: str
    dimension: int


@dataclass(frozen=True, slots=True)
class ReportNode:
    """Rows that pass ``where`` report on the object that the columns ``objects`` name; those that name none are rejected.

    With ``updates``, a column of truth values or of 0 and 1, those that have something else there are rejected too.
    """

    objects: tuple[str, ...]
    updates: str | None
    where: Node | None


@dataclass(frozen=True, slots=True)
class OperationNode:
    """What the value of ``column``, as text, makes of a row; any other value, or null, rejects it (``reasons.BAD_OP``).

    With ``ignore``, the last of the transforms filters these rows.
    """

    column: str
    insert: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


OnDuplicate = Literal["reject", "replace", "keep_first"]


@dataclass(frozen=True, slots=True)
class IntakeNode:
    """Parse, transform, check. ``fields`` are all columns after the transforms, in order (schema columns, those of look-ups, then derived).

    ``deletes``: rows for which it is true delete the object with their id. ``operations``: a column says so instead (``source.op``).
    ``on_duplicate``: what a row does whose id an alive object has. ``whole``: columns of 64-bit whole numbers, instants and dates
    that are read as int64, in which one value stands for null: rows that hold it are rejected (``reasons.INT_RANGE``).
    ``sources``: those of a stream of several sources; ``delay_micros`` is then the longest of their delays.
    ``ahead_micros``: how far event times may be ahead of the clock at which a batch is planned (None: any distance). ``jump_micros``: how
    far apart consecutive event times of a batch may be (None: any distance).
    """

    fields: tuple[Field, ...]
    transforms: tuple[Derive | Filter, ...]
    rules: tuple[RowRule, ...]
    id: tuple[str, ...]
    event_time: str
    delay_micros: int
    tie_break: tuple[str, ...]
    partition_by: tuple[str, ...]
    unique: Literal["checked", "assumed"]
    deletes: Node | None = None
    tokens: tuple[TokenNode, ...] = ()
    whole: tuple[str, ...] = ()
    reports: tuple[ReportNode, ...] = ()
    vectors: tuple[VectorNode, ...] = ()
    lookups: tuple[LookupNode, ...] = ()
    sources: tuple[SourceClock, ...] = ()
    ahead_micros: int | None = None
    jump_micros: int | None = None
    on_duplicate: OnDuplicate = "reject"
    operations: OperationNode | None = None

    @property
    def has_deletions(self) -> bool:
        """Return True if objects may be deleted: by rows that delete, or by rows that replace them."""
        return self.deletes is not None or self.operations is not None or self.on_duplicate == "replace"

    def rules_of(self, severity: Literal["warn", "reject", "fail"]) -> tuple[RowRule, ...]:
        """Return the rules of one severity, in the order of the spec."""
        return tuple(r for r in self.rules if r.severity == severity)

    @property
    def delay_ms(self) -> int:
        """Return the delay of the watermark in whole milliseconds, rounded up, as Spark does."""
        return -(-self.delay_micros // 1000)

    def field(self, name: str) -> Field:
        """Return the field called ``name``. Raises KeyError."""
        for f in self.fields:
            if f.name == name:
                return f
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class LogicalQuery:
    """What one query over single rows asks, in full. ``bounds``: min_score, max_score, or above, at_least, below, at_most.

    ``parameters``: values of the names that ``scoring`` and ``where`` use besides columns.
    """

    name: str
    scoring: Node | Linear
    where: Node | None
    window: Window
    k: int | None
    bounds: tuple[float | None, ...]
    direction: Literal["min", "max"]
    parameters: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class QueryNode:
    """One entry of the spec, answered by the plan's operator number ``operator`` as its query ``index``.

    ``item`` says what its results are made of.
    ``members`` are the names of a table of queries: then all of the operator's queries are the entry's, in this order. ``asked`` has what
    each of them asks (empty for the types that need no such thing). ``written``: those of
    ``carry`` that the spec names (None: all): the others are columns that the operator needs, and that are kept for it.
    """

    name: str
    type: str
    operator: int
    index: int
    k: int | None
    window: Window
    direction: Literal["min", "max"]
    item: ItemShape
    carry: tuple[str, ...]
    every_micros: int | None
    min_score: float | None
    max_score: float | None
    members: tuple[str, ...] = ()
    asked: tuple[LogicalQuery, ...] = ()
    written: tuple[str, ...] | None = None

    @property
    def turned(self) -> tuple[str, ...]:
        """Return the members that rank in the opposite direction of the query."""
        return tuple(a.name for a in self.asked if self.members and a.direction != self.direction)


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """One shared state, named after its first query. ``k`` and ``window`` are its K and N, ``why`` says why this operator."""

    name: str
    operator: Operator
    k: int
    window: Window
    queries: tuple[str, ...]
    direction: Literal["min", "max"]
    skyband: bool = True
    why: str = ""

    @property
    def attributes(self) -> tuple[Column, ...]:
        """Return the columns that the operator reads, each with one value per row."""
        return tuple(c for c in self.operator.columns if not c.name.startswith("$") and c.kind not in ("tokens", "characters"))

    @property
    def ragged(self) -> tuple[Column, ...]:
        """Return the columns of tokens and of characters that the operator reads."""
        return tuple(c for c in self.operator.columns if c.kind in ("tokens", "characters"))

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns of the stream that the operator reads, each once, without those of tokens."""
        found = (*self.attributes, *(c for c in self.ragged if c.kind == "characters"))
        return tuple(dict.fromkeys(source for c in found for source in c.sources))

    @property
    def tokens(self) -> tuple[str, ...]:
        """Return the columns of token codes that the operator reads."""
        return tuple(c.name for c in self.operator.columns if c.kind == "tokens")

    @property
    def objects(self) -> tuple[tuple[str, ...], ...]:
        """For every column of objects that the operator reads, the columns that name them."""
        return tuple(object_columns(c) for c in self.operator.columns if c.kind == "object")


def only_retained(operators: Iterable[OperatorNode], statistics: Sequence[StatisticsNode] = ()) -> bool:
    """Whether nobody needs more rows of the window than those that operators name. Statistics need all."""
    return not statistics and all(node.operator.keeps != "window" for node in operators)


@dataclass(frozen=True, slots=True)
class Check:
    """A Great Expectations expectation on one of the job's tables; ``arguments`` is canonical JSON.

    ``scope``: whether it looks at the whole table, or at the rows that batches have added since the last look.
    """

    table: str
    expectation: str
    arguments: str
    severity: Literal["critical", "warning", "info"]
    scope: Literal["new", "whole"] = "whole"


@dataclass(frozen=True, slots=True)
class RunRule:
    """A rule over a run's batches: ``max_delay_micros``, or at least ``min_rows`` rows in the last ``per_micros``."""

    severity: Literal["critical", "warning"]
    max_delay_micros: int | None = None
    min_rows: int | None = None
    per_micros: int | None = None


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """Topics for changes: (query, topic). ``options`` are brokers and login (``kafka_client``): never print their values; ``shown``:
    whether the topics' names may be shown: nothing of them came from the environment."""

    topics: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...] = field(repr=False)
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole job. ``texts`` are the text constants of its expressions: constant i has code i in every bucket's dictionary.

    ``variables``: (path in the spec, the text as written there) of the values that came from the environment: never stored nor shown.
    ``schedule``: when Airflow runs it, in words. ``max_rejected``: percent of a run's rows. ``max_unusable``: percent of the rows that a
    query asks for (None: less than all). ``check_every``: batches of a continuous run between checks of its tables. ``keep_micros``: how
    long rows of ``runs``, and names of files that are gone, are kept. ``lookups``: the tables of ``intake.lookups``. ``shards``: of every
    bucket, or ``sharding.AUTO``.
    """

    job: str
    source: SourceNode
    intake: IntakeNode
    window: Window
    operators: tuple[OperatorNode, ...]
    queries: tuple[QueryNode, ...]
    sink: str
    trigger_micros: int | None
    schedule: str | None
    checks: tuple[Check, ...]
    texts: tuple[str, ...]
    buckets: int
    shards: int = 1
    variables: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    keep_micros: int = KEEP
    max_rejected: float = 1.0
    max_unusable: float | None = None
    run_rules: tuple[RunRule, ...] = ()
    check_every: int | None = None
    kafka: KafkaNode | None = None
    lookups: tuple[SourceNode, ...] = ()
    statistics: tuple[StatisticsNode, ...] = ()

    def field(self, name: str) -> Field:
        """Return the column called ``name``: of the stream, or of its statistics. Raises KeyError."""
        if name in statistic_columns(self.statistics):
            return Field(name, STATISTIC_TYPE, "float")
        return self.intake.field(name)
