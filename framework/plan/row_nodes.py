"""Shared parts of the compilers of query types over single rows: scores, predicates, text constants, sharing of states.

Candidates are what scoring (or dimensions), direction and ``where`` leave. Queries of equal candidates share one operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.plan.drafts import Context
from skyband.framework.spec.expressions.scoring import scoring_text
from skyband.framework.spec.models.scoring import LinearScoring
from skyband.operators.base import Kind
from skyband.operators.expressions.ast import Node

if TYPE_CHECKING:
    from skyband.operators.single_rows.scores import Linear

_ROW: Final = ("",)


def score(context: Context, name: str, more: Mapping[str, Kind] | None = None) -> Node | Linear:
    """The scoring function called ``name``; ``more`` are names it may use besides the columns."""
    from skyband.operators.expressions.parser import parse

    scoring = context.scoring(name)
    if isinstance(scoring, LinearScoring):
        return linear(context, scoring.linear)
    return parse(scoring_text(scoring), {**context.kinds, **(more or {})}, _ROW, "score")


def linear(context: Context, weights: Mapping[str, float]) -> Linear:
    """A weighted sum of columns."""
    from skyband.operators.single_rows.scores import Linear

    return Linear(tuple(weights.items()), frozenset(c for c in weights if context.kinds[c] == "int"))


def score_key(context: Context, name: str) -> Any:
    """Equal for equal functions."""
    from skyband.operators.expressions.canonical import canonical

    scoring = context.scoring(name)
    if isinstance(scoring, LinearScoring):
        return tuple(scoring.linear.items())
    found: Any = score(context, name)
    return canonical(found)


def predicate(context: Context, text: str | None, more: Mapping[str, Kind] | None = None) -> Node | None:
    """A ``where``."""
    from skyband.operators.expressions.parser import parse

    return None if text is None else parse(text, {**context.kinds, **(more or {})}, _ROW, "predicate")


def predicate_key(context: Context, text: str | None) -> str | None:
    """Equal for equal predicates."""
    from skyband.operators.expressions.canonical import canonical

    where = predicate(context, text)
    return None if where is None else canonical(where)


def texts_of(*nodes: Node | Linear | None) -> tuple[str, ...]:
    """The text constants of expressions."""
    from skyband.operators.expressions.canonical import text_constants

    return tuple(t for n in nodes if isinstance(n, Node) for t in text_constants(n))
