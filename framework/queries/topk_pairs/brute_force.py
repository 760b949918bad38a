"""The result by definition: every pair of the window scored."""

from __future__ import annotations

from collections import Counter

from skyband.framework.queries.pair_rows import brute_force as pairs
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.scored_pairs.brute_force import comparing
from skyband.framework.verify.brute_force.objects import Found


def best_pairs(question: Question, cap: int | None) -> Found | None:
    """The k best pairs as (items in the order of the query's roles, score), in rank order. None if that is too much.

    With a ``cap`` per object those that a walk through the ranking takes; more and more of it is looked at until the walk ends.
    """
    k = question.query.k
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
    return pairs.first_pairs(question, count, comparing)
