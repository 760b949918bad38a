"""The lines of ``explain`` about a state: the compared columns, and how many rows it keeps."""

from __future__ import annotations

import math
from typing import Any

from skyband.framework.base.counts import counted, number_text
from skyband.framework.plan.explain_parts import assumed_rows, assuming, canonical_text, format_bytes, per_key, window_rows
from skyband.framework.plan.model import OperatorNode, Plan


def facts(node: OperatorNode) -> list[tuple[str, str]]:
    """Return the condition, the dimensions, their levels, the score, and the sizes with the weights."""
    op: Any = node.operator
    found = [("where", canonical_text(op.where))] if op.where is not None else []
    found.append(("compares", _dimensions(op)))
    if op.levels is not None:
        found.append(("prefers", _levels(op)))
    scoring = getattr(op, "scoring", None)
    if scoring is not None:
        found.append(("ranks", f"the rows of the result by {_score(scoring)} ({node.direction} first)"))
    if hasattr(op, "sizes"):
        sizes = "; ".join(f"{q.name}: at most {counted(q.size, 'row')}" for q in op.queries)
        found.append(("sizes", f"{sizes}; those that stay among the best for weights closest to {_weights(op)}"))
    return found


def _weights(op: Any) -> str:
    return ", ".join(f"{d.column.name} {number_text(w)}" for w, d in zip(op.weights, op.dimensions, strict=True))


def _levels(op: Any) -> str:
    names, levels = [d.column.name for d in op.dimensions], []
    for size in op.levels:
        levels.append(", ".join(names[:size]))
        names = names[size:]
    return f"{'; then '.join(levels)}: the first of these in which two rows differ decides"


def _score(scoring: Any) -> str:
    weights = getattr(scoring, "weights", None)
    return canonical_text(scoring) if weights is None else " + ".join(f"{number_text(w)} * {c}" for c, w in weights)


def _dimensions(op: Any) -> str:
    ordered = [f"{d.column.name} {d.direction}" for d in op.dimensions if d.direction != "equal"]
    equal = [d.column.name for d in op.dimensions if d.direction == "equal"]
    text = ", ".join(ordered) + (f"; only within equal {', '.join(equal)}" if equal else "")
    beaten = "no row of the window beats it" if op.band == 1 else f"fewer than {counted(op.band, 'row')} of the window beat it"
    return f"{text}; in the result if {beaten}" + ("; a newer equal row beats an older" if op.distinct else "")


def skyline_size(k: int, n: float, d: int) -> float:
    """Return the expected rows of a K-skyband with ``d`` ordered dimensions over N rows, if dimensions and age are independent.

    Those with fewer than K newer dominators: the K-skyband in d + 1 dimensions, at most N. For K = 1 its mean is the complete homogeneous
    symmetric polynomial h_d of 1, 1/2, ..., 1/N, leading term ln(N)^d / d! (docs/algorithms D4; measured 1.2 to 1.6 times that
    term, which h_d is); for larger K about K times that of N / K.
    """
    if n <= k:
        return n
    # Power sums of the harmonic terms: H_N for i = 1, zeta(i) above; Newton's identity i h_i = sum of p_j h_(i-j).
    powers = [math.log(n / k) + 0.5772156649] + [1.0 + 2.0**-i + sum(j**-i for j in range(3, 50)) for i in map(float, range(2, d + 1))]
    h = [1.0]
    for i in range(1, d + 1):
        h.append(sum(powers[j - 1] * h[i - j] for j in range(1, i + 1)) / i)
    return min(n, k * h[d])


def size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """Return the lines about the kept rows; rows in groups of equal values keep as much per group, of fewer rows each."""
    op: Any = node.operator
    if op.keeps == "window":
        return _with_deletions(plan, node, rate)
    d = op.ordered if op.levels is None else op.levels[0]
    known, n = window_rows(node.window, rate), assumed_rows(node.window, rate)
    kept = skyline_size(node.k, n, d)
    bytes_ = kept * 8 * (4 + node.k + len(op.dimensions) + _columns_of_scores(op))
    power = "ln(N)" if node.k == 1 else "ln(N / K)"
    factorial = f"^{d} / {d}!" if d > 1 else ""
    formula = f"rows, leading term {'' if node.k == 1 else 'K '}{power}{factorial}"
    at = (
        f"depends on the rate; at N = {counted(round(n), 'row')} about {kept:,.0f} {formula}"
        if known is None
        else f"about {kept:,.0f} {formula}, N = {counted(round(n), 'row')}{per_key(plan)}{assuming(node.window, rate)}"
    )
    groups = " and of one group of equal values" if any(x.direction == "equal" for x in op.dimensions) else ""
    return [
        f"    skyband   {at}; {format_bytes(bytes_)}",
        f"              (if dimensions are independent{groups}; fewer if they agree, more if they conflict)",
    ]


def _columns_of_scores(op: Any) -> int:
    """Return how many numbers a row takes besides: seq and score, or its values, and the same again as a member."""
    if hasattr(op, "sizes"):
        return 2 + 2 * len(op.dimensions)
    return 4 if hasattr(op, "scoring") else 0


def _with_deletions(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """Return the lines about the price of deletions: which rows are kept, and which work is done (figures in docs/algorithms D4)."""
    op: Any = node.operator
    known, n = window_rows(node.window, rate), assumed_rows(node.window, rate)
    bytes_ = n * 8 * (3 + node.k + len(op.dimensions) + _columns_of_scores(op))
    rows = f"{counted(round(n), 'row')}{per_key(plan)}{assuming(node.window, rate)}"
    at = f"depends on the rate; at N = {rows}" if known is None else f"N = {rows}"
    beating = "a row that beats it" if node.k == 1 else f"up to {counted(node.k, 'row')} that beat it"
    return [
        f"    price     of deletions: every row of the window with {beating}, {at}: {format_bytes(bytes_)}",
        "              a row that goes is replaced wherever it kept others out: some 15 times the operator's time per row",
    ]
