"""The matches by definition: compare every row that came at an instant with all rows of its window then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyband.framework.queries.pair_rows.brute_force import Compare, pairs_of
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.scored_pairs import brute_force as scored
from skyband.framework.queries.set_pairs import brute_force as sets
from skyband.framework.verify.brute_force.objects import Found, window_of
from skyband.operators.base import NEVER


def comparing(question: Question, of_sets: bool) -> Compare:
    """Return what compares pairs of sets, or scores pairs of rows."""
    return sets.comparing(question) if of_sets else scored.comparing(question)


def reported(question: Question, of_sets: bool) -> Found | None:
    """Return the pairs reported at the instant of the question, by arrival, each one's in rank order; none if no row came then.

    O(arrivals * window); None if that is too much.
    """
    query, time = question.query, question.data.time
    first, end = (int(np.searchsorted(time, question.at, side=side)) for side in ("left", "right"))
    if first == end:
        return []
    # Those of the window that have not left it by time: a count is counted from each row.
    alive, _, _ = window_of(query, replace(query.window, count=None), question.data, question.at)
    found: Found = []
    compare = comparing(question, of_sets)
    # The seq of the first object that came after each object's deletion.
    seen_until = np.full(len(question.data.every.time), NEVER)
    for _, before, seq in question.data.every.deletions:
        seen_until[seq] = before
    for x in range(first, end):
        since = alive if query.window.count is None else max(alive, x + 1 - query.window.count)
        if not question.work.take(x - since):
            return None
        pairs = pairs_of(question, x, since, compare)
        found += pairs.take(seen_until[pairs.older] > x).take(slice(query.k)).found()
    return found
