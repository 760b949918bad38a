"""Compute the result by definition: compare the rows of the window with each other."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from skyband.framework.queries.protocol import Question
from skyband.framework.queries.single_rows.brute_force import row_scores
from skyband.framework.verify.brute_force.expressions import holds
from skyband.framework.verify.brute_force.objects import SLOW, Found, Work, window_of

Point = tuple[tuple[tuple[Any, ...], ...], int]
"""(values of the ordered dimensions by levels, smaller is better, and the seq as a negative number)."""


def unbeaten(question: Question) -> Found | None:
    """Return the objects with fewer dominators in the window than the band, newest first, as (items, 0.0). None if that is too much work.

    a dominates b: equal in the ``equal`` dimensions, no worse in every other one, and better in one (or, with ``distinct``, newer). With
    levels the first level in which they differ decides. A query with a score has the first ``k`` of those with a score, as (items, score),
    one with a size that many of the smallest radii.
    An object's dominators come before it in the order of the values, then of age. An object with as many dominators as the band is not
    compared again: each object that it dominates has as many among the others. O(window * band's objects).
    """
    members = _members(question)
    op: Any = question.plan.operators[question.query.operator].inner
    sizes = getattr(op, "sizes", None)
    if members is None or (question.logical_query is None and sizes is None):
        return members
    if sizes is None:
        return _first(question, members)
    nearest = by_radius(question, members)
    return None if nearest is None else sorted(nearest[: sizes[question.query.index]], reverse=True)


def _members(question: Question) -> Found | None:
    """Return the objects of the skyline, newest first, as (items, 0.0). None if that is too much work."""
    query, data = question.query, question.data
    op: Any = question.plan.operators[query.operator].inner
    first, end, at = window_of(query, query.window, data, question.at)
    if not question.work.take(SLOW * (end - first)):
        return None
    rows = data.values(first, end)
    usable = holds(op.where)(rows, rows) & (data.deleted[first:end] > at)
    for d in op.dimensions:
        usable &= rows[d.column.name].valid
    seqs = np.nonzero(usable)[0]
    columns = [(rows[d.column.name].value[seqs].tolist(), d.direction) for d in op.dimensions]
    groups: dict[tuple[Any, ...], SortedList] = defaultdict(SortedList)
    for i, seq in enumerate((first + seqs).tolist()):
        same = tuple(c[i] for c, direction in columns if direction == "equal")
        worth = [-c[i] if direction == "max" else c[i] for c, direction in columns if direction != "equal"]
        groups[same].add((_by_levels(worth, op.levels), -seq))
    found: list[int] = []
    for points in groups.values():
        kept = _band(points, op.band, op.distinct, question.work)
        if kept is None:
            return None
        found += [-age for _, age in kept]
    return [((seq,), 0.0) for seq in sorted(found, reverse=True)]


def _by_levels(values: list[Any], levels: tuple[int, ...] | None) -> tuple[tuple[Any, ...], ...]:
    """Return the values of the ordered dimensions as a tuple per level."""
    if levels is None:
        return (tuple(values),)
    ends = np.cumsum(levels).tolist()
    return tuple(tuple(values[end - size : end]) for size, end in zip(levels, ends, strict=True))


def _first(question: Question, members: Found) -> Found:
    """Return the first ``k`` of the members by their score, of equal scores the newest first."""
    asked = question.logical_query
    assert asked is not None
    scores = row_scores(question, [item for item, _ in members], (None, None, None, None)) if members else []
    scored = [(item, score) for (item, _), score in zip(members, scores, strict=True) if not math.isnan(score)]
    turn = -1.0 if asked.direction == "max" else 1.0
    return sorted(scored, key=lambda found: (turn * found[1], -found[0][0]))[: asked.k]


def by_radius(question: Question, members: Found | None = None) -> Found | None:
    """Return the objects of the skyline (``members``) by their radius, of equal ones the newest first. None if that is too much work.

    The radius of an object is the band-th largest of the distances from the weights up to which another one scores at least as high.
    The distance of two, rounded, is the operator's; tests compare the order of radii with exact arithmetic.
    """
    from skyband.operators.skyline.kernels.sizing import Preference, radii

    members = _members(question) if members is None else members
    if members is None or not question.work.take(SLOW * len(members) ** 2):
        return None
    op: Any = question.plan.operators[question.query.operator].inner
    seqs = np.array([item[0] for item, _ in members], np.int64)
    first, end, _ = window_of(question.query, question.query.window, question.data, question.at)
    rows = question.data.values(first, end)
    columns = [(rows[d.column.name].value[seqs - first].astype(np.float64), d.direction) for d in op.dimensions]
    values = np.column_stack([-c if direction == "min" else c for c, direction in columns])
    preference = Preference(np.array(op.weights, np.float64), 1, op.distinct)

    def radius(mine: int) -> float:
        distances = [0.0] * op.band
        with np.errstate(over="ignore"):
            for other in range(len(seqs)):
                if other != mine:
                    two = [other, mine]
                    distances.append(float(radii(seqs[two], values[two], preference)[1]))
        return float(sorted(distances, reverse=True)[op.band - 1])

    # The members are the newest first, and the order is stable.
    return [members[i] for i in sorted(range(len(members)), key=radius)]


def _no_worse(other: tuple[tuple[Any, ...], ...], worth: tuple[tuple[Any, ...], ...]) -> bool:
    """Return True if ``other`` equals ``worth``, or is no worse in each dimension of the first level in which they differ."""
    for mine, yours in zip(other, worth, strict=True):
        if mine != yours:
            return all(x <= y for x, y in zip(mine, yours, strict=True))
    return True


def _band(points: SortedList, band: int, distinct: bool, work: Work) -> list[Point] | None:
    """Return the points that fewer than ``band`` others dominate; None if that is too much work."""
    kept: list[Point] = []
    for worth, age in points:
        if not work.take(SLOW * len(kept)):
            return None
        dominators = 0
        for other, other_age in kept:
            dominators += _no_worse(other, worth) and (other != worth or (distinct and other_age < age))
            if dominators == band:
                break
        else:
            kept.append((worth, age))
    return kept


def beating(question: Question, seq: int) -> Found | None:
    """Return the objects of the window that beat ``seq``, newest first; None if ``seq`` takes no part. O(window)."""
    query, data = question.query, question.data
    op: Any = question.plan.operators[query.operator].inner
    first, end, at = window_of(query, query.window, data, question.at)
    rows = data.values(first, end)
    beats = holds(op.where)(rows, rows) & (data.deleted[first:end] > at)
    for d in op.dimensions:
        beats &= rows[d.column.name].valid
    if not first <= seq < end or not beats[seq - first]:
        return None
    better = np.zeros(end - first, bool)
    ordered = [d for d in op.dimensions if d.direction != "equal"]
    for d in op.dimensions:
        if d.direction == "equal":
            beats &= rows[d.column.name].value == rows[d.column.name].value[seq - first]
    for level in _by_levels(ordered, op.levels):
        undecided = ~better
        for d in level:
            value = rows[d.column.name].value
            mine = value[seq - first]
            beats &= ~undecided | (value >= mine if d.direction == "max" else value <= mine)
            better |= undecided & (value != mine)
    beats &= better | (op.distinct & (np.arange(first, end) > seq))
    return [((int(i),), 0.0) for i in first + np.nonzero(beats)[0][::-1]]
