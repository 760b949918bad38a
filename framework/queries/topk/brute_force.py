"""Results of top-k with sort keys by definition: every row of the window, ranked by Python's comparison of values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.framework.base.items import SCORE
from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.single_rows.brute_force import weighted
from skyband.framework.queries.topk.ordered import operator_of
from skyband.framework.verify.brute_force.expressions import holds, score_of
from skyband.framework.verify.brute_force.objects import SLOW, Found, Objects, window_of
from skyband.operators.base import Column
from skyband.operators.single_rows.scores import Linear


def passing(question: Question) -> Found | None:
    """Return the result by definition, as ((seq,), score or 0.0), in rank order. O(window log window); None if that is too much."""
    query, data = question.query, question.data
    op = operator_of(question.plan.operators[query.operator])
    first, end, at = window_of(query, query.window, data, question.at)
    if not question.work.take(SLOW * (end - first)):
        return None
    scores, ranks, equals = _ranks(question, op)
    rows = [q for q in range(first, end) if ranks[q] is not None and data.deleted[q] > at and _within(scores[q], query)]
    rows.sort(key=lambda q: (ranks[q], equals[q], q if op.oldest else -q))
    k = query.k or len(rows)
    if op.ties == "break":
        rows = rows[:k]
    else:
        kept: list[int] = []
        for number, (_, equal) in enumerate(groupby(rows, key=lambda q: ranks[q])):
            tied = list(equal)
            place = len(kept) + len(tied) if op.ties == "exclude" else number + 1 if op.ties == "dense" else len(kept) + 1
            if place > k:
                break
            kept += tied
        rows = kept
    return [((q,), scores[q] if op.scored else 0.0) for q in rows]


def row_scores(question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
    """Return the score of each of ``items``; NaN for null, and if it is no row that the query admits."""
    op = operator_of(question.plan.operators[question.query.operator])
    if not op.scored:
        return None
    scores, ranks, _ = _ranks(question, op)
    return [scores[q] if ranks[q] is not None and _within(scores[q], question.query) else math.nan for q in (int(seq) for (seq,) in items)]


def row_values(question: Question, items: Sequence[tuple[Any, ...]]) -> dict[str, list[float]]:
    """Return the values of the functions among the sort keys for each of ``items``, by column, NaN for null."""
    op, data = operator_of(question.plan.operators[question.query.operator]), question.data
    n = len(data.every.time)
    values = {k.name: _values_of(data, k.of, n) for k in op.keys if k.name not in ("", SCORE)}
    return {name: [math.nan if v[int(q)] is None else v[int(q)] + 0.0 for (q,) in items] for name, v in values.items()}


def _within(value: float, query: QueryNode) -> bool:
    least, most = query.min_score, query.max_score
    return (least is None or value >= least) and (most is None or value <= most)


def _ranks(question: Question, op: Any) -> tuple[list[float], list[Any], list[Any]]:
    """Return of all objects the score (0.0 without one), the sort keys (None: no candidate), and the columns of ``tie_break``."""
    data = question.data

    def found() -> tuple[list[float], list[Any], list[Any]]:
        n = len(data.every.time)
        rows = data.values(0, n)
        admitted = np.broadcast_to(holds(op.where)(rows, rows), n).tolist()
        values = [_values_of(data, k.of, n) for k in op.keys]
        keys = list(zip(*(_places(v, k.direction == "max") for v, k in zip(values, op.keys, strict=True)), strict=True))
        equals = list(zip(*(_places(_values_of(data, c, n), False) for c in op.tie_break), strict=True)) if op.tie_break else [()] * n
        good = [a and (op.nulls_last or v is not None) for a, v in zip(admitted, values[0], strict=True)]
        scores = [math.nan if v is None else float(v) for v in values[0]] if op.scored else [0.0] * n
        return scores, [k if g else None for k, g in zip(keys, good, strict=True)], equals

    return data.once(("ordered", question.query.operator), found)


def _values_of(data: Objects, of: Any, n: int) -> list[Any]:
    """Return the value of a sort key in every object, as Python compares it; None for null and NaN."""
    if isinstance(of, Column):
        column = data.every.rows[of.sources[0]]
        found: Iterable[Any] = column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
    else:
        rows = data.values(0, n)
        computed = weighted(of, rows) if isinstance(of, Linear) else score_of(of)(rows, rows)
        found = np.broadcast_to(computed, n).tolist()
    return [None if v is None or v != v else v.encode() if isinstance(v, str) else v for v in found]


def _places(values: Sequence[Any], largest: bool) -> list[int]:
    """Return the place of every value among the different ones, from 0, null last."""
    different = sorted({v for v in values if v is not None}, reverse=largest)
    place = {v: i for i, v in enumerate(different)}
    return [len(place) if v is None else place[v] for v in values]
