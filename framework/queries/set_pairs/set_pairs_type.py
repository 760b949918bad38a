"""What query types about pairs of sets have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.items import ItemShape
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.pair_rows.model import check_between, check_room, pair_of
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import TOKENS
from skyband.operators.set_index.functions import AT_MOST_ONE, DISTANCES

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


def check_set_pairs(scope: Scope, path: Path, query: Any) -> None:
    """Check the sets, the bound and the sides, and that the window has room for a pair."""
    _check_tokens(scope, (*path, "tokens"), query.tokens)
    if not scope.doc.bad((*path, "similarity")):
        _check_bound(scope, path, query)
    too_large = query.min_score is not None and query.min_score > 1 and query.similarity in AT_MOST_ONE
    if too_large and not scope.doc.bad((*path, "min_score")):
        said = f"no {query.similarity} similarity is larger than 1"
        scope.doc.add("SKY-E114", said, scope.doc.where_value((*path, "min_score")))
    if query.between is not None:
        check_between(scope, (*path, "between"), query.between)
    check_room(scope, path, query)


def facts_of_set_pairs(node: OperatorNode) -> list[tuple[str, str]]:
    """Return the similarity, the condition and the sides, for ``explain``."""
    op: Any = node.operator
    facts = [("similarity", f"{op.similarity} of {op.tokens.removeprefix(TOKENS)}")]
    facts += [("where", canonical_text(op.where))] if op.where is not None else []
    facts += [("between", f"{op.between.column}: {op.between.a!r} and {op.between.b!r}")] if op.between is not None else []
    return facts


class SetPairsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``SetPairs``."""

    sides = PAIR_SIDES
    shares = "tokens, similarity, where and between"
    takes_deletions = True

    def item(self, query: Any) -> ItemShape:
        """Two rows, by age or by side."""
        return pair_of(query.between)

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """See ``check_set_pairs``."""
        check_set_pairs(scope, path, query)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return the sets."""
        operator: Any = node.operator
        return (operator.tokens,)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``facts_of_set_pairs``."""
        return facts_of_set_pairs(node)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.set_pairs.brute_force import most_similar

        return most_similar(question)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.pair_rows.brute_force import item_scores
        from skyband.framework.queries.set_pairs.brute_force import comparing

        return item_scores(question, items, comparing(question))


def _check_bound(s: Scope, path: Path, query: Any) -> None:
    wrong, right = ("min_score", "max_score") if query.similarity in DISTANCES else ("max_score", "min_score")
    if getattr(query, wrong) is not None and not s.doc.bad((*path, wrong)):
        kind = "a distance: the smallest rank first" if query.similarity in DISTANCES else "a similarity: the largest rank first"
        said = f"{query.similarity} is {kind}, {wrong} does not bound it"
        s.doc.add("SKY-E117", said, s.doc.where_key((*path, wrong)), f"use {right}")


def _check_tokens(s: Scope, at: Path, name: str) -> None:
    named = s.doc.data.get("tokens")
    known = [str(n) for n in named] if isinstance(named, dict) else list(s.job.tokens)
    if name in known or s.doc.bad(at) or s.doc.bad(("tokens",)):
        return
    hint = did_you_mean(name, known) or (f"sets: {one_of(known)}" if known else f"add it: tokens: {{{name}: {{column: ...}}}}")
    s.doc.add("SKY-E127", f"no sets called '{name}' under 'tokens:'", s.doc.where_value(at), hint)
