"""What query types about scored single rows have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyband.framework.base.counts import number_text
from skyband.framework.base.items import ROW, SCORE_VALUE, ItemShape, by_score
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.protocol import QueryType
from skyband.framework.queries.read_columns import scoring_columns
from skyband.framework.queries.single_rows.list_check import list_parameters
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path


class SingleRowsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``ScoredRows``."""

    takes_deletions = True

    def item(self, query: Any) -> ItemShape:
        """One row."""
        return ItemShape(ROW, by_score(ROW), (SCORE_VALUE,))

    def parameters(self, scope: Scope, path: Path, query: Any) -> tuple[str, ...] | None:
        """Those of a list of queries."""
        return list_parameters(scope, path, query)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what scores are computed from."""
        return scoring_columns(*query.asked)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """Return the score and the condition of a state."""
        mixed = any(q.turned for q in queries)
        where = getattr(node.operator, "where", None)
        facts = [("score", f"{_score(queries)} ({'min or max, as each says,' if mixed else node.direction} first)")]
        return facts if where is None or isinstance(where, tuple) else [*facts, ("where", canonical_text(where))]


def _score(queries: Sequence[QueryNode]) -> str:
    """Return the function of a state; of a list of linear functions, the columns they weight."""
    from skyband.operators.single_rows.scores import Linear

    functions: list[Any] = list(dict.fromkeys(a.scoring for q in queries for a in q.asked))
    if len(functions) > 1:
        return f"{len(functions):,} different linear functions of {', '.join(c for c, _ in functions[0].weights)}"
    (f,) = functions
    return " + ".join(f"{number_text(w)} * {c}" for c, w in f.weights) if isinstance(f, Linear) else canonical_text(f)
