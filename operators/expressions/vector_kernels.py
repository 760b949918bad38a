"""Kernels of vectors for generated code: one vector, or one per object, against a block of objects.

A block's sums are in the first-level cache, and a pass over it takes ``STEP`` dimensions, so that a dimension costs one load per object.
The objects of a block are independent, which is what the processor's vector units need: no sum is reordered (see ``vectors``).
"""

from __future__ import annotations

from typing import Final

from skyband.operators.base import F64
from skyband.operators.jit import inner

BLOCK: Final = 1024
"""Objects of a block, at most: their sums take 8 KB."""
STEP: Final = 8
"""Dimensions of a pass."""


@inner
def dot_x(columns: F64, row: int, dimension: int, start: int, count: int, x: F64, at: int, out: F64) -> None:
    """Set ``out[j]`` to the dot product of object start + j, whose vector begins at row ``row``, with the one at ``x[at]``; j < count."""
    for j in range(count):
        out[j] = 0.0
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
    for j in range(count):
        out[j] = 0.0
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
    for j in range(count):
        out[j] = 0.0
    for k in range(dimension):
        x, y = columns[row + k, start : start + count], columns[other + k, start : start + count]
        for j in range(count):
            out[j] += x[j] * y[j]


@inner
def squares_columns(columns: F64, row: int, other: int, dimension: int, start: int, count: int, out: F64) -> None:
    """Set ``out[j]`` to the sum of squared differences; see ``dot_columns``."""
    for j in range(count):
        out[j] = 0.0
    for k in range(dimension):
        x, y = columns[row + k, start : start + count], columns[other + k, start : start + count]
        for j in range(count):
            out[j] += (x[j] - y[j]) * (x[j] - y[j])
