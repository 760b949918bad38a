"""The result by definition: rows of the window held against each other."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from skyband.framework.queries.protocol import Question
from skyband.framework.verify.expressions import holds
from skyband.framework.verify.objects import MAX_OBJECTS, SLOW_PAIRS, Found, Work, window_of

Point = tuple[tuple[Any, ...], int]
"""(values of the ordered dimensions, smaller is better, and the seq as a negative number)."""


def unbeaten(question: Question) -> Found | None:
    """The objects with fewer dominators in the window than the band, newest first, as (items, 0.0). None if that is too much.

    a dominates b: equal in the ``equal`` dimensions, no worse in every other one, and better in one (or, with ``distinct``, newer). What
    dominates an object stands before it in the order of the values, then of age. Who has as many dominators as the band need not be
    looked at again: whomever it dominates has so many among the others. O(window * band's objects).
    """
    query, data = question.query, question.data
    op: Any = question.plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, question.at)
    if not question.work.take(end - first, MAX_OBJECTS):
        return None
    admitted = holds(op.where)
    groups: dict[tuple[Any, ...], list[Point]] = defaultdict(list)
    for seq, row in enumerate(data.values(first, end), first):
        if all(row[d.column.name] is not None for d in op.dimensions) and admitted(row, row):
            same = tuple(row[d.column.name] for d in op.dimensions if d.direction == "equal")
            worth = tuple(
                row[d.column.name] * (-1 if d.direction == "max" else 1) for d in op.dimensions if d.direction != "equal"
            )  # fmt: skip
            groups[same].append((worth, -seq))
    found: list[int] = []
    for points in groups.values():
        kept = _band(sorted(points), op.band, op.distinct, question.work)
        if kept is None:
            return None
        found += [-age for _, age in kept]
    return [((seq,), 0.0) for seq in sorted(found, reverse=True)]


def _band(points: list[Point], band: int, distinct: bool, work: Work) -> list[Point] | None:
    """The points (sorted) that fewer than ``band`` others dominate; None if that is too much work."""
    kept: list[Point] = []
    for worth, age in points:
        dominators = 0
        if not work.take(len(kept), SLOW_PAIRS):
            return None
        for other, other_age in kept:
            no_worse = all(x <= y for x, y in zip(other, worth, strict=True))
            if no_worse and (other != worth or (distinct and other_age < age)):
                dominators += 1
                if dominators == band:
                    break
        else:
            kept.append((worth, age))
    return kept
