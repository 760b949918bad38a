"""The query type that all types about the loyalty of objects extend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode, ReportNode
from skyband.framework.plan.row_nodes import predicate, predicate_key, texts_of
from skyband.framework.queries.loyalty_rows import explain
from skyband.framework.queries.loyalty_rows.check import check
from skyband.framework.queries.loyalty_rows.model import LOYALTY, LoyaltyRows, loyal_object
from skyband.framework.queries.protocol import Limits, QueryType, Question, TimeVaryingValues
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Column, Operator, Window

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found

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
    shares = explain.SHARES_STATE

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
        op: Any = node.operator
        updates = () if op.updates is None else (op.updates.name,)
        return (*node_columns(op.criteria), *updates, *(() if op.held is None else (op.held,)))

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return explain.facts(node, queries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return explain.size(plan)

    def limits(self, plan: Plan, query: QueryNode, asked: LogicalQuery | None) -> Limits:
        """Return ``k``, and a loyalty of at least ``at_least`` and at most the window."""
        operator: Any = plan.operators[query.operator].operator
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
