"""Results over scored single rows by definition: every row of the window scored."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from sortedcontainers import SortedList

from skyband.framework.queries.protocol import Question
from skyband.framework.verify.expressions import Objects, Values, holds, score_of
from skyband.framework.verify.objects import SLOW, Found, window_of
from skyband.operators.single_rows.scores import Linear

F64 = npt.NDArray[np.float64]


def passing(question: Question, bounds: tuple[float | None, ...]) -> Found | None:
    """Living rows that satisfy ``where`` and whose score is above, at least, below and at most ``bounds``.

    As ((seq,), score), in rank order. O(window log window); None if that is too much.
    """
    asked, data = question.asked, question.data
    assert asked is not None
    first, end, at = window_of(question.query, asked.window, data, question.at)
    if not question.work.take(SLOW * (end - first)):
        return None
    rows: Objects = {
        **data.values(first, end),
        **{n: Values(np.array([v], np.float64), np.array([not math.isnan(v)])) for n, v in asked.parameters},
    }
    scores = _weighted(asked.scoring, rows) if isinstance(asked.scoring, Linear) else score_of(asked.scoring)(rows, rows)
    scores = np.broadcast_to(scores, end - first)
    good = ~np.isnan(scores) & (data.deleted[first:end] > at) & holds(asked.where)(rows, rows)
    above, at_least, below, at_most = bounds
    for bound, test in ((above, np.greater), (at_least, np.greater_equal), (below, np.less), (at_most, np.less_equal)):
        if bound is not None:
            good &= test(scores, bound)
    sign = -1.0 if asked.direction == "max" else 1.0
    seqs = first + np.nonzero(good)[0]
    found = SortedList((sign * s, -q, s) for q, s in zip(seqs.tolist(), scores[good].tolist(), strict=True))
    return [((-q,), s) for _, q, s in found]


def _weighted(function: Linear, rows: Objects) -> F64:
    """w0*x0 + w1*x1 + ..., from left to right."""
    terms = [np.where(rows[n].there, w * rows[n].value.astype(np.float64), math.nan) for n, w in function.weights]
    total = terms[0]
    with np.errstate(all="ignore"):
        for term in terms[1:]:
            total = total + term
    return np.asarray(total + 0.0, np.float64)
