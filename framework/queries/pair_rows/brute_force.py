"""The pairs of a window by definition: every object with every other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.queries.protocol import Question
from skyband.framework.verify.expressions import Objects, Values, text_number
from skyband.framework.verify.objects import window_of

I64 = npt.NDArray[np.int64]
Item = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Partners:
    """Object ``b`` (a column of one) and all objects ``a`` it may pair with; ``seq`` of b, ``seqs`` of a."""

    seq: int
    seqs: I64
    b: Objects
    a: Objects


def partners(question: Question) -> Iterator[Partners] | None:
    """The pairs in the window that the query's roles admit: a is the older, or a and b are the two sides. None if there are too many."""
    query, data = question.query, question.data
    op: Any = question.plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, question.at)
    if not question.work.take((end - first) ** 2 // 2):
        return None
    window, seqs = data.values(first, end), np.arange(first, end)
    if op.between is None:
        return (Partners(t, seqs[: t - first], _one(window, t - first), _some(window, slice(t - first))) for t in range(first, end))
    side = window[op.between.column]
    a, b = (np.nonzero(side.there & (side.value == _side(v)))[0] for v in (op.between.a, op.between.b))
    all_a = _some(window, a)
    return (Partners(first + int(t), seqs[a], _one(window, int(t)), all_a) for t in b)


def older_partners(question: Question, seq: int, first: int) -> Iterator[tuple[Partners, bool]]:
    """Object ``seq`` with the older ones from ``first`` on that the query's roles admit; whether it stands for a, they for b."""
    op: Any = question.plan.operators[question.query.operator].operator
    window, older = question.data.values(first, seq + 1), np.arange(first, seq)
    mine = _one(window, seq - first)
    if op.between is None:
        yield Partners(seq, older, mine, _some(window, slice(seq - first))), False
        return
    side = window[op.between.column]
    is_a, is_b = (side.there & (side.value == _side(v)) for v in (op.between.a, op.between.b))
    for own, other, as_a in ((is_b, is_a, False), (is_a, is_b, True)):
        if own[-1]:
            places = np.nonzero(other[:-1])[0]
            yield Partners(seq, older[places], mine, _some(window, places)), as_a


def _side(value: str | int | bool) -> int | bool:
    return text_number(value) if isinstance(value, str) else value


def _some(window: Objects, which: slice | I64) -> Objects:
    return {n: Values(c.value[which], c.there[which]) for n, c in window.items()}


def _one(window: Objects, place: int) -> Objects:
    return _some(window, slice(place, place + 1))


def by_age(item: Item) -> Item:
    """What tells pairs of equal score apart, smallest first: the larger older seq, then the larger newer seq."""
    return -min(item), -max(item)
