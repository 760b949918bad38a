"""The query type that all types about the loyalty of objects extend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pydantic import ConfigDict, Field

from skyband.framework.base.columns import FIXED_COLUMNS
from skyband.framework.base.items import ItemShape, Part, RankTerm, TimeVarying, Value
from skyband.framework.base.units import Name, PositiveDuration, Text, format_duration
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, predicate, predicate_key, share, texts_of
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode, ReportNode
from skyband.framework.queries.checks import collides, naming_columns
from skyband.framework.queries.models import Columns, QueryModel
from skyband.framework.queries.protocol import Limits, QueryType, Question, TimeVaryingValues
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Column, Operator, Window

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


# The fields that entries about the loyalty of objects have in common.

LOYALTY: Final = "loyalty_seconds"
SLOPE: Final = "slope"

_VALUES: Final = (
    Value(LOYALTY, "double", "for how many seconds of the window's time before {when} the object satisfied the criterion"),
    Value(SLOPE, "int", "how that moves from {when} on, in seconds a second: 1, 0 or -1"),
)


class LoyaltyRows(QueryModel):
    """Objects that many rows report on, by how long they satisfied a criterion within the window."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["object"]}, {"required": ["of"]}]})

    object: Columns | None = Field(
        default=None,
        description="Column(s) that name the object a row reports on. With `of`, the default is what the query's result consists of.",
        json_schema_extra={"type": ["string", "array"]},
    )
    of: Name | None = Field(
        default=None, description="A query: the object satisfies the criterion while an item of its is in the result of that query."
    )
    criteria: Text | None = Field(
        default=None, description="A predicate over a row, such as temp > 30: whether the object satisfies the criterion from now on."
    )
    updates: Name | None = Field(default=None, description="A column that says so itself: a boolean, or 0 and 1.")
    stale_after: PositiveDuration | None = Field(
        default=None, description="How long a report counts if no other comes. Default: until the next."
    )
    held: Name | None = Field(
        default=None, description="A text column with earlier switches of the object, which an edge filter held back: instants, or null."
    )
    trace: Literal["members", "all"] = Field(
        default="members", description="Whose trajectories are written: of the result's members, or of all objects."
    )

    @property
    def objects(self) -> tuple[str, ...]:
        """Return the columns that name the object."""
        return (self.object,) if isinstance(self.object, str) else self.object or ()


def loyal_object(columns: tuple[str, ...], trace_all: bool) -> ItemShape:
    """Return the item that ``columns`` name: the more loyal first, of equal ones the rising, then by name."""
    rank = (RankTerm((LOYALTY,), "desc"), RankTerm((SLOPE,), "desc"), *(RankTerm((c,), "asc") for c in columns))
    return ItemShape((Part("", "the object", columns),), rank, _VALUES, time_varying=TimeVarying(LOYALTY, SLOPE, trace_all))


# The lines of ``explain`` about a state of loyalty.

SHARES_STATE: Final = "object, criteria (or updates), where, stale_after, held and window"
"""The fields that queries of a shared state have in common."""


