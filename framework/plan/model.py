"""The compiled plan: a small DAG of frozen nodes that knows nothing of Spark and nothing of YAML.

source -> intake -> pack -> host(operators) -> sink. Everything here is picklable: the host's part travels to the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.live import NO_LIVE, Live
from skyband.framework.plan.nodes import (
    STATISTIC_TYPE,
    AlertNode,
    Check,
    KafkaNode,
    LookupNode,
    RunRule,
    SourceClock,
    StatisticsNode,
    TokenNode,
    statistic_columns,
)
from skyband.operators.base import Column, Kind, Operator, Window, object_columns
from skyband.operators.expressions.ast import Node
from skyband.operators.hopping import Hopping
from skyband.operators.per_window import PerWindow

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
    ``position``: columns that readers make of a row's position (``sources.position``), which no file has. ``table``: its name in a
    catalog, which says the path. ``max_line``: most bytes of a line of a text file.
    """

    format: str
    path: str | None
    options: tuple[tuple[str, str], ...]
    fields: tuple[Field, ...]
    max_files_per_batch: int | None = None
    max_bytes_per_batch: str | None = None
    written: str | None = None
    on_bad_file: Literal["stop", "reject"] = "stop"
    max_line: int = 16 << 20
    on_drift: Literal["stop", "warn"] = "stop"
    relative: str | None = None
    plain: bool = False
    number: int = 0
    parts: tuple[tuple[str, SourceNode], ...] = ()
    position: tuple[Field, ...] = ()
    table: str | None = None

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


EngineName = Literal["spark", "local"]
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

    ``item`` says what its results are made of. ``members`` are the names of a table of queries: then all of the operator's queries are the
    entry's, in this order. ``asked`` has what each of them asks (empty for the types that need no such thing). ``written``: those of
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
    def inner(self) -> Operator:
        """Return the operator that answers within a window: of windows that follow each other, the one that is restarted in each."""
        return self.operator.inner if isinstance(self.operator, (PerWindow, Hopping)) else self.operator

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
class StreamNode:
    """The stream called ``name`` that the result of query ``of`` makes up, with the ``plan`` of the queries that take it.

    ``takes``: its entries, whose columns ``columns`` gives by those of the changes; or its members, the objects that ``objects`` name.
    ``plan`` has the stream as its intake. ``renewed``: microseconds after which an entry is entered again while its item stays.
    ``bounded``: whether entries leave by a window that the queries name, or, of items that never leave, by the job's.
    """

    name: str
    of: str
    takes: Literal["entries", "members"]
    objects: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    plan: Plan
    renewed: int | None = None
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole job. ``texts`` are the text constants of its expressions: constant i has code i in every bucket's dictionary.

    ``variables``: (path in the spec, the text as written there) of the values that came from the environment: never stored nor shown.
    ``schedule``: when Airflow runs it, in words. ``max_rejected``: percent of a run's rows. ``max_unusable``: percent of the rows that a
    query asks for (None: less than all). ``check_every``: batches of a continuous run between checks of its tables. ``keep_micros``: how
    long rows of ``runs``, and names of files that are gone, are kept. ``catalog``: the schema in which tables are registered.
    ``iceberg``: whether published tables get Iceberg metadata. ``feeds``: queries whose tables of results have a change data feed.
    ``lookups``: the tables of ``intake.lookups``. ``shards``: of every bucket, or ``sharding.AUTO``. ``streams``: what results make up
    for further queries, each after the one whose query it takes. ``engine``: what runs the job, unless the command says otherwise.
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
    catalog: str | None = None
    alerts: tuple[AlertNode, ...] = ()
    lookups: tuple[SourceNode, ...] = ()
    statistics: tuple[StatisticsNode, ...] = ()
    live: Live = NO_LIVE
    streams: tuple[StreamNode, ...] = ()
    iceberg: bool = False
    feeds: tuple[str, ...] = ()
    engine: EngineName = "spark"

    @property
    def places(self) -> tuple[str | None, ...]:
        """Return the paths of all sources and look-ups, and of the sink: no output of a command may be at, in or above one."""
        return (*(part.path for _, part in self.source.each), *(table.path for table in self.lookups), self.sink)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Return the plan of the queries over the source's rows, then those of the queries over results."""
        return (self, *(s.plan for s in self.streams))

    @property
    def unshared(self) -> Plan:
        """Return the plan without what others get besides its tables: for a job that is built aside, or a test."""
        return replace(self, kafka=None, catalog=None, alerts=(), iceberg=False)

    @property
    def every_query(self) -> tuple[QueryNode, ...]:
        """Return all queries: those over the source's rows, then those over results, each after the one that it takes."""
        return tuple(q for plan in self.plans for q in plan.queries)

    def of(self, query: str) -> Plan:
        """Return the plan that query ``query`` belongs to: that of a stream, or this one. O(queries over results)."""
        return next((s.plan for s in self.streams if any(q.name == query for q in s.plan.queries)), self)

    def field(self, name: str) -> Field:
        """Return the column called ``name``: of the stream, or of its statistics. Raises KeyError."""
        if name in statistic_columns(self.statistics):
            return Field(name, STATISTIC_TYPE, "float")
        return self.intake.field(name)
