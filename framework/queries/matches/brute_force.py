"""What is told by definition: every row that came at an instant compared with all that were in its window then."""

from __future__ import annotations

import numpy as np

from skyband.framework.queries.protocol import Question
from skyband.framework.queries.set_pairs.brute_force import Comparison
from skyband.framework.verify.objects import MAX_PAIRS, Found


def told(question: Question) -> Found | None:
    """The pairs told at the instant of the question, arrival by arrival, each one's in rank order; none if nothing came then.

    O(arrivals * window); None beyond MAX_PAIRS.
    """
    query, time = question.query, question.data.time
    first, end = (int(np.searchsorted(time, question.at, side=side)) for side in ("left", "right"))
    alive = 0 if query.window.micros is None else int(np.searchsorted(time, question.at - query.window.micros, side="right"))
    since = [alive if query.window.count is None else max(alive, x + 1 - query.window.count) for x in range(first, end)]
    if sum(x - s for x, s in zip(range(first, end), since, strict=True)) > MAX_PAIRS:
        return None
    found: Found = []
    sets = Comparison(question, min(since, default=first), end)
    for x, lo in zip(range(first, end), since, strict=True):
        # With sides the arrival may be of either.
        pairs = sorted([*sets.pairs(x, lo, x), *(sets.pairs(x, lo, x, as_a=True) if sets.side is not None else [])])
        found += [(items, score) for _, _, _, items, score in pairs[: query.k]]
    return found
