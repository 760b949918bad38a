"""Results over scored single rows by definition: every row of the window scored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sortedcontainers import SortedList

from skyband.framework.queries.protocol import Question
from skyband.framework.verify.expressions import holds, score_of
from skyband.framework.verify.objects import MAX_OBJECTS, Found, window_of
from skyband.operators.single_rows.scores import Linear


def passing(question: Question, bounds: tuple[float | None, ...]) -> Found | None:
    """Living rows that satisfy ``where`` and whose score is above, at least, below and at most ``bounds``.

    As ((seq,), score), in rank order. O(window log window); None if that is too much.
    """
    asked, data = question.asked, question.data
    assert asked is not None
    first, end, at = window_of(question.query, asked.window, data, question.at)
    if not question.work.take(end - first, MAX_OBJECTS):
        return None
    score: Callable[[Any, Any], float | None]
    score = _weighted(asked.scoring) if isinstance(asked.scoring, Linear) else score_of(asked.scoring)
    admitted, parameters, sign = holds(asked.where), dict(asked.parameters), -1.0 if asked.direction == "max" else 1.0
    found = SortedList()
    for seq, row in enumerate(data.values(first, end), first):
        x = {**row, **parameters}
        value = score(x, x)
        if value is not None and data.deleted[seq] > at and _within(value, *bounds) and admitted(x, x):
            found.add((sign * value, -seq, value))
    return [((-q,), value) for _, q, value in found]


def _within(value: float, above: float | None, at_least: float | None, below: float | None, at_most: float | None) -> bool:
    low = (above is None or value > above) and (at_least is None or value >= at_least)
    return low and (below is None or value < below) and (at_most is None or value <= at_most)


def _weighted(function: Linear) -> Callable[[Any, Any], float | None]:
    """w0*x0 + w1*x1 + ..., from left to right."""

    def score(row: Any, _: Any) -> float | None:
        total = None
        for name, weight in function.weights:
            if row[name] is None:
                return None
            term = weight * float(row[name])
            total = term if total is None else total + term
        return None if total is None or total != total else total + 0.0

    return score
