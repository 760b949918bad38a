"""The inputs of query type compilers: queries, fields, and operator drafts, which are built after all text constants are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from skyband.framework.base.units import Months
from skyband.framework.plan.model import Field, LogicalQuery, ReportNode
from skyband.framework.queries.models import QueryModel, QueryWindow
from skyband.framework.spec.expressions.scoring import scoring_text
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.scoring import LinearScoring, Scoring, WindowSpec
from skyband.operators.base import Calendar, Kind, Operator, Window
from skyband.operators.calendar import of_months
from skyband.operators.expressions.ast import Node
from skyband.operators.expressions.vectors import AttributeKind, Vector

if TYPE_CHECKING:
    from skyband.operators.single_rows.scores import Linear


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """A query of the job: its place in the spec, name, model, and its window with the job's filled in."""

    position: int
    name: str
    query: QueryModel
    window: Window


@dataclass(frozen=True, slots=True)
class OperatorDraft:
    """A draft of an operator: everything but the numbering of text constants.

    ``build(texts)`` makes the operator; its queries are ``members`` in this order, or those of the one member's table (``table``).
    ``why`` is a line for ``explain``; ``asked`` says in full what each member asks, where brute force can answer that. ``reports``: what
    rows must be to report on an object, where others are to be rejected.
    """

    members: tuple[QueryEntry, ...]
    k: int
    window: Window
    direction: Literal["min", "max"]
    texts: tuple[str, ...]
    build: Callable[[tuple[str, ...]], Operator]
    why: str
    skyband: bool = True
    asked: tuple[tuple[LogicalQuery, ...], ...] = ()
    table: bool = False
    reports: ReportNode | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The job and its columns. ``kinds``: those of columns and, with their prefix, of sets of tokens."""

    job: Job
    fields: tuple[Field, ...]
    kinds: Mapping[str, Kind] = field(default_factory=dict)

    @property
    def pair_kinds(self) -> dict[str, AttributeKind]:
        """Return what expressions over pairs may take columns for: as ``kinds``, and vectors."""
        return {**self.kinds, **{name: Vector(dimension) for name, dimension in self.job.vectors.items()}}

    @property
    def deletes(self) -> bool:
        """Return True if objects may be deleted."""
        return self.job.has_deletions

    def scoring(self, name: str) -> Scoring:
        """The scoring function called ``name``."""
        return self.job.scoring[name]


def job_window(window: WindowSpec) -> Window:
    """Return the job's window as operators use it."""
    return Window(window.count, window.time)


def query_window(job: Window, own: QueryWindow | None) -> Window:
    """A query's window: objects leave it when they leave its own or the job's, so a kind it does not name is the job's."""
    return job if own is None else own_window(own).within(job)


def own_window(own: QueryWindow) -> Window:
    """Return what a query says of its window."""
    calendar = None if own.tumbling is None else calendar_of(own.tumbling, own.zone, own.offset)
    if own.hop is not None:
        return Window(None, own.hop.size, hopping=True)
    return Window(own.count, own.time, calendar, own.session)


def calendar_of(length: int | Months, zone: str | None, offset: int | None = None) -> Calendar:
    """Return the calendar of tumbling windows."""
    if isinstance(length, Months):
        return of_months(length.count, zone or "UTC", offset or 0)
    return Calendar(length, zone or "UTC", offset or 0)


def share(members: Iterable[QueryEntry], key: Callable[[QueryEntry], Any]) -> list[tuple[Any, tuple[QueryEntry, ...]]]:
    """Members by equal ``key``, groups and members in the order of the spec."""
    groups: dict[Any, list[QueryEntry]] = {}
    for m in members:
        groups.setdefault(key(m), []).append(m)
    return [(k, tuple(ms)) for k, ms in groups.items()]


# Shared parts of the compilers of query types over single rows: scores, predicates, text constants, sharing of states.
#
# Candidates are what scoring (or dimensions), direction and ``where`` leave. Queries of equal candidates share one operator.

_ROW: Final = ("",)


def score(context: Context, name: str, more: Mapping[str, Kind] | None = None) -> Node | Linear:
    """The scoring function called ``name``; ``more`` are names it may use besides the columns."""
    from skyband.operators.expressions.parser import parse

    scoring = context.scoring(name)
    if isinstance(scoring, LinearScoring):
        return linear(context, scoring.linear)
    return parse(scoring_text(scoring), {**context.kinds, **(more or {})}, _ROW, "score")


def linear(context: Context, weights: Mapping[str, float]) -> Linear:
    """A weighted sum of columns."""
    from skyband.operators.single_rows.scores import Linear

    return Linear(tuple(weights.items()), frozenset(c for c in weights if context.kinds[c] == "int"))


def score_key(context: Context, name: str) -> Any:
    """Equal for equal functions."""
    from skyband.operators.expressions.canonical import canonical

    scoring = context.scoring(name)
    if isinstance(scoring, LinearScoring):
        return tuple(scoring.linear.items())
    found: Any = score(context, name)
    return canonical(found)


def predicate(context: Context, text: str | None, more: Mapping[str, Kind] | None = None) -> Node | None:
    """A ``where``."""
    from skyband.operators.expressions.parser import parse

    return None if text is None else parse(text, {**context.kinds, **(more or {})}, _ROW, "predicate")


def predicate_key(context: Context, text: str | None) -> str | None:
    """Equal for equal predicates."""
    from skyband.operators.expressions.canonical import canonical

    where = predicate(context, text)
    return None if where is None else canonical(where)


def texts_of(*nodes: Node | Linear | None) -> tuple[str, ...]:
    """The text constants of expressions."""
    from skyband.operators.expressions.canonical import text_constants

    return tuple(t for n in nodes if isinstance(n, Node) for t in text_constants(n))
