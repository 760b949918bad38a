"""Run a score program (``single_rows.score_programs``): scores of rows or queries, and bounds of the scores in boxes.

A bound is the operation on the ends of its operands' intervals. Where that says nothing (a divisor that may be 0, the root of a number
that may be less than 0, infinite ends) it is infinite or not a number, and stays so to the end. So while both bounds of a score are finite,
every point of the box has a score, and it lies between them.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, AnyArray
from skyband.operators.jit import inner
from skyband.operators.single_rows.score_programs import (
    ABSOLUTE,
    ADD,
    DIVIDE,
    FIRST_UNARY,
    LEAST,
    LEFT,
    MULTIPLY,
    NEGATE,
    OPERATION,
    RIGHT,
    ROOT,
    SQUARE,
    SUBTRACT,
    TARGET,
    TILE,
    ScoreProgram,
)


@inner
def has_steps(program: ScoreProgram) -> bool:
    """Return True if scores come from the program's steps, False if they are weighted sums."""
    return program.result >= 0


# ------------------------------------------------------------------ scores


@inner
def _unary(operation: int, x: F64, out: F64) -> None:
    """Write the operation on every value of ``x`` (n,) to ``out`` (n,)."""
    n = len(out)
    if operation == NEGATE:
        for i in range(n):
            out[i] = -x[i]
    elif operation == ABSOLUTE:
        for i in range(n):
            out[i] = abs(x[i])
    elif operation == SQUARE:
        for i in range(n):
            out[i] = x[i] * x[i]
    elif operation == ROOT:
        for i in range(n):
            out[i] = np.sqrt(x[i])
    else:
        for i in range(n):
            out[i] = np.floor(x[i])


@inner
def _binary(operation: int, x: F64, y: F64, out: F64) -> None:
    """Write the operation on every value of ``x`` and ``y`` (n,) to ``out`` (n,)."""
    n = len(out)
    if operation == ADD:
        for i in range(n):
            out[i] = x[i] + y[i]
    elif operation == SUBTRACT:
        for i in range(n):
            out[i] = x[i] - y[i]
    elif operation == MULTIPLY:
        for i in range(n):
            out[i] = x[i] * y[i]
    elif operation == DIVIDE:
        for i in range(n):
            out[i] = x[i] / y[i]
    elif operation == LEAST:
        for i in range(n):
            out[i] = x[i] if x[i] < y[i] or x[i] != x[i] else y[i]
    else:
        for i in range(n):
            out[i] = x[i] if x[i] > y[i] or x[i] != x[i] else y[i]


@inner
def _run(program: ScoreProgram, n: int, out: F64) -> None:
    """Write the scores of the first ``n`` values of the registers of all inputs to ``out`` (n,)."""
    steps, registers = program.steps, program.registers[0]
    for s in range(len(steps)):
        operation, x, y = steps[s, OPERATION], registers[steps[s, LEFT], :n], registers[steps[s, RIGHT], :n]
        if operation >= FIRST_UNARY:
            _unary(operation, x, registers[steps[s, TARGET], :n])
        else:
            _binary(operation, x, y, registers[steps[s, TARGET], :n])
    score = registers[program.result, :n]
    for i in range(n):
        out[i] = score[i] + 0.0


# ------------------------------------------------------------------ bounds


@inner
def _finite(x: float, y: float) -> float:
    """Return 0.0 if both numbers are finite, else NaN."""
    return (x - x) + (y - y)


@inner
def _bound_unary(operation: int, low: F64, high: F64, out_low: F64, out_high: F64) -> None:
    """Write the intervals of the operation on [low, high] (n,)."""
    n = len(out_low)
    if operation == NEGATE:
        for i in range(n):
            out_low[i] = -high[i]
        for i in range(n):
            out_high[i] = -low[i]
    elif operation == ROOT:
        for i in range(n):
            out_low[i] = np.sqrt(low[i])
        for i in range(n):
            out_high[i] = np.sqrt(high[i]) + (0.0 if low[i] >= 0.0 else np.nan)
    elif operation in (ABSOLUTE, SQUARE):
        for i in range(n):
            a, b = low[i], high[i]
            out_low[i] = (0.0 if a < 0.0 < b else min(abs(a), abs(b))) + _finite(a, b)
        for i in range(n):
            a, b = low[i], high[i]
            out_high[i] = max(abs(a), abs(b)) + _finite(a, b)
        if operation == SQUARE:
            for i in range(n):
                out_low[i] = out_low[i] * out_low[i]
            for i in range(n):
                out_high[i] = out_high[i] * out_high[i]
    else:
        for i in range(n):
            out_low[i] = np.floor(low[i])
        for i in range(n):
            out_high[i] = np.floor(high[i])


