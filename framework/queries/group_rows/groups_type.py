"""What query types about groups have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skyband.framework.base.items import SCORE, ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.group_rows import explain
from skyband.framework.queries.group_rows.check import check
from skyband.framework.queries.group_rows.model import scored_group
from skyband.framework.queries.protocol import Limits, Makeup, QueryType, Question
from skyband.framework.queries.read_columns import aggregate_columns, node_columns
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.history import History
    from skyband.framework.verify.brute_force.objects import Found


class GroupsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``GroupRows``."""

    takes_deletions = True
    states_deletions = True
    has_history = True
    family = "groups"
    shares = explain.SHARES_STATE
    windows = frozenset({"tumbling", "session"})

    def item(self, query: Any) -> ItemShape:
        """Return the group, by the columns that name it."""
        return scored_group(query.groups, query.carry, query.window is not None and query.window.tumbling is not None)

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """See ``check``."""
        check(scope, path, query)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        from skyband.framework.queries.group_rows.compile import compile_groups

        return compile_groups(context, entries)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what the aggregates of the score read."""
        operator: Any = node.operator
        return aggregate_columns(operator.score)

    def deciding_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what makes the groups, and what score and conditions read: not what only the tables carry."""
        op: Any = node.operator
        return tuple(dict.fromkeys([*op.group, *aggregate_columns(op.score, op.having), *node_columns(op.where)]))

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return explain.facts(node, queries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return explain.size(plan, node, rate)

    def limits(self, plan: Plan, query: QueryNode, logical: LogicalQuery | None) -> Limits:
        """Return ``k``, unless more groups may equal the k-th, and the next number to ``above``.

        A decimal above it may be rounded to it. With ``every``, a group that was above it between two boundaries is shown at the second
        one with what its score is then: at least ``below``.
        """
        operator: Any = plan.operators[query.operator].operator
        asked = operator.queries[query.index]
        least = asked.above
        if least is not None and operator.units is None:
            least = math.nextafter(least, math.inf)
        shown = asked.below if asked.every is not None else None
        return Limits(None if asked.ties else query.k, ((SCORE, least, None),), least_shown=shown)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import passing

        return passing(question)

    def cause(self, question: Question, change: str, item: tuple[Any, ...], arriving: int | None) -> str:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import cause

        return cause(question, change, item, arriving)

    def carried(self, question: Question, item: tuple[Any, ...]) -> tuple[Any, ...]:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import carried

        return carried(question, item)

    def history(self, question: Question, late: Callable[[], bool]) -> History:
        """See ``brute_force_changes``."""
        from skyband.framework.queries.group_rows.brute_force_changes import history

        return history(question, late)

    def makeup(self, question: Question, item: tuple[Any, ...], most: int) -> Makeup:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import makeup

        return makeup(question, item, most)

    def ranked(self, question: Question) -> Found | None:
        """Return every group that takes part."""
        from skyband.framework.queries.group_rows.brute_force import passing

        return passing(question, every=True)
