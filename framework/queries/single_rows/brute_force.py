"""Results over scored single rows by definition: every row of the window scored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.framework.queries.protocol import Question
from skyband.framework.verify.objects import Found, window_of
from skyband.operators.expressions import compile_row
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.scores import Linear, as_floats

F64 = npt.NDArray[np.float64]


def passing(question: Question, bounds: tuple[float | None, ...]) -> Found:
    """Living rows that satisfy ``where`` and whose score is above, at least, below and at most ``bounds``.

    As ((seq,), score), in rank order. O(window).
    """
    asked, data, plan = question.asked, question.data, question.plan
    assert asked is not None
    first, end, at = window_of(question.query, asked.window, data, question.at)
    n = end - first
    columns = {name: values[first:end] for name, values in data.columns.items()}
    columns |= {name: np.full(n, value) for name, value in asked.parameters}
    texts = {t: i for i, t in enumerate(plan.texts)}
    score = _linear(asked.scoring, columns, n) if isinstance(asked.scoring, Linear) else _expression(asked.scoring, columns, n, texts)
    passes = ~np.isnan(score) & (data.deleted[first:end] > at)
    if asked.where is not None:
        passes &= compile_row(None, asked.where, False, texts).passes(columns, n).astype(bool)
    above, at_least, below, at_most = bounds
    for bound, test in ((above, np.greater), (at_least, np.greater_equal), (below, np.less), (at_most, np.less_equal)):
        if bound is not None:
            passes &= test(score, bound)
    sign = -1.0 if asked.direction == "max" else 1.0
    seq = first + np.nonzero(passes)[0]
    best = sorted((sign * s, -q, s) for s, q in zip(score[passes].tolist(), seq.tolist(), strict=True))
    return [((-q,), s) for _, q, s in best]


def _expression(node: Node, columns: dict[str, F64], n: int, texts: dict[str, int]) -> F64:
    return compile_row(node, None, False, texts).evaluate(columns, n) + 0.0


def _linear(function: Linear, columns: dict[str, F64], n: int) -> F64:
    total = np.zeros(n)
    with np.errstate(all="ignore"):
        for i, (name, weight) in enumerate(function.weights):
            term = weight * as_floats(columns[name])
            total = term if i == 0 else total + term
    return total + 0.0