@inner
def _least(p: float, q: float, r: float, s: float) -> float:
    """Return the least of four numbers, NaN if one is NaN."""
    u, v = p if p < q else q, r if r < s else s
    return (u if u < v else v) + (0.0 if p == p and q == q and r == r and s == s else np.nan)


@inner
def _bound_products(a: F64, b: F64, c: F64, d: F64, out_low: F64, out_high: F64) -> None:
    """Write the intervals of the products of numbers in [a, b] and in [c, d] (n,)."""
    for i in range(len(out_low)):
        out_low[i] = _least(a[i] * c[i], a[i] * d[i], b[i] * c[i], b[i] * d[i])
    for i in range(len(out_low)):
        out_high[i] = -_least(-(a[i] * c[i]), -(a[i] * d[i]), -(b[i] * c[i]), -(b[i] * d[i]))


@inner
def _bound_quotients(a: F64, b: F64, c: F64, d: F64, out_low: F64, out_high: F64) -> None:
    """Write the intervals of the quotients of numbers in [a, b] and in [c, d] (n,)."""
    for i in range(len(out_low)):
        u = _finite(a[i], b[i]) + _finite(c[i], d[i]) if c[i] > 0.0 or d[i] < 0.0 else np.nan
        out_low[i] = _least(a[i] / c[i], a[i] / d[i], b[i] / c[i], b[i] / d[i]) + u
    for i in range(len(out_low)):
        u = _finite(a[i], b[i]) + _finite(c[i], d[i]) if c[i] > 0.0 or d[i] < 0.0 else np.nan
        out_high[i] = u - _least(-(a[i] / c[i]), -(a[i] / d[i]), -(b[i] / c[i]), -(b[i] / d[i]))


@inner
def _bound_binary(operation: int, a: F64, b: F64, c: F64, d: F64, out_low: F64, out_high: F64) -> None:
    """Write the intervals of the operation on numbers in [a, b] and in [c, d] (n,)."""
    n = len(out_low)
    if operation == ADD:
        for i in range(n):
            out_low[i] = a[i] + c[i]
        for i in range(n):
            out_high[i] = b[i] + d[i]
    elif operation == SUBTRACT:
        for i in range(n):
            out_low[i] = a[i] - d[i]
        for i in range(n):
            out_high[i] = b[i] - c[i]
    elif operation == MULTIPLY:
        _bound_products(a, b, c, d, out_low, out_high)
    elif operation == DIVIDE:
        _bound_quotients(a, b, c, d, out_low, out_high)
    elif operation == LEAST:
        for i in range(n):
            out_low[i] = min(a[i], c[i]) + _finite(a[i], b[i]) + _finite(c[i], d[i])
        for i in range(n):
            out_high[i] = min(b[i], d[i]) + _finite(a[i], b[i]) + _finite(c[i], d[i])
    else:
        for i in range(n):
            out_low[i] = max(a[i], c[i]) + _finite(a[i], b[i]) + _finite(c[i], d[i])
        for i in range(n):
            out_high[i] = max(b[i], d[i]) + _finite(a[i], b[i]) + _finite(c[i], d[i])


@inner
def _bound(program: ScoreProgram, n: int) -> None:
    """Compute the registers of both halves from the first ``n`` values of those of all inputs."""
    steps, low, high = program.steps, program.registers[0], program.registers[1]
    for s in range(len(steps)):
        operation, x, y, out = steps[s, OPERATION], steps[s, LEFT], steps[s, RIGHT], steps[s, TARGET]
        if operation >= FIRST_UNARY:
            _bound_unary(operation, low[x, :n], high[x, :n], low[out, :n], high[out, :n])
        else:
            _bound_binary(operation, low[x, :n], high[x, :n], low[y, :n], high[y, :n], low[out, :n], high[out, :n])


