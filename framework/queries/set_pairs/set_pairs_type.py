"""What query types about pairs of sets have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import TOKENS, OperatorNode, QueryNode
from skyband.framework.queries.pair_rows.model import pair_of
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.spec.checks.scope import PAIR_SIDES

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


class SetPairsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``SetPairs``."""

    sides = PAIR_SIDES
    shares = "tokens, similarity, where and between"

    def item(self, query: Any) -> ItemShape:
        """Two rows, by age or by side."""
        return pair_of(query.between)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """Return the similarity, the condition and the sides."""
        op: Any = node.operator
        facts = [("similarity", f"{op.similarity} of {op.tokens.removeprefix(TOKENS)}")]
        facts += [("where", canonical_text(op.where))] if op.where is not None else []
        facts += [("between", f"{op.between.column}: {op.between.a!r} and {op.between.b!r}")] if op.between is not None else []
        return facts

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.set_pairs.brute_force import most_similar

        return most_similar(question)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.pair_rows.brute_force import item_scores
        from skyband.framework.queries.set_pairs.brute_force import comparing

        return item_scores(question, items, comparing(question))