def _facts(node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
    """Return the object, when it is on and for how long; the queries' bounds, and the objects with trajectories."""
    operator: Any = node.inner
    on = f"by column {operator.updates.name}" if operator.updates is not None else f"where {canonical_text(operator.criteria)}"
    stale = f", for {format_duration(operator.stale_after)} at most" if operator.stale_after is not None else ""
    deleted = " or its own deletion" if operator.deletes else ""
    found = [("object", ", ".join(operator.object)), ("on", f"{on}, until the object's next report{deleted}{stale}")]
    found += [("where", canonical_text(operator.where))] if operator.where is not None else []
    found += [("held", f"switches in column {operator.held} move an object's line at once")] if operator.held is not None else []
    bounds = [f"{format_duration(n)} for {q.name}" for q in queries if (n := operator.queries[q.index].at_least) is not None]
    found += [("at least", ", ".join(bounds))] if bounds else []
    every = [q.name for q in queries if operator.queries[q.index].trace_all]
    members = [q.name for q in queries if not operator.queries[q.index].trace_all]
    traced = [f"members of {', '.join(members)}"] if members else []
    traced += [f"all objects, for {', '.join(every)}"] if every else []
    return [*found, ("traces", "; ".join(traced))]


def _size(plan: Plan) -> list[str]:
    """Return the line about the kept objects."""
    per_key = " of a key" if plan.intake.partition_by else ""
    keeps = [f"    keeps     objects{per_key} that are on or were within the window, and when each was switched; no rows"]
    if plan.intake.deletes is None:
        return keeps
    return [
        *keeps,
        "    price     of deletions: 8 B an object for its last report; up to twice the operator's time per row in small batches",
    ]


# Check an entry: its object, the report that a row makes, and that its window is of time.

_SWITCHES: Final = ("boolean", "int", "bigint")


def check(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    """Add every mistake in the entry at ``path``."""
    _check_object(scope, (*path, "object"), query)
    _check_reports(scope, path, query)
    _check_where(scope, (*path, "where"), query)
    _check_held(scope, (*path, "held"), query)
    _check_window(scope, path, query)
    if query.carry and not scope.doc.bad_below((*path, "carry")):
        message = "the items are objects that many rows report on: there is no row to carry columns from"
        scope.doc.add("SKY-E117", message, scope.doc.where_key((*path, "carry")), "leave it out; more columns may name the object")


def time_of(scope: Scope, query: LoyaltyRows) -> int | None:
    """Return the query's window in microseconds, None if it has none."""
    own = query.window.time if query.window is not None else None
    return own if own is not None else scope.job.window.time


def _check_object(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    doc = scope.doc
    for i, name in enumerate(scope.job.source.partition_by):
        if name.lower() in {LOYALTY, SLOPE} and not doc.bad(("source", "partition_by", i)):
            collides(scope, ("source", "partition_by", i), name, query)
    if query.object is None:
        if not doc.bad(path) and not doc.bad_below(path[:-1]):
            doc.add("SKY-E111", "a query of this type needs 'object'", doc.where_key(path[:-1]), "the column that names the object")
        return
    naming_columns(scope, path, query, query.object, {*FIXED_COLUMNS, LOYALTY, SLOPE})


def _check_reports(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    doc, at = scope.doc, (*path, "updates")
    if query.criteria is None and query.updates is None:
        if not doc.bad_below((*path, "criteria")) and not doc.bad_below(at):
            hint = "when is an object on? such as criteria: temp > 30, updates: a boolean column that says so, or of: another query"
            doc.add("SKY-E111", "a query of this type needs 'criteria', 'updates' or 'of'", doc.where_key(path), hint)
        return
    if query.criteria is not None and query.updates is not None:
        doc.add("SKY-E117", "an object is on by 'criteria' or by 'updates'", doc.where_key(at), "keep one of them")
        return
    if query.criteria is not None:
        scope.expression((*path, "criteria"), query.criteria, ROW_SIDES, "predicate")
    if query.updates is not None and scope.column(at, query.updates):
        type_ = scope.types[query.updates]
        if type_ is not None and type_ not in _SWITCHES:
            message = f"updates come from a boolean column, or one of 0 and 1; '{query.updates}' is {type_}"
            doc.add("SKY-E126", message, doc.where_value(at), "use criteria: a predicate, such as state = 'on'")


def _check_where(scope: Scope, at: Path, query: LoyaltyRows) -> None:
    if query.where is not None and not scope.doc.bad_below(at) and scope.reads_statistics(query.where, "predicate"):
        message = "which rows report is decided as rows are read, when they have no statistics yet"
        scope.doc.add("SKY-E117", message, scope.doc.where_value(at), "use statistics in 'criteria', which is null where they are")


def _check_held(scope: Scope, at: Path, query: LoyaltyRows) -> None:
    doc = scope.doc
    if query.held is None or not scope.column(at, query.held):
        return
    type_ = scope.types[query.held]
    if type_ is not None and type_ != "string":
        doc.add("SKY-E126", f"held switches are text; '{query.held}' is {type_}", doc.where_value(at), "a string column, which may be null")
    corrects = scope.job.has_deletions
    # With 'every' an object may stay in the result below the border, up to the boundary: what an edge holds back of it would be seen there.
    others = {
        "every": query.every is not None, "stale_after": query.stale_after is not None, "trace: all": query.trace == "all",
        "deleted or replaced rows": corrects,
    }  # fmt: skip
    for other in (name for name, given in others.items() if given):
        message = f"held switches cannot be used with {other}: an edge does not know them"
        doc.add("SKY-E117", message, doc.where_key(at), "leave one of them out")


def _check_window(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    doc, at = scope.doc, (*path, "window")
    if doc.bad_below(at) or doc.bad_below(("window",)):
        return
    if query.window is not None and at not in doc.places:
        if query.window.count is not None:
            message = f"the job's window counts rows, and loyalty is a share of time: query '{path[-1]}' needs a window of its own"
            doc.add("SKY-E117", message, doc.where_key(path), "for example window: {time: 1 day}")
        return
    own = query.window.count if query.window is not None else None
    if own is not None or scope.job.window.count is not None:
        where = doc.where_value((*at, "count")) if own is not None else doc.where_value(("window", "count"))
        whose = "" if own is not None else "the job's window counts rows, and "
        hint = "give the time alone" if own is not None else "give the job's window in time alone, or the query a job of its own"
        doc.add("SKY-E117", f"{whose}loyalty is a share of time: query '{path[-1]}' has no use for a window in rows", where, hint)


# Compile entries to operators: one for all with the same reports and window.
#
# Reports are the same by ``object``, ``criteria`` or ``updates``, ``where``, ``stale_after`` and ``held``.
#
# The state does not depend on ``k``, ``at_least``, ``every`` and ``trace`` of a query.

_WHY = "heaps of the objects in and out of each result, by how their loyalty moves"


@dataclass(frozen=True, slots=True)
class _Key:
    """The properties that queries must have in common to share a state."""

    objects: tuple[str, ...]
    criteria: str | None
    updates: str | None
    where: str | None
    stale_after: int | None
    held: str | None
    window: Window


def compile_loyalty(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Return drafts of ``Loyalty`` operators."""

    def key(m: QueryEntry) -> _Key:
        q = cast(LoyaltyRows, m.query)
        criteria, where = predicate_key(context, q.criteria), predicate_key(context, q.where)
        return _Key(q.objects, criteria, q.updates, where, q.stale_after, q.held, m.window)

    for _, group in share(entries, key):
        yield _draft(context, group)


def _draft(context: Context, group: tuple[QueryEntry, ...]) -> OperatorDraft:
    first = cast(LoyaltyRows, group[0].query)
    criteria, where = predicate(context, first.criteria), predicate(context, first.where)
    updates = None if first.updates is None else Column(first.updates, context.kinds[first.updates])

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.loyalty import Loyalty, LoyaltyQuery

        queries = tuple(LoyaltyQuery(getattr(m.query, "k", None), _least(m), m.query.every, _traces_all(m)) for m in group)
        operator = Loyalty(
            object=first.objects, criteria=criteria, updates=updates, where=where, stale_after=first.stale_after, window=group[0].window,
            queries=queries, texts=texts, deletes=context.deletes, held=first.held,
        )  # fmt: skip
        return cast(Operator, operator)

    largest = max((getattr(m.query, "k", 1) for m in group), default=1)
    reports = ReportNode(first.objects, first.updates, where)
    return OperatorDraft(
        group, largest, group[0].window, "max", texts_of(criteria, where), build, _WHY, skyband=False, reports=reports
    )  # fmt: skip


def _least(m: QueryEntry) -> int | None:
    """Return the bound of a query that has one."""
    least = getattr(m.query, "least", None)
    return None if least is None else least(m.window.micros)


def _traces_all(m: QueryEntry) -> bool:
    return cast(LoyaltyRows, m.query).trace == "all"


class LoyaltyType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``LoyaltyRows``."""

    takes_deletions = True
    family = "loyalty"
    durations = frozenset({"stale_after", "at_least"})
    shares = SHARES_STATE

    def item(self, query: Any) -> ItemShape:
        """Return the object, by the columns that name it."""
        return loyal_object(query.objects, query.trace == "all")

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """See ``check``."""
        check(scope, path, query)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_loyalty(context, entries)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what says when an object satisfies the criterion."""
        op: Any = node.inner
        updates = () if op.updates is None else (op.updates.name,)
        return (*node_columns(op.criteria), *updates, *(() if op.held is None else (op.held,)))

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return _facts(node, queries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return _size(plan)

    def limits(self, plan: Plan, query: QueryNode, asked: LogicalQuery | None) -> Limits:
        """Return ``k``, and a loyalty of at least ``at_least`` and at most the window."""
        operator: Any = plan.operators[query.operator].inner
        window = None if query.window.micros is None else query.window.micros / 1_000_000
        return Limits(query.k, ((LOYALTY, (operator.queries[query.index].at_least or 0) / 1_000_000, window),))

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.loyalty_rows.brute_force import most_loyal

        return most_loyal(question)

    def time_varying_values(self, question: Question) -> TimeVaryingValues:
        """See ``brute_force``."""
        from skyband.framework.queries.loyalty_rows.brute_force import time_varying_values

        return time_varying_values(question)

    def values_at(self, question: Question, items: Sequence[tuple[tuple[Any, ...], int]]) -> list[tuple[float, int]]:
        """See ``brute_force``."""
        from skyband.framework.queries.loyalty_rows.brute_force import values_at

        return values_at(question, items)

    def next_instants(self, question: Question) -> list[int]:
        """See ``brute_force``."""
        from skyband.framework.queries.loyalty_rows.brute_force import next_instants

        return next_instants(question)

    def ranked(self, question: Question) -> Found | None:
        """Return every object with loyalty or slope."""
        from skyband.framework.queries.loyalty_rows.brute_force import most_loyal

        return most_loyal(question, every=True)
