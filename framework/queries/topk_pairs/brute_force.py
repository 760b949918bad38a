"""The result by definition: every pair of the window scored."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from skyband.framework.queries.pair_rows.brute_force import by_age, partners
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.topk_pairs.explain import cap_of
from skyband.framework.verify.expressions import holds, score_of
from skyband.framework.verify.objects import Found


def best_pairs(question: Question) -> Found | None:
    """The k best pairs as (items in the order of the query's roles, score), in rank order. O(window squared); None if that is too much.

    With a cap per object those that a walk through the ranking takes; more and more of it is looked at until the walk ends.
    """
    k, cap = question.query.k, cap_of(question.plan.operators[question.query.operator].operator)
    assert k is not None
    if cap is None:
        return first_pairs(question, k)
    count = 4 * k
    while True:
        found = first_pairs(question, count)
        if found is None:
            return None
        result = taken(found, k, cap)
        if len(result) == k or len(found) < count:
            return result
        count *= 4


def taken(ranked: Found, k: int, cap: int) -> Found:
    """The first k of pairs in rank order, passing over those with an object that is in ``cap`` pairs taken before."""
    result: Found = []
    pairs_of: Counter[int] = Counter()
    for item, score in ranked:
        if len(result) == k:
            break
        if all(pairs_of[seq] < cap for seq in item):
            pairs_of.update(item)
            result.append((item, score))
    return result


def first_pairs(question: Question, count: int) -> Found | None:
    """As ``best_pairs``: the first ``count`` pairs, whatever the cap."""
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
        if len(best) == count:
            good &= sign * scores <= best[-1][0]
        for seq, found in zip(x.seqs[good].tolist(), scores[good].tolist(), strict=True):
            item = (seq, x.seq)
            best.add((sign * found, *by_age(item), item, found))
        del best[count:]
    return [(item, found) for *_, item, found in best]
