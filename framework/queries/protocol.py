"""The interface of a query type: a class, an instance of which is registered (see ``registry``).

Each type has a directory beside this file: ``model`` (the fields of its entry in a spec), ``compile`` (entries to operators),
``brute_force`` (the result by definition, for ``verify``), ``example.yaml`` and ``query_type``, which brings them together. Larger types
also have ``check`` and ``explain``. ``QueryType.item`` describes the items of its results; tables, ranks, SQL and replay derive from that.
Modules that need Arrow are imported inside methods, so that checking a spec stays fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from skyband.framework.base.items import SCORE, ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.models import QueryModel, QueryWindow
from skyband.framework.queries.read_columns import state_columns
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.history import History
    from skyband.framework.verify.brute_force.objects import Found, Objects, Work


ALL: Final = 1 << 40
"""A k larger than the number of items of any window."""


def _work() -> Work:
    from skyband.framework.verify.brute_force.objects import Work

    return Work()


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for the result of ``query`` after all events with time <= ``at`` (microseconds), over the accepted objects ``data`` of one key.

    ``logical_query`` is the row of a list of queries that is meant, for types that compile to logical queries. ``work`` limits the cost.
    """

    plan: Plan
    query: QueryNode
    data: Objects
    at: int
    logical_query: LogicalQuery | None = None
    work: Work = field(default_factory=_work)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that every result of a query keeps by its definition.

    ``most``: the number of items of one key at any instant (or of one arrival, for types without lasting results); None: any number.
    ``bounds``: (column, least, greatest) of the values with which an item enters, both included; None: no bound.
    ``most_of_row``: the number of items that contain the same row; None: any number. ``least_shown``: the least value of the only bound
    with which an item is written that has entered between two boundaries of ``every``; None: that of the bound.
    """

    most: int | None = None
    bounds: tuple[tuple[str, float | None, float | None], ...] = ()
    most_of_row: int | None = None
    least_shown: float | None = None


@dataclass(frozen=True, slots=True)
class TimeVaryingValues:
    """Time-varying values of items at one instant, by definition.

    ``values``: (value, slope) of every item that any row has reported on, in rank order. ``reported``: the items that a row of this
    instant reports on. ``switched``: whether the slope of any item changes at this instant.
    """

    values: Mapping[tuple[Any, ...], tuple[float, int]]
    reported: frozenset[tuple[Any, ...]]
    switched: bool


@dataclass(frozen=True, slots=True)
class Makeup:
    """The rows in the window that make up an item: ``rows``, how many; ``since``, the instant of the oldest; ``newest``, seqs of some.

    ``values``: the aggregates of the rows, by spelling, and what the item carries; None for null. ``columns``: those that they read.
    """

    rows: int
    since: int
    newest: tuple[int, ...]
    values: tuple[tuple[str, Any], ...]
    columns: tuple[str, ...]


FOLLOWING: Final = frozenset({"tumbling", "session"})
"""Kinds of windows for types whose operators are restarted in each window (``operators.per_window``), or know such windows."""
HOPPING: Final = frozenset({"hop"})
"""Windows as of their ends, for types whose queries may have boundaries."""


def closing(shape: ItemShape, window: QueryWindow | None) -> ItemShape:
    """Return the shape of items that make up a final result at the end of each window, if windows follow each other."""
    return replace(shape, closes=window is not None and window.follows)


class QueryType:
    """A type of query. A subclass sets ``name``, ``model`` and ``example``, and overrides methods; defaults may stay."""

    name: ClassVar[str]
    """The value of ``type:`` in a spec."""
    model: ClassVar[type[QueryModel]]
    """The fields of an entry of this type."""
    example: ClassVar[str]
    """A complete spec (YAML) with queries of this type. The contract suite tests the operators it compiles to."""
    sides: ClassVar[tuple[str, ...]] = ROW_SIDES
    """Prefixes of columns in its expressions: none (single rows), or ``a.`` and ``b.`` (``PAIR_SIDES``)."""
    takes_deletions: ClassVar[bool] = False
    """Whether it supports streams with deletions."""
    states_deletions: ClassVar[bool] = False
    """Whether the fingerprints of former versions say of its queries if rows may be deletions: those of other types did not know any."""
    windows: ClassVar[frozenset[str]] = frozenset()
    """The kinds of windows that it supports besides count and time: tumbling, hop, session."""
    forms_windows: ClassVar[bool] = False
    """Whether its operators know windows that follow each other. Those of other types are restarted in each (``operators.per_window``)."""
    own_k: ClassVar[str | None] = None
    """For a type without ``k`` whose state answers any window but only its own K: the field of a spec that holds this K."""
    shows_k: ClassVar[bool] = True
    """Whether ``explain`` shows K for its states."""
    family: ClassVar[str | None] = None
    """Types of one family may share a state: any of them compiles the entries of all. None: the type shares with no other."""
    durations: ClassVar[frozenset[str]] = frozenset()
    """Fields of its operator and of the operator's queries in microseconds. Messages about spec changes show them as durations."""
    has_history: ClassVar[bool] = False
    """Whether ``history`` returns every change."""
    shares: ClassVar[str] = "scoring, direction, where and between"
    """The fields that queries must have in common to share a state, as text for ``explain``."""

    def item(self, query: Any) -> ItemShape:
        """Return the shape of the items of a result of ``query`` (an instance of ``model``)."""
        raise NotImplementedError

    def parameters(self, scope: Scope, path: Path, query: Any) -> tuple[str, ...] | None:
        """Return the names besides columns that the entry's expressions may use, or None if unknown. Add mistakes to the document."""
        return ()

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """Add every mistake of the entry at ``path`` to the document, except those of its common fields."""
        raise NotImplementedError

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """Return drafts of operators that together hold every entry exactly once. Entries share a state where that is sound.

        Raises ValueError if an operator rejects its configuration.
        """
        raise NotImplementedError

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """Return (label, text) lines about a state for ``explain``, such as ("score", "x + y (max first)")."""
        return []

    def asks(self, query: QueryNode) -> list[str]:
        """Return further properties of a query for ``explain``, besides k, window, score bounds and ``every``."""
        return []

    def limits(self, plan: Plan, query: QueryNode, logical: LogicalQuery | None) -> Limits:
        """Return the bounds of the results of ``query``, or of one ``logical`` query of it.

        By default ``k``, ``min_score`` and ``max_score``.
        """
        most = query.k if logical is None else logical.k
        least, greatest = (query.min_score, query.max_score) if logical is None else logical.bounds
        return Limits(most, ((SCORE, least, greatest),) if query.item.scored else ())

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """Return lines about the expected size of a state for ``explain``; ``rate``: assumed rows per second and key."""
        return []

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return the stream's columns that the values of items are computed from, as ``read_columns`` names them.

        By default all that the state reads.
        """
        return state_columns(node)

    def deciding_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return the stream's columns that decide which items are in the result, and their rank. By default all that the state reads."""
        return state_columns(node)

    def brute_force(self, question: Question) -> Found | None:
        """Return the result by definition, or None if the window is too large for that."""
        raise NotImplementedError

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """Return the score by definition of each of ``items`` (their identity columns), NaN for items that the query does not admit.

        Return None for types whose items have no score, or one that depends on other rows.
        """
        return None

    def further_values(self, question: Question, items: Sequence[tuple[Any, ...]]) -> Mapping[str, list[float]]:
        """Return by definition the fixed values besides the score of each of ``items``, by column, NaN for null; by default none."""
        return {}

    def time_varying_values(self, question: Question) -> TimeVaryingValues | None:
        """Return the time-varying values at the question's instant, or None for types whose values are fixed."""
        return None

    def values_at(self, question: Question, items: Sequence[tuple[tuple[Any, ...], int]]) -> list[tuple[float, int]] | None:
        """Return the time-varying value and slope by definition of each (item, instant), or None for types whose values are fixed.

        An item that no row names has NaN.
        """
        return None

    def cause(self, question: Question, change: str, item: tuple[Any, ...], arriving: int | None) -> str | None:
        """Return the cause of a ``change`` (``+`` or ``-``) by definition, for items that are not rows; None if it is not checked.

        ``question`` asks for the result after an event; ``arriving``: the seq of the object that arrived in it.
        """
        return None

    def carried(self, question: Question, item: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return by definition what a change of ``item`` carries (``ItemShape.carried``), after the event that ``question`` asks for."""
        raise NotImplementedError

    def history(self, question: Question, late: Callable[[], bool]) -> History:
        """Return by definition every change of the key up to the question's instant, or as far as it got until it was ``late``.

        Only for types that have a faster way to that than ``brute_force`` at every event (``has_history``).
        """
        raise NotImplementedError

    def makeup(self, question: Question, item: tuple[Any, ...], most: int) -> Makeup | None:
        """Return the rows that make up ``item``, the ``most`` newest by seq; None for types whose items are rows, or not aggregates."""
        return None

    def next_instants(self, question: Question) -> list[int]:
        """Return the next instants after the question's at which a result of time-varying values may change, by definition."""
        return []

    def ranked(self, question: Question) -> Found | None:
        """Return all candidate items of the window in rank order: as ``brute_force``, without ``k`` and bounds of scores.

        Return None if the window is too large for that, or if the type has no rank (see ``beating``).
        """
        logical, query = question.logical_query, replace(question.query, k=ALL, min_score=None, max_score=None)
        if logical is not None:
            logical = replace(logical, k=None, bounds=(None,) * len(logical.bounds))
        return self.brute_force(replace(question, query=query, logical_query=logical))

    def beating(self, question: Question, item: tuple[Any, ...]) -> Found | None:
        """Return the items of the window that dominate ``item`` (its identity columns), for types without a rank.

        Return None for other types, or if the query does not admit ``item``.
        """
        return None

    def keeping_out(self, plan: Plan, query: QueryNode, item: tuple[Any, ...], better: Found) -> Found:
        """Return those of ``better`` that exclude ``item`` whatever its rank; ``better`` are the items of the result before it."""
        return []
