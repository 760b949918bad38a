"""The two forms of an entry and of its operator: by the similarity of sets of tokens, or by a score."""

from __future__ import annotations

from skyband.framework.plan.model import OperatorNode


def of_sets(node: OperatorNode) -> bool:
    """Return True if the operator matches sets of tokens."""
    return hasattr(node.operator, "similarity")