# ------------------------------------------------------------------ inputs


@inner
def _fill(x: F64, value: float) -> None:
    for i in range(len(x)):
        x[i] = value


@inner
def _copy(x: F64, values: F64) -> None:
    for i in range(len(x)):
        x[i] = values[i]


@inner
def _load_constants(constants: F64, queries: AnyArray, first: int, n: int, registers: F64) -> None:
    """Write the constants of ``n`` queries from the ``first`` one of ``queries`` (all, if it is empty) to as many of ``registers``.

    ``constants`` float64 (constants, Q).
    """
    for c in range(len(constants)):
        x, column = registers[c, :n], constants[c]
        if len(queries) > 0:
            for i in range(n):
                x[i] = column[queries[first + i]]
        else:
            _copy(x, column[first : first + n])


@inner
def score_rows_by_steps(program: ScoreProgram, constants: F64, values: F64, begin: int, end: int, out: F64) -> None:
    """Write the scores of rows [begin, end) of ``values`` (d, rows) for one query to ``out``. ``constants`` float64 (constants,)."""
    registers, d = program.registers[0], len(values)
    for c in range(len(constants)):
        _fill(registers[d + c], constants[c])
    for first in range(begin, end, TILE):
        n = min(TILE, end - first)
        for t in range(d):
            _copy(registers[t, :n], values[t, first : first + n])
        _run(program, n, out[first - begin : first - begin + n])


@inner
def score_queries_by_steps(program: ScoreProgram, constants: F64, queries: AnyArray, point: F64, scores: F64) -> None:
    """Write a point's scores for all of ``scores`` (n,) queries: ``queries`` int32 (n,), or empty for queries 0 to n - 1.

    ``constants`` float64 (constants, Q), ``point`` float64 (d,).
    """
    registers, d = program.registers[0], len(point)
    for first in range(0, len(scores), TILE):
        n = min(TILE, len(scores) - first)
        for t in range(d):
            _fill(registers[t, :n], point[t])
        _load_constants(constants, queries, first, n, registers[d:])
        _run(program, n, scores[first : first + n])


@inner
def bound_queries_by_steps(
    program: ScoreProgram, constants: F64, queries: AnyArray, low: F64, high: F64, least: F64, most: F64
) -> None:  # fmt: skip
    """Write bounds of the scores in the box [low, high] (d,) to ``least`` and ``most`` (n,); queries as in ``score_queries_by_steps``."""
    lows, highs, d = program.registers[0], program.registers[1], len(low)
    for first in range(0, len(most), TILE):
        n = min(TILE, len(most) - first)
        for t in range(d):
            _fill(lows[t, :n], low[t])
            _fill(highs[t, :n], high[t])
        _load_constants(constants, queries, first, n, lows[d:])
        for c in range(len(constants)):
            _copy(highs[d + c, :n], lows[d + c, :n])
        _bound(program, n)
        _copy(least[first : first + n], lows[program.result])
        _copy(most[first : first + n], highs[program.result])


@inner
def bound_boxes_by_steps(program: ScoreProgram, constants: F64, low: F64, high: F64, begin: int, end: int, most: F64) -> None:
    """Write upper bounds of one query's scores in boxes [begin, end) of [low, high] (d, boxes) to ``most``.

    ``constants`` float64 (constants,).
    """
    lows, highs, d = program.registers[0], program.registers[1], len(low)
    for c in range(len(constants)):
        _fill(lows[d + c], constants[c])
        _fill(highs[d + c], constants[c])
    for first in range(begin, end, TILE):
        n = min(TILE, end - first)
        for t in range(d):
            _copy(lows[t, :n], low[t, first : first + n])
            _copy(highs[t, :n], high[t, first : first + n])
        _bound(program, n)
        _copy(most[first - begin : first - begin + n], highs[program.result])
