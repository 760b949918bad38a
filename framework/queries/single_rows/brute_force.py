"""Results over scored single rows by definition: every row of the window scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.plan.model import LogicalQuery
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.brute_force.expressions import Objects, Values, holds, score_of
from skyband.framework.verify.brute_force.objects import Found, window_of
from skyband.operators.single_rows.scores import Linear

F64 = npt.NDArray[np.float64]

Bounds = tuple[float | None, ...]


def passing(question: Question, bounds: Bounds) -> Found | None:
    """Living rows that satisfy ``where`` and whose score is above, at least, below and at most ``bounds``; the first k of them.

    As ((seq,), score), in rank order. O(window log window); None if that is too much.
    """
    asked, data = question.logical_query, question.data
    assert asked is not None
    first, end, at = window_of(question.query, asked.window, data, question.at)
    if not question.work.take(end - first):
        return None
    scores = _scores(question, asked)[first:end]
    seqs = first + np.nonzero(_within(scores, bounds) & (data.deleted[first:end] > at))[0]
    ranks = scores[seqs - first] * (-1.0 if asked.direction == "max" else 1.0)
    order = np.lexsort((-seqs, ranks))[: asked.k]
    return [((q,), s) for q, s in zip(seqs[order].tolist(), scores[seqs[order] - first].tolist(), strict=True)]


def row_scores(question: Question, items: Sequence[tuple[Any, ...]], bounds: Bounds) -> list[float]:
    """The score of each of ``items``; NaN if it is no row that the query admits."""
    assert question.logical_query is not None
    scores = _scores(question, question.logical_query)[np.array([int(seq) for (seq,) in items], np.int64)]
    found: list[float] = np.where(_within(scores, bounds), scores, math.nan).tolist()
    return found


def _within(scores: F64, bounds: Bounds) -> npt.NDArray[np.bool_]:
    above, at_least, below, at_most = bounds
    good = ~np.isnan(scores)
    for bound, test in ((above, np.greater), (at_least, np.greater_equal), (below, np.less), (at_most, np.less_equal)):
        if bound is not None:
            good &= test(scores, bound)
    return good


def _scores(question: Question, asked: LogicalQuery) -> F64:
    """The scores of all objects, NaN for those that do not satisfy ``where``."""
    data = question.data

    def score() -> F64:
        n = len(data.every.time)
        rows: Objects = {
            **data.values(0, n),
            **{name: Values(np.array([v], np.float64), np.array([not math.isnan(v)])) for name, v in asked.parameters},
        }
        scores = weighted(asked.scoring, rows) if isinstance(asked.scoring, Linear) else score_of(asked.scoring)(rows, rows)
        return np.where(np.broadcast_to(holds(asked.where)(rows, rows), n), np.broadcast_to(scores, n), math.nan)

    return data.once(("scores", question.query.operator, asked.name, asked.scoring, asked.where, asked.parameters), score)


def weighted(function: Linear, rows: Objects) -> F64:
    """w0*x0 + w1*x1 + ..., from left to right."""
    terms = [np.where(rows[n].valid, w * rows[n].value.astype(np.float64), math.nan) for n, w in function.weights]
    total = terms[0]
    with np.errstate(all="ignore"):
        for term in terms[1:]:
            total = total + term
    return np.asarray(total + 0.0, np.float64)
