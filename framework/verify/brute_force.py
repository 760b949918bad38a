"""Results by brute force from the definition: every pair of the window scored, or compared. For ``verify`` only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.streaming.columns import TextCodes, operator_column
from skyband.framework.verify.accepted import Accepted
from skyband.operators.base import NEVER, NULL, AnyArray, Window
from skyband.operators.expressions import compile_pair, compile_row, matrix

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Found = list[tuple[tuple[int, ...], float]]

MAX_PAIRS = 200_000_000
"""Pairs scored or compared for one result; a larger window is not verified by brute force (and ``verify`` says so)."""


@dataclass(slots=True)
class Objects:
    """One key's accepted objects: row i has seq i. ``deleted``: the instant at which each was deleted, or NEVER."""

    time: I64
    columns: dict[str, AnyArray]
    deleted: I64


def objects(plan: Plan, mine: Accepted) -> Objects:
    """The columns the plan's operators read."""
    codes = TextCodes(plan.texts)
    wanted = {c.name: c.kind for node in plan.operators for c in node.attributes}
    deleted = np.full(len(mine.time), NEVER)
    deleted[list(mine.deleted)] = list(mine.deleted.values())
    columns = {n: operator_column(mine.rows[n], kind, codes) for n, kind in wanted.items()}
    return Objects(np.array(mine.time, np.int64), columns, deleted)


def window_of(query: QueryNode, window: Window, data: Objects, at: int) -> tuple[int, int, int]:
    """(first, end, instant): the seqs in ``window`` after all events with time <= ``at``, or the last boundary by then."""
    if query.every_micros:
        at = at // query.every_micros * query.every_micros
    end = int(np.searchsorted(data.time, at, side="right"))
    first = 0
    if window.micros:
        first = int(np.searchsorted(data.time, at - window.micros, side="right"))
    if window.count:
        first = max(first, end - window.count)
    return min(first, end), end, at


def topk_pairs(plan: Plan, query: QueryNode, data: Objects, at: int) -> Found:
    """The k best pairs as (items in the order of the query's roles, score), in rank order. O(window squared)."""
    op: Any = plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, at)
    negate = query.direction == "max"
    texts = {t: i for i, t in enumerate(plan.texts)}
    kernel = compile_pair(op.scoring, op.where, negate, texts)
    fcols = np.ascontiguousarray(matrix(data.columns, kernel.float_names, np.float64, len(data.time)))
    icols = np.ascontiguousarray(matrix(data.columns, kernel.int_names, np.int64, len(data.time)))
    side = _sides(op, data, texts)
    limit = _limit(query, negate)
    best: list[tuple[float, int, int, tuple[int, int]]] = []
    worst = np.inf
    out = np.empty(max(end - first, 1))
    for x in range(first, end):
        # ``x`` is b. Without sides a is every older object; with sides, every object of side a.
        hi = x if side is None else end
        if hi <= first or (side is not None and side[x] != 2):
            continue
        kernel.score_block(fcols, icols, first, hi, fcols[:, x].copy(), icols[:, x].copy(), out)
        scores = out[: hi - first]
        if side is not None:
            scores = np.where(side[first:hi] == 1, scores, np.nan)
        hits = np.nonzero(scores <= min(worst, limit))[0]
        for j in hits.tolist():
            a = first + j
            older, newer = min(a, x), max(a, x)
            best.append((float(scores[j]), -older, -newer, (a, x)))
        if len(best) > 4 * (query.k or 1) + 1000:
            best = sorted(best)[: query.k]
            worst = best[-1][0]
    return [(items, -score + 0.0 if negate else score) for score, _, _, items in sorted(best)[: query.k]]


def _sides(op: Any, data: Objects, texts: dict[str, int]) -> I64 | None:
    """1 for side a, 2 for side b, 0 for neither; None without ``between``."""
    if op.between is None:
        return None
    column = data.columns[op.between.column]
    a, b = (texts[v] if isinstance(v, str) else v for v in (op.between.a, op.between.b))
    return np.where(column == a, 1, np.where(column == b, 2, 0)).astype(np.int64)


def _limit(query: QueryNode, negate: bool) -> float:
    bound = query.min_score if negate else query.max_score
    if bound is None:
        return float("inf")
    return -bound if negate else bound


def skyline(plan: Plan, query: QueryNode, data: Objects, at: int) -> Found:
    """The objects with fewer dominators in the window than the band, newest first, as (items, 0.0). O(window squared).

    a dominates b: equal in the ``equal`` dimensions, no worse in every other one, and better in one (or, with ``distinct``, newer).
    """
    op: Any = plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, at)
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
        usable &= compile_row(None, op.where, False, texts).matches(data.columns, len(data.time)).astype(bool)
    return usable


def _smaller_is_better(column: AnyArray, direction: str) -> AnyArray:
    """The column or, for ``max``, its negative; integers by their complement, which cannot overflow."""
    if direction == "min":
        return column
    return -column if column.dtype == np.float64 else ~column
