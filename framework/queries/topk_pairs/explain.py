"""What ``explain`` says about a state of pairs."""

from __future__ import annotations

import math
from typing import Any, cast

from skyband.framework.base.counts import counted
from skyband.framework.plan.explain_parts import assumed_rows, format_bytes, per_key, state_size
from skyband.framework.plan.model import OperatorNode, Plan
from skyband.framework.queries.scored_pairs.scored_pairs_type import facts_of_scored_pairs
from skyband.operators.pair_rows.capped.limits import limits_of
from skyband.operators.topk_pairs.configuration import MOST, SPARE


def facts(node: OperatorNode) -> list[tuple[str, str]]:
    """What all pairs with a score have, and the cap."""
    cap = cap_of(node.operator)
    at_most = [("at most", f"{counted(cap, 'pair')} of a result with the same row")] if cap is not None else []
    return facts_of_scored_pairs(node) + at_most


def cap_of(op: Any) -> int | None:
    """The pairs of a result that one row may be in, of an operator of this type; None: any number."""
    cap: int | None = getattr(op, "max_per_object", None)
    return cap


def skyband_size(k: int, n: float) -> float:
    """Expected pairs of a K-skyband over N rows when scores do not depend on age.

    K + 2K ln(N / sqrt(2K)) (docs/algorithms D2), at most all pairs.
    """
    every = n * (n - 1) / 2
    return min(every, k + 2 * k * max(0.0, math.log(n / math.sqrt(2 * k)))) if n >= 2 else 0.0


def size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """The expected size of the state."""
    rows = assumed_rows(node.window, rate)
    cap, op = cap_of(node.operator), cast(Any, node.operator)
    if op.deletes:
        return _size_with_deletions(plan, node, rows)
    if cap is not None:
        most = limits_of(cap, node.k).chosen
        said = f"pairs = 3 (M + 2M ln(N / sqrt(2M))), M = {most:,}; more where few rows make the best pairs"
        return state_size(plan, node, rate, 3 * skyband_size(most, rows), 40, said)
    return state_size(plan, node, rate, skyband_size(node.k, rows), 40, "pairs = K + 2K ln(N / sqrt(2K))")


def _size_with_deletions(plan: Plan, node: OperatorNode, rows: float) -> list[str]:
    """The size of the state where rows can be deleted, and what a row costs."""
    op: Any = node.operator
    windows, least = len({q.window.within(op.window) for q in op.queries}), (1 + SPARE[0]) * node.k + SPARE[1]
    most = MOST * least
    size = windows * (24 * min(most, rows * (rows - 1) / 2) + 16 * rows) + 16 * rows
    said = f"the best alive pairs ({least:,} to {most:,}) of {counted(windows, 'window')}, and a bound for every row"
    return [
        f"    pairs     {said}; {format_bytes(size)} at N = {counted(round(rows), 'row')}{per_key(plan)}",
        "    price     a row costs 3 to 5 times as much as without deletes (with a cap, up to twice); a deletion costs little",
    ]
