"""The result by definition: every pair of the window scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.pair_rows.brute_force import side_of
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.objects import MAX_PAIRS, Found, window_of
from skyband.operators.expressions import compile_pair, matrix

I64 = npt.NDArray[np.int64]


def best_pairs(question: Question) -> Found | None:
    """The k best pairs as (items in the order of the query's roles, score), in rank order. O(window squared); None beyond MAX_PAIRS."""
    plan, query, data = question.plan, question.query, question.data
    op: Any = plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, question.at)
    if (end - first) ** 2 > 2 * MAX_PAIRS:
        return None
    negate = query.direction == "max"
    texts = {t: i for i, t in enumerate(plan.texts)}
    kernel = compile_pair(op.scoring, op.where, negate, texts)
    fcols = np.ascontiguousarray(matrix(data.columns, kernel.float_names, np.float64, len(data.time)))
    icols = np.ascontiguousarray(matrix(data.columns, kernel.int_names, np.int64, len(data.time)))
    side = side_of(op, data, texts)
    limit = _limit(query, negate)
    best: list[tuple[float, int, int, tuple[int, int]]] = []
    worst = np.inf
    out = np.empty(max(end - first, 1))
    for x in range(first, end):
        # ``x`` is b. Without sides a is every older object; with sides, every object of side a.
        hi = x if side is None else end
        if hi <= first or (side is not None and side[x] != 2):
            continue
        kernel.score_block(fcols, icols, first, hi, fcols[:, x].copy(), icols[:, x].copy(), out)
        scores = out[: hi - first]
        if side is not None:
            scores = np.where(side[first:hi] == 1, scores, np.nan)
        hits = np.nonzero(scores <= min(worst, limit))[0]
        for j in hits.tolist():
            a = first + j
            older, newer = min(a, x), max(a, x)
            best.append((float(scores[j]), -older, -newer, (a, x)))
        if len(best) > 4 * (query.k or 1) + 1000:
            best = sorted(best)[: query.k]
            worst = best[-1][0]
    return [(items, -score + 0.0 if negate else score) for score, _, _, items in sorted(best)[: query.k]]


def _limit(query: QueryNode, negate: bool) -> float:
    bound = query.min_score if negate else query.max_score
    if bound is None:
        return float("inf")
    return -bound if negate else bound
