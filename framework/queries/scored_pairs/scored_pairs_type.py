"""What query types about pairs of rows with a score have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.checks import bounds_in_order, uses_scoring
from skyband.framework.queries.pair_rows.model import check_between, check_room, pair_of
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.parsing.document import Path


def check_scored_pairs(scope: Scope, path: Path, query: Any) -> None:
    """Check the scoring function, bounds and sides, and that the window has room for a pair."""
    uses_scoring(scope, path, query, query.scoring, PAIR_SIDES)
    bounds_in_order(scope, path, query.min_score, query.max_score)
    if query.between is not None:
        check_between(scope, (*path, "between"), query.between)
    check_room(scope, path, query)


def facts_of_scored_pairs(node: OperatorNode) -> list[tuple[str, str]]:
    """Return the score, the condition, the sides, and whether bounds exclude partners, for ``explain``."""
    op: Any = node.operator
    shown = [("score", f"{canonical_text(op.scoring)} ({node.direction} first)")]
    shown += [("where", canonical_text(op.where))] if op.where is not None else []
    shown += [("between", f"{op.between.column}: {op.between.a!r} and {op.between.b!r}")] if op.between is not None else []
    skips = "yes: groups of rows of a large window whose scores cannot matter are skipped (zone maps)"
    return [*shown, ("bounds", skips if op.has_bounds else "none: every partner in the window is scored")]


class ScoredPairsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``ScoredPairs``."""

    sides = PAIR_SIDES

    def item(self, query: Any) -> ItemShape:
        """Two rows, by age or by side."""
        return pair_of(query.between)

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """See ``check_scored_pairs``."""
        check_scored_pairs(scope, path, query)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what scores are computed from."""
        operator: Any = node.operator
        return node_columns(operator.scoring)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``facts_of_scored_pairs``."""
        return facts_of_scored_pairs(node)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.pair_rows.brute_force import item_scores
        from skyband.framework.queries.scored_pairs.brute_force import comparing

        return item_scores(question, items, comparing(question))
