"""Scores of window rows for one query, and bounds of the scores in a leaf."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64
from skyband.operators.jit import HAVE_NUMBA, inner, jit
from skyband.operators.single_rows.kernels.score_programs import bound_boxes_by_steps, has_steps, score_rows_by_steps
from skyband.operators.single_rows.score_programs import program_scores
from skyband.operators.topk.kernels.many_queries import TableQuery
from skyband.operators.topk.kernels.window_pool import LEAF, WindowPool

SAMPLE = 16


@inner
def _weighted_sums(weights: F64, values: F64, begin: int, end: int, out: F64) -> None:
    """Write the weighted sums of rows [begin, end) of ``values`` (d, rows) to ``out``."""
    n = end - begin
    o, column = out[:n], values[0, begin:end]
    for i in range(n):
        o[i] = weights[0] * column[i]
    for t in range(1, len(weights)):
        column = values[t, begin:end]
        for i in range(n):
            o[i] = o[i] + weights[t] * column[i]
    for i in range(n):
        o[i] = o[i] + 0.0


@jit(_nrt=False)
def _score_rows_nb(query: TableQuery, pool: WindowPool, begin: int, end: int, out: F64) -> None:
    n = end - begin
    o, values, ceiling = out[:n], pool.values, query.ceiling
    if has_steps(query.program):
        score_rows_by_steps(query.program, query.weights, values, begin, end, out)
    else:
        _weighted_sums(query.weights, values, begin, end, out)
    if ceiling < np.inf:
        for i in range(n):
            if o[i] > ceiling:
                o[i] = np.nan
    if query.boxed:
        for t in range(len(values)):
            column = values[t, begin:end]
            low, high = query.low[t], query.high[t]
            for i in range(n):
                if not low <= column[i] <= high:
                    o[i] = np.nan
    where = query.where
    if where >= 0:
        flags = pool.flags[begin:end]
        for i in range(n):
            if (flags[i] >> where) & 1 == 0:
                o[i] = np.nan


def _score_rows_np(query: TableQuery, pool: WindowPool, begin: int, end: int, out: F64) -> None:
    o, weights, values = out[: end - begin], query.weights, pool.values
    with np.errstate(all="ignore"):
        if query.program.result >= 0:
            o[:] = program_scores(query.program, [*values[:, begin:end], *weights])
        else:
            np.multiply(values[0, begin:end], weights[0], out=o)
            for t in range(1, len(weights)):
                o += weights[t] * values[t, begin:end]
            o += 0.0
        o[o > query.ceiling] = np.nan
        if query.boxed:
            for t in range(len(values)):
                column = values[t, begin:end]
                o[~((query.low[t] <= column) & (column <= query.high[t]))] = np.nan
        if query.where >= 0:
            o[(pool.flags[begin:end] >> query.where) & 1 == 0] = np.nan


score_rows = _score_rows_nb if HAVE_NUMBA else _score_rows_np
"""out[: end - begin] = internal scores of the pool's rows [begin, end) for one query; NaN outside its box, its predicate or above its
ceiling. ``out`` float64. O(d) per row, vectorised."""


@jit(_nrt=False)
def find_corners(pool: WindowPool, row: int) -> None:
    """Store the corners of the leaf of LEAF rows from ``row`` (NaN left out; an attribute that is always NaN gets (inf, -inf))."""
    leaf = row // LEAF
    for t in range(len(pool.values)):
        column = pool.values[t, row : row + LEAF]
        low, high = np.inf, -np.inf
        for i in range(LEAF):
            v = column[i]
            low = v if v < low else low
            high = v if v > high else high
        pool.leaf_low[t, leaf], pool.leaf_high[t, leaf] = low, high


@inner
def bound_leaves(query: TableQuery, pool: WindowPool, begin: int, end: int, out: F64) -> None:
    """Write upper bounds of the scores in leaves [begin, end), which have corners, to ``out``; NaN where nothing is known.

    The operations are those of the score, each monotone, so rounding keeps them bounds.
    """
    if has_steps(query.program):
        bound_boxes_by_steps(query.program, query.weights, pool.leaf_low, pool.leaf_high, begin, end, out)
    else:
        for leaf in range(begin, end):
            out[leaf - begin] = _bound_of_sums(query.weights, pool.leaf_low, pool.leaf_high, leaf)


@inner
def _bound_of_sums(weights: F64, leaf_low: F64, leaf_high: F64, leaf: int) -> float:
    """Return an upper bound of the leaf's weighted sums."""
    bound: float = weights[0] * leaf_high[0, leaf] if weights[0] >= 0.0 else weights[0] * leaf_low[0, leaf]
    for t in range(1, len(weights)):
        bound = bound + (weights[t] * leaf_high[t, leaf] if weights[t] >= 0.0 else weights[t] * leaf_low[t, leaf])
    return bound


@inner
def corners_pay(query: TableQuery, pool: WindowPool, begin: int, end: int, cutoff: float, space: F64) -> bool:
    """Return True if many of a few full leaves in places [begin, end) are below the cutoff, so that bounds would exclude leaves.
    Looks at SAMPLE leaves, and leaves their corners behind. ``space`` float64 (at least 1,) is scratch space."""
    if not HAVE_NUMBA and has_steps(query.program):
        return False
    first, last = (begin + LEAF - 1) // LEAF, end // LEAF
    if last - first < 2 * SAMPLE:
        return True
    below = 0
    for i in range(SAMPLE):
        place = (first + i * (last - first) // SAMPLE) * LEAF
        row = place if place < pool.wrap else place - pool.wrap
        find_corners(pool, row)
        bound_leaves(query, pool, row // LEAF, row // LEAF + 1, space)
        below += 1 if space[0] < cutoff else 0
    return 8 * below > SAMPLE
