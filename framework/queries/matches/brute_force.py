"""What is told by definition: every row that came at an instant compared with all that were in its window then."""

from __future__ import annotations

import numpy as np

from skyband.framework.queries.pair_rows.brute_force import older_partners
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.set_pairs.brute_force import Pair, compared
from skyband.framework.verify.objects import Found


def told(question: Question) -> Found | None:
    """The pairs told at the instant of the question, arrival by arrival, each one's in rank order; none if nothing came then.

    O(arrivals * window); None if that is too much.
    """
    query, time = question.query, question.data.time
    first, end = (int(np.searchsorted(time, question.at, side=side)) for side in ("left", "right"))
    alive = 0 if query.window.micros is None else int(np.searchsorted(time, question.at - query.window.micros, side="right"))
    found: Found = []
    for x in range(first, end):
        since = alive if query.window.count is None else max(alive, x + 1 - query.window.count)
        if not question.work.take(x - since):
            return None
        pairs: list[Pair] = []
        for partners, as_a in older_partners(question, x, since):
            mine = compared(question, partners, as_a)
            if mine is None:
                return None
            pairs += mine
        found += [(items, score) for *_, items, score in sorted(pairs)[: query.k]]
    return found
