"""The query type that all types about the loyalty of objects extend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.loyalty_rows import explain
from skyband.framework.queries.loyalty_rows.check import check
from skyband.framework.queries.loyalty_rows.compile import compile_loyalty
from skyband.framework.queries.loyalty_rows.model import LOYALTY, loyal_object
from skyband.framework.queries.protocol import Limits, QueryType, Question, TimeVaryingValues
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


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
