"""What ``explain`` says about the size of a state."""

from __future__ import annotations

import math

from skyband.framework.plan.explain_parts import assumed_rows, state_size
from skyband.framework.plan.model import OperatorNode, Plan


def skyband_size(k: int, n: float) -> float:
    """Expected rows of a K-skyband over N rows when scores do not depend on age: K(1 + ln(N/K)) (docs/algorithms D1), at most N."""
    return min(n, k * (1 + math.log(n / k))) if n > k else n


def size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """The expected size of the state."""
    if not node.skyband:
        return []
    return state_size(plan, node, rate, skyband_size(node.k, assumed_rows(node.window, rate)), 32, "rows = K (1 + ln(N / K))")
