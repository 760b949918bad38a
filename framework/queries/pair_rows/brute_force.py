"""The pairs of a window by definition: every object with every other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skyband.framework.queries.protocol import Question
from skyband.framework.verify.objects import SLOW_PAIRS, window_of

Item = tuple[int, int]


def pairs(question: Question) -> Iterator[tuple[Item, Any, Any]] | None:
    """(seqs, object a, object b) of every pair in the window that the query's roles admit: a is the older, or a and b are the two sides.

    Objects are as ``Objects.values`` gives them. None if there are too many.
    """
    query, data = question.query, question.data
    op: Any = question.plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, question.at)
    n = end - first
    if not question.work.take(n * (n - 1) // 2, SLOW_PAIRS):
        return None
    window = list(enumerate(data.values(first, end), first))
    if op.between is None:
        return ((((s, t), a, b)) for i, (t, b) in enumerate(window) for s, a in window[:i])
    column = op.between.column
    side_a = [(s, x) for s, x in window if x[column] == op.between.a]
    side_b = [(s, x) for s, x in window if x[column] == op.between.b]
    return (((s, t), a, b) for t, b in side_b for s, a in side_a)


def by_age(item: Item) -> Item:
    """What tells pairs of equal score apart, smallest first: the larger older seq, then the larger newer seq."""
    return -min(item), -max(item)
