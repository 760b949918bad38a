"""The result by definition: every row of the window held against every other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.queries.protocol import Question
from skyband.framework.verify.objects import MAX_PAIRS, Found, Objects, window_of
from skyband.operators.base import NULL, AnyArray
from skyband.operators.expressions import compile_row


def unbeaten(question: Question) -> Found | None:
    """The objects with fewer dominators in the window than the band, newest first, as (items, 0.0). None beyond MAX_PAIRS.

    O(window squared).

    a dominates b: equal in the ``equal`` dimensions, no worse in every other one, and better in one (or, with ``distinct``, newer).
    """
    plan, query, data = question.plan, question.query, question.data
    op: Any = plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, question.at)
    if (end - first) ** 2 > 2 * MAX_PAIRS:
        return None
    usable = _usable(op, data, {t: i for i, t in enumerate(plan.texts)})
    seq = first + np.nonzero(usable[first:end])[0]
    ordered = [_smaller_is_better(data.columns[d.column.name][seq], d.direction) for d in op.dimensions if d.direction != "equal"]
    equal = [data.columns[d.column.name][seq] for d in op.dimensions if d.direction == "equal"]
    beaten = np.zeros(len(seq), np.int64)
    for b in range(len(seq)):
        no_worse, better = np.ones(len(seq), bool), np.zeros(len(seq), bool)
        for column in ordered:
            no_worse &= column <= column[b]
            better |= column < column[b]
        for column in equal:
            no_worse &= column == column[b]
        if op.distinct:
            better |= seq > seq[b]
        beaten[b] = np.count_nonzero(no_worse & better)
    return [((int(s),), 0.0) for s in seq[beaten < op.band][::-1]]


def _usable(op: Any, data: Objects, texts: dict[str, int]) -> npt.NDArray[np.bool_]:
    """Objects with a value in every dimension for which ``where`` is true."""
    usable = np.ones(len(data.time), bool)
    for d in op.dimensions:
        column = data.columns[d.column.name]
        usable &= ~np.isnan(column) if column.dtype == np.float64 else column != NULL
    if op.where is not None:
        usable &= compile_row(None, op.where, False, texts).passes(data.columns, len(data.time)).astype(bool)
    return usable


def _smaller_is_better(column: AnyArray, direction: str) -> AnyArray:
    """The column or, for ``max``, its negative; integers by their complement, which cannot overflow."""
    if direction == "min":
        return column
    return -column if column.dtype == np.float64 else ~column
