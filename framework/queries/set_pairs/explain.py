"""What ``explain`` says about a state of similar sets."""

from __future__ import annotations

from typing import Any, Final

from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import TOKENS, OperatorNode

SHARES_STATE: Final = "tokens, similarity, where and between"
"""What queries that share a state have in common."""


def facts(node: OperatorNode) -> list[tuple[str, str]]:
    """The similarity, the condition and the sides."""
    op: Any = node.operator
    told = [("similarity", f"{op.similarity} of {op.tokens.removeprefix(TOKENS)}")]
    told += [("where", canonical_text(op.where))] if op.where is not None else []
    told += [("between", f"{op.between.column}: {op.between.a!r} and {op.between.b!r}")] if op.between is not None else []
    return told
