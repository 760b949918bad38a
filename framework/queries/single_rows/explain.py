"""What ``explain`` says about states over scored single rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.operators.single_rows.scores import Linear


def facts(node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
    """The score and the condition of a state."""
    mixed = any(q.turned for q in queries)
    where = getattr(node.operator, "where", None)
    shown = [("score", f"{_score(queries)} ({'min or max, as each says,' if mixed else node.direction} first)")]
    return shown if where is None or isinstance(where, tuple) else [*shown, ("where", canonical_text(where))]


def _score(queries: Sequence[QueryNode]) -> str:
    """The function of a state; of a list of linear functions, the columns they weight."""
    functions: list[Any] = list(dict.fromkeys(a.scoring for q in queries for a in q.asked))
    if len(functions) > 1:
        return f"{len(functions):,} different linear functions of {', '.join(c for c, _ in functions[0].weights)}"
    (f,) = functions
    return " + ".join(f"{w:g} * {c}" for c, w in f.weights) if isinstance(f, Linear) else canonical_text(f)
