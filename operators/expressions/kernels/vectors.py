"""Kernels of vectors for generated code: one vector, or one per object, against a block of objects.

A block's sums are in the first-level cache, and a pass over it takes ``STEP`` dimensions, so that a dimension costs one load per object.
The objects of a block are independent, which is what the processor's vector units need: no sum is reordered (see ``vectors``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skyband.operators.base import F64
from skyband.operators.expressions import vectors
from skyband.operators.expressions.vectors import PARTS, STEP
from skyband.operators.jit import inner

BLOCK: Final = 256
"""Objects of a block, at most: one is left early by ``reach`` only if none of its objects may be a hit."""
DOT, L2, COSINE = range(3)
"""Functions as ``reach`` takes them."""
LEAST_NORM: Final = 1e-130
"""Of smaller vectors the squares may be too small for float64, so their norms bound nothing."""

part_start = inner(vectors.part_start)


@inner
def clear(count: int, out: F64) -> None:
    """Set the first ``count`` sums to 0."""
    for j in range(count):
        out[j] = 0.0


@inner
def dot_x(columns: F64, row: int, dimension: int, start: int, count: int, x: F64, at: int, out: F64) -> None:
    """Set ``out[j]`` to the dot product of object start + j, whose vector begins at row ``row``, with the one at ``x[at]``; j < count."""
    clear(count, out)
    add_products(columns, row, dimension, start, count, x, at, out)


@inner
def add_products(columns: F64, row: int, dimension: int, start: int, count: int, x: F64, at: int, out: F64) -> None:
    """Add the products of ``dimension`` dimensions to ``out``; see ``dot_x``."""
    k = 0
    while k + STEP <= dimension:
        r, p, stop = row + k, at + k, start + count
        y0, y1, y2, y3 = columns[r, start:stop], columns[r + 1, start:stop], columns[r + 2, start:stop], columns[r + 3, start:stop]
        y4, y5, y6, y7 = columns[r + 4, start:stop], columns[r + 5, start:stop], columns[r + 6, start:stop], columns[r + 7, start:stop]
        x0, x1, x2, x3, x4, x5, x6, x7 = x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5], x[p + 6], x[p + 7]
        for j in range(count):
            total = out[j]
            total += y0[j] * x0
            total += y1[j] * x1
            total += y2[j] * x2
            total += y3[j] * x3
            total += y4[j] * x4
            total += y5[j] * x5
            total += y6[j] * x6
            total += y7[j] * x7
            out[j] = total
        k += STEP
    while k < dimension:
        y, value = columns[row + k, start : start + count], x[at + k]
        for j in range(count):
            out[j] += y[j] * value
        k += 1


@inner
def squares_x(columns: F64, row: int, dimension: int, start: int, count: int, x: F64, at: int, out: F64) -> None:
    """Set ``out[j]`` to the sum of squared differences; see ``dot_x``."""
    clear(count, out)
    add_squares(columns, row, dimension, start, count, x, at, out)


@inner
def add_squares(columns: F64, row: int, dimension: int, start: int, count: int, x: F64, at: int, out: F64) -> None:
    """Add the squared differences of ``dimension`` dimensions to ``out``; see ``dot_x``."""
    k = 0
    while k + STEP <= dimension:
        r, p, stop = row + k, at + k, start + count
        y0, y1, y2, y3 = columns[r, start:stop], columns[r + 1, start:stop], columns[r + 2, start:stop], columns[r + 3, start:stop]
        y4, y5, y6, y7 = columns[r + 4, start:stop], columns[r + 5, start:stop], columns[r + 6, start:stop], columns[r + 7, start:stop]
        x0, x1, x2, x3, x4, x5, x6, x7 = x[p], x[p + 1], x[p + 2], x[p + 3], x[p + 4], x[p + 5], x[p + 6], x[p + 7]
        for j in range(count):
            total = out[j]
            total += (y0[j] - x0) * (y0[j] - x0)
            total += (y1[j] - x1) * (y1[j] - x1)
            total += (y2[j] - x2) * (y2[j] - x2)
            total += (y3[j] - x3) * (y3[j] - x3)
            total += (y4[j] - x4) * (y4[j] - x4)
            total += (y5[j] - x5) * (y5[j] - x5)
            total += (y6[j] - x6) * (y6[j] - x6)
            total += (y7[j] - x7) * (y7[j] - x7)
            out[j] = total
        k += STEP
    while k < dimension:
        y, value = columns[row + k, start : start + count], x[at + k]
        for j in range(count):
            out[j] += (y[j] - value) * (y[j] - value)
        k += 1


@inner
def dot_columns(columns: F64, row: int, other: int, dimension: int, start: int, count: int, out: F64) -> None:
    """Set ``out[j]`` to the dot product of two vectors of object start + j, which begin at rows ``row`` and ``other``; j < count."""
    clear(count, out)
    for k in range(dimension):
        x, y = columns[row + k, start : start + count], columns[other + k, start : start + count]
        for j in range(count):
            out[j] += x[j] * y[j]


@inner
def squares_columns(columns: F64, row: int, other: int, dimension: int, start: int, count: int, out: F64) -> None:
    """Set ``out[j]`` to the sum of squared differences; see ``dot_columns``."""
    clear(count, out)
    for k in range(dimension):
        x, y = columns[row + k, start : start + count], columns[other + k, start : start + count]
        for j in range(count):
            out[j] += (x[j] - y[j]) * (x[j] - y[j])


@inner
def distance_hits(count: int, limit: float, out: F64) -> int:
    """Return how many objects may have a distance of at most ``limit``, ``out`` having squares of some dimensions: they only grow."""
    hits = 0
    for j in range(count):
        hits += int(np.sqrt(out[j]) <= limit)
    return hits


@inner
def product_hits(function: int, dimension: int, norms: F64, rests: F64, norm: float, rest: float, limit: float, out: F64) -> int:
    """Return how many objects may have a score of at most ``limit``, ``out`` having the products of some dimensions.

    What a dot product can still gain is the product of the norms of the other dimensions: ``rests`` of the objects, ``rest`` of x. The
    slack covers the rounding of all sums and norms. NaN of an overflow is a hit, NaN of a null vector is none.
    """
    count, hits, slack = len(norms), 0, (4.0 * dimension + 64.0) * 2.0**-53
    if norm != norm:
        return 0
    if norm < LEAST_NORM:
        return count
    for j in range(count):
        product = norms[j] * norm
        most = out[j] + (rests[j] * rest + slack * product)
        score = -most if function == DOT else -(most / product)
        hits += int(norms[j] == norms[j]) & (1 - int(score > limit) | int(norms[j] < LEAST_NORM))
    return hits


@inner
def hits_before(
    function: int, columns: F64, row: int, dimension: int, start: int, count: int, x: F64, part: int, limit: float, out: F64
) -> int:  # fmt: skip
    """Return how many objects may have a score of at most ``limit``, ``out`` having the sums of the dimensions before ``part``.

    ``x`` begins with the vector that the objects are compared with.
    """
    if function == L2:
        return distance_hits(count, limit, out)
    norms, rests = columns[row + dimension, start : start + count], columns[row + dimension + part, start : start + count]
    return product_hits(function, dimension, norms, rests, x[dimension], x[dimension + part], limit, out)


@inner
def reach(
    function: int, columns: F64, row: int, dimension: int, start: int, count: int, x: F64, at: int, limit: float, out: F64
) -> bool:  # fmt: skip
    """Fill ``out`` as ``dot_x`` or ``squares_x`` does; or return False, if no score (negated for DOT and COSINE) is at most ``limit``.

    The parts that are left are not read then: after few of them if the limit is far from the scores of most objects.
    """
    clear(count, out)
    for part in range(PARTS):
        first, stop = part_start(dimension, part), part_start(dimension, part + 1)
        if function == L2:
            add_squares(columns, row + first, stop - first, start, count, x, at + first, out)
        else:
            add_products(columns, row + first, stop - first, start, count, x, at + first, out)
        if part + 1 < PARTS and hits_before(function, columns, row, dimension, start, count, x[at:], part + 1, limit, out) == 0:
            return False
    return True
