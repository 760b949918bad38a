"""What a query type is to the framework: one small class, an instance of which is registered (see ``registry``).

A type has a room of its own, a directory beside this file: ``model`` (the fields of its entry in a spec), ``check`` (what is wrong with an
entry beyond its shape), ``compile`` (entries to operators), ``explain``, ``brute_force`` (the result by definition, for ``verify``),
``example.yaml`` and ``query_type``, where they come together. What its items are is said once, in ``item``: from it come tables, ranks, SQL
and replay.
Modules that need Arrow are imported where they are used: checking a spec stays light.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from skyband.framework.base.items import SCORE, ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.models import QueryModel
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found, Objects, Work


ALL: Final = 1 << 40
"""More than any window has items."""


def _work() -> Work:
    from skyband.framework.verify.brute_force.objects import Work

    return Work()


@dataclass(frozen=True, slots=True)
class Question:
    """The result of ``query`` after all events with time <= ``at`` (microseconds), over one key's accepted objects ``data``.

    ``asked`` is what one query of it asks, for types whose compiler says so. ``work``: what may be spent on it.
    """

    plan: Plan
    query: QueryNode
    data: Objects
    at: int
    asked: LogicalQuery | None = None
    work: Work = field(default_factory=_work)


@dataclass(frozen=True, slots=True)
class Limits:
    """What every result of a query keeps to, by its definition.

    ``most``: items of one key at any instant (of what is told once: of one arrival), None: any number. ``bounds``: (column, least,
    greatest) of the values with which an item enters, both included, None: no bound.
    """

    most: int | None = None
    bounds: tuple[tuple[str, float | None, float | None], ...] = ()
    most_of_row: int | None = None


@dataclass(frozen=True, slots=True)
class TimeVaryingValues:
    """What the definition says of items whose values move, at one instant.

    ``values``: (value, slope) of every item that has ever been reported on, in rank order. ``reported``: the items that a row of this
    instant reports on. ``switched``: whether a row, or time, starts or stops any item's growth or fall at this instant.
    """

    values: Mapping[tuple[Any, ...], tuple[float, int]]
    reported: frozenset[tuple[Any, ...]]
    switched: bool


class QueryType:
    """A type of query. A subclass sets ``name``, ``model`` and ``example`` and says the rest; what has a default here may stay."""

    name: ClassVar[str]
    """The word of ``type:`` in a spec."""
    model: ClassVar[type[QueryModel]]
    """The fields of an entry of this type."""
    example: ClassVar[str]
    """A whole spec with queries of this type (YAML); the contract suite runs the operators it compiles to."""
    sides: ClassVar[tuple[str, ...]] = ROW_SIDES
    """What columns stand behind in its expressions: nothing (single rows), or ``a.`` and ``b.`` (``PAIR_SIDES``)."""
    takes_deletions: ClassVar[bool] = False
    """Whether it works on streams whose rows can be deleted."""
    own_k: ClassVar[str | None] = None
    """For a type without ``k`` whose state answers any window, but only for its own K: what a spec calls that K."""
    shows_k: ClassVar[bool] = True
    """Whether K says anything about its state."""
    family: ClassVar[str | None] = None
    """Types of one family may share a state: any of them compiles the entries of all. Without one a type stands alone."""
    durations: ClassVar[frozenset[str]] = frozenset()
    """Fields of its operator, and of that one's queries, that are microseconds: differences to an earlier spec are told as durations."""
    shares: ClassVar[str] = "scoring, direction, where and between"
    """What queries that share a state have in common, in words."""

    def item(self, query: Any) -> ItemShape:
        """What an item of the result of ``query`` (an instance of ``model``) is."""
        raise NotImplementedError

    def parameters(self, scope: Scope, path: Path, query: Any) -> tuple[str, ...] | None:
        """Names besides the stream's columns that the entry's expressions may use; None if that cannot be known. Notes what is wrong."""
        return ()

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """Note everything that is wrong with the entry at ``path`` besides its common fields."""
        raise NotImplementedError

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """Drafts that together hold every entry exactly once: shares state among them where that is sound.

        Raises ValueError if an operator would refuse them.
        """
        raise NotImplementedError

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """For ``explain``: (label, text) lines about a state, such as ("score", "x + y (max first)")."""
        return []

    def asks(self, query: QueryNode) -> list[str]:
        """For ``explain``: what a query asks besides k, window, score bounds and ``every``."""
        return []

    def limits(self, plan: Plan, query: QueryNode, asked: LogicalQuery | None) -> Limits:
        """What bounds the results of ``query`` (of ``asked``, one query of it, for types whose compiler says what that is).

        By default its ``k``, and ``min_score`` and ``max_score``.
        """
        most = query.k if asked is None else asked.k
        least, greatest = (query.min_score, query.max_score) if asked is None else asked.bounds
        return Limits(most, ((SCORE, least, greatest),) if query.item.scored else ())

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """For ``explain``: lines about the expected size of a state; ``rate``: assumed rows a second of one key."""
        return []

    def brute_force(self, question: Question) -> Found | None:
        """The result by definition; None if its window is too large for that."""
        raise NotImplementedError

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """The score of each of ``items`` (their identity columns) by definition, NaN for one that the query does not admit.

        None for types whose items have no score that depends on their own rows alone.
        """
        return None

    def time_varying_values(self, question: Question) -> TimeVaryingValues | None:
        """What the values of items are and how they move at the question's instant; None for types whose values do not move."""
        return None

    def next_instants(self, question: Question) -> list[int]:
        """The next instants after the question's at which a result of values that move may change, by definition."""
        return []

    def ranked(self, question: Question) -> Found | None:
        """Every item of the window that could be in a result, in rank order: as ``brute_force``, without ``k`` and bounds of scores.

        None if its window is too large for that, or the type ranks nothing (``beating``).
        """
        asked = question.asked
        if asked is not None:
            asked = replace(asked, k=None, bounds=(None,) * len(asked.bounds))
        return self.brute_force(replace(question, query=replace(question.query, k=ALL, min_score=None, max_score=None), asked=asked))

    def beating(self, question: Question, item: tuple[Any, ...]) -> Found | None:
        """The items that beat ``item`` (its identity columns) in the window, for types whose results are no ranking; None for others,

        or if it takes no part.
        """
        return None

    def keeping_out(self, plan: Plan, query: QueryNode, item: tuple[Any, ...], better: Found) -> Found:
        """Of ``better``, the items of the result that rank before ``item``, those that keep it out however high it ranks."""
        return []
