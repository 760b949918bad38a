"""A score with constants of its own for every query, as a program that kernels run for many rows, queries or boxes at once.

Every step is one IEEE operation, in the order of the expression, so scores have the bytes that the expression alone would give. Only
operations that are monotone in each operand (piecewise, as the product) have a step: then the operation on the ends of intervals, rounded
as always, bounds the operation on all numbers between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.expressions.ast import Attr, Binary, Call, Literal_, Node, Unary
from skyband.operators.expressions.canonical import canonical

ADD, SUBTRACT, MULTIPLY, DIVIDE, LEAST, GREATEST, NEGATE, ABSOLUTE, SQUARE, ROOT, FLOOR = range(11)
"""Operations, those of one operand last."""

FIRST_UNARY: Final = NEGATE
"""From here on operations have one operand."""

OPERATION, LEFT, RIGHT, TARGET = range(4)
"""The columns of ``ScoreProgram.steps``."""

TILE: Final = 128
"""So many values are computed at once."""

MAX_STEPS, MAX_REGISTERS = 200, 64
"""Longer programs are not made: a pass of a kernel compiled for the expression would be cheaper than their steps."""

_BINARY: Final = {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE}
_UNARY: Final = {"abs": ABSOLUTE, "sqrt": ROOT, "floor": FLOOR}
_FOLDED: Final = {"min": LEAST, "max": GREATEST}


class ScoreProgram(NamedTuple):
    """Steps, and registers to run them on. Weighted sums have none: kernels have code of their own for them.

    ``steps`` int64 (steps, 4): the operation, its operands and its target, which is neither of them. ``registers`` float64 (2, registers,
    TILE): scratch space; first the attributes, then the query's constants, then room for results; intervals use both halves. ``result``:
    the register of the score, -1 for weighted sums.
    """

    steps: I64
    registers: F64
    result: int


WEIGHTED_SUM: Final = ScoreProgram(np.empty((0, 4), np.int64), np.empty((2, 0, TILE)), -1)


class _UnboundedError(Exception):
    """The expression has an operation without step."""


class _Writer:
    """Collects the steps of an expression over ``inputs``; its numbers become further inputs. Registers less than 0 are results."""

    def __init__(self, inputs: Sequence[str]) -> None:
        self.inputs = {name: i for i, name in enumerate(inputs)}
        self.numbers: list[float] = []
        self.steps: list[tuple[int, int, int, int]] = []
        self.free: list[int] = []
        self.results = 0

    def number(self, value: float) -> int:
        self.numbers.append(value)
        return len(self.inputs) + len(self.numbers) - 1

    def step(self, operation: int, left: int, right: int) -> int:
        """Add a step; return its target."""
        if not self.free:
            self.results += 1
            self.free.append(-self.results)
        target = self.free.pop()
        self.steps.append((operation, left, right, target))
        self.free += [register for register in {left, right} if register < 0]
        if len(self.steps) > MAX_STEPS or len(self.inputs) + len(self.numbers) + self.results > MAX_REGISTERS:
            raise _UnboundedError("so long an expression")
        return target

    def write(self, node: Node) -> int:
        """Add the steps of ``node``; return the register of its value."""
        if isinstance(node, Attr) and node.type in ("float", "int"):
            return self.inputs[node.name]
        if isinstance(node, Literal_) and node.type in ("float", "int"):
            return self.number(float(node.value or 0.0))
        if isinstance(node, Unary) and node.type == "float":
            x = self.write(node.x)
            return self.step(NEGATE, x, x)
        if isinstance(node, Binary) and node.type == "float":
            x = self.write(node.x)
            if node.op == "*" and canonical(node.x) == canonical(node.y):
                return self.step(SQUARE, x, x)
            return self.step(_BINARY[node.op], x, self.write(node.y))
        if isinstance(node, Call) and node.type == "float" and node.fn in _UNARY:
            x = self.write(node.args[0])
            return self.step(_UNARY[node.fn], x, x)
        if isinstance(node, Call) and node.type == "float" and node.fn == "ceil":
            x = self.write(node.args[0])
            for operation in (NEGATE, FLOOR, NEGATE):
                x = self.step(operation, x, x)
            return x
        if isinstance(node, Call) and node.type == "float" and node.fn in _FOLDED:
            x = self.write(node.args[0])
            for other in node.args[1:]:
                x = self.step(_FOLDED[node.fn], x, self.write(other))
            return x
        raise _UnboundedError(f"{node.fn}(...)" if isinstance(node, Call) else canonical(node))


def without_bounds(score: Node, inputs: Sequence[str]) -> str | None:
    """Return the part of ``score``, an expression over ``inputs``, that has no bounds on a box, or None if all of it has."""
    try:
        _Writer(inputs).write(score)
    except _UnboundedError as e:
        return str(e)
    return None


def score_program(score: Node, attributes: Sequence[str], parameters: Sequence[str], constants: F64, sign: F64) -> tuple[ScoreProgram, F64]:
    """Return the program of ``score`` times ``sign`` float64 (Q,), and all constants it reads, float64 (Q, constants).

    ``constants`` float64 (Q, parameters) has a query's values of ``parameters``. Raises ValueError if ``score`` has no program.
    """
    writer = _Writer([*attributes, *parameters])
    try:
        result = writer.write(score)
        columns = [*constants.T, *(np.full(len(sign), number) for number in writer.numbers)]
        if (sign < 0).any():
            result = writer.step(MULTIPLY, result, writer.number(-1.0))
            columns.append(sign)
    except _UnboundedError as e:
        raise ValueError(f"{e} has no bounds that a grid could use") from None
    inputs = len(attributes) + len(columns)
    steps = np.array(writer.steps, np.int64).reshape(-1, 4)
    steps[:, LEFT:] = np.where(steps[:, LEFT:] < 0, inputs - 1 - steps[:, LEFT:], steps[:, LEFT:])
    registers = np.zeros((2, inputs + writer.results, TILE))
    table = np.stack(columns, axis=1) if columns else np.empty((len(sign), 0))
    return ScoreProgram(steps, registers, result if result >= 0 else inputs - 1 - result), np.ascontiguousarray(table, np.float64)


def program_scores(program: ScoreProgram, inputs: Sequence[Any]) -> F64:
    """Return the scores of ``inputs``, float64 arrays or numbers of one shape after broadcasting. NumPy's twin of the kernels.

    O(steps) passes.
    """
    values: dict[int, Any] = dict(enumerate(inputs))
    with np.errstate(all="ignore"):
        for operation, left, right, target in program.steps.tolist():
            x, y = values[left], values[right]
            values[target] = _unary(operation, x) if operation >= FIRST_UNARY else _binary(operation, x, y)
        scores: F64 = np.asarray(values[program.result]) + 0.0
    return scores


def _unary(operation: int, x: Any) -> Any:
    if operation == NEGATE:
        return -x
    if operation == ABSOLUTE:
        return np.abs(x)
    if operation == SQUARE:
        return x * x
    return np.sqrt(x) if operation == ROOT else np.floor(x)


def _binary(operation: int, x: Any, y: Any) -> Any:
    if operation == ADD:
        return x + y
    if operation == SUBTRACT:
        return x - y
    if operation == MULTIPLY:
        return x * y
    if operation == DIVIDE:
        return np.divide(x, y)
    return np.where((x < y if operation == LEAST else x > y) | (x != x), x, y)
