"""The score of pairs by definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.framework.queries.pair_rows import brute_force as pairs
from skyband.framework.queries.pair_rows.brute_force import F64, I64, Compare
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.brute_force.expressions import holds, score_of


def comparing(question: Question) -> Compare:
    """What scores pairs of objects."""
    op: Any = question.plan.operators[question.query.operator].inner
    score, admitted, sign = score_of(op.scoring), holds(op.where), -1.0 if question.query.direction == "max" else 1.0
    columns = pairs.whole(question)

    def compare(a: I64, b: I64) -> tuple[F64, F64]:
        of_a, of_b = pairs.some(columns, a), pairs.some(columns, b)
        good = np.broadcast_to(admitted(of_a, of_b), len(a))
        scores = np.where(good, np.broadcast_to(score(of_a, of_b), len(a)), np.nan)
        return sign * scores, scores

    return compare
