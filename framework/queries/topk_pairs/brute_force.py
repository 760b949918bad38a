"""The result by definition: every pair of the window scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from sortedcontainers import SortedList

from skyband.framework.queries.pair_rows.brute_force import by_age, partners
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.expressions import holds, score_of
from skyband.framework.verify.objects import Found


def best_pairs(question: Question) -> Found | None:
    """The k best pairs as (items in the order of the query's roles, score), in rank order. O(window squared); None if that is too much."""
    query = question.query
    op: Any = question.plan.operators[query.operator].operator
    every = partners(question)
    if every is None:
        return None
    score, admitted, sign = score_of(op.scoring), holds(op.where), -1.0 if query.direction == "max" else 1.0
    least = float("-inf") if query.min_score is None else query.min_score
    most = float("inf") if query.max_score is None else query.max_score
    best = SortedList()
    for x in every:
        scores = np.broadcast_to(score(x.a, x.b), len(x.seqs))
        good = (scores >= least) & (scores <= most) & admitted(x.a, x.b)
        if len(best) == query.k:
            good &= sign * scores <= best[-1][0]
        for seq, found in zip(x.seqs[good].tolist(), scores[good].tolist(), strict=True):
            item = (seq, x.seq)
            best.add((sign * found, *by_age(item), item, found))
        del best[query.k :]
    return [(item, found) for *_, item, found in best]
