"""The expression language, straight from its definition: one object (or pair) at a time, null as None, by recursion. Slow and plain.

Values: float, int (kinds int, time, duration), str, bool, None for null. A float is never NaN here: NaN and null are the same thing.
"""

import math
from collections.abc import Mapping

from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary

Scalar = float | int | str | bool | None


def evaluate(node: Node, columns: Mapping[tuple[str, str], Scalar]) -> Scalar:
    """The value of ``node``; ``columns[side, name]`` is the attribute of the object at hand."""
    if isinstance(node, Literal_):
        return node.value
    if isinstance(node, Attr):
        return nothing_if_nan(columns[node.side, node.name])
    if isinstance(node, IsNull):
        return (evaluate(node.x, columns) is None) != node.negated
    if isinstance(node, In):
        found = any_true([compare("=", node.x, option, columns) for option in node.options])
        return opposite(found) if node.negated else found
    if isinstance(node, Unary):
        if node.op == "not":
            return opposite(evaluate(node.x, columns))
        if node.type == "duration":
            x = evaluate(node.x, columns)
            return None if x is None else int64(-x)
        x = number(node.x, columns)
        return None if x is None else -x
    if isinstance(node, Binary):
        return binary(node, columns)
    if isinstance(node, Call):
        return call(node, columns)
    raise AssertionError(node)


def score(node: Node | None, where: Node | None, negate: bool, columns: Mapping[tuple[str, str], Scalar]) -> float:
    """What a kernel gives: NaN if null or the predicate is not true; negated on demand; no -0.0."""
    if where is not None and evaluate(where, columns) is not True:
        return math.nan
    x = 0.0 if node is None else number(node, columns)
    if x is None:
        return math.nan
    x = -x if negate else x
    return 0.0 if x == 0 else x


def nothing_if_nan(x: Scalar) -> Scalar:
    return None if isinstance(x, float) and math.isnan(x) else x


def int64(x: int) -> int:
    """Two's complement, as every int64 operation."""
    return (x + 2**63) % 2**64 - 2**63


def number(node: Node, columns: Mapping[tuple[str, str], Scalar]) -> float | None:
    """``node`` as a float; a duration is its seconds."""
    x = evaluate(node, columns)
    if x is None:
        return None
    return float(x) / 1e6 if node.type == "duration" else float(x)


def opposite(x: Scalar) -> bool | None:
    return None if x is None else not x


def any_true(values: list[bool | None]) -> bool | None:
    if True in values:
        return True
    return None if None in values else False


def binary(node: Binary, columns: Mapping[tuple[str, str], Scalar]) -> Scalar:
    if node.op in ("and", "or"):
        x, y = evaluate(node.x, columns), evaluate(node.y, columns)
        return any_true([x, y]) if node.op == "or" else opposite(any_true([opposite(x), opposite(y)]))
    if node.type == "bool":
        return compare(node.op, node.x, node.y, columns)
    if node.type in ("time", "duration"):
        x, y = evaluate(node.x, columns), evaluate(node.y, columns)
        if x is None or y is None:
            return None
        return int64(x + y if node.op == "+" else x - y)
    x, y = number(node.x, columns), number(node.y, columns)
    if x is None or y is None:
        return None
    if node.op == "/":
        return nothing_if_nan(divide(x, y))
    return nothing_if_nan({"+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y}[node.op]())


def divide(x: float, y: float) -> float:
    """IEEE 754: no exception."""
    if y != 0:
        return x / y
    if x == 0 or math.isnan(x):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def compare(op: str, left: Node, right: Node, columns: Mapping[tuple[str, str], Scalar]) -> bool | None:
    if left.type == right.type:
        x, y = evaluate(left, columns), evaluate(right, columns)
    else:
        x, y = number(left, columns), number(right, columns)
    if x is None or y is None:
        return None
    return {"=": x == y, "<>": x != y}[op] if op in ("=", "<>") else {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]


def call(node: Call, columns: Mapping[tuple[str, str], Scalar]) -> Scalar:
    if node.fn == "where":
        chosen = node.args[1] if evaluate(node.args[0], columns) is True else node.args[2]
        return number(chosen, columns) if node.type == "float" else evaluate(chosen, columns)
    exact = node.type in ("time", "duration")
    args = [evaluate(a, columns) if exact else number(a, columns) for a in node.args]
    if any(a is None for a in args):
        return None
    if node.fn == "abs":
        return int64(abs(args[0])) if exact else abs(args[0])
    if node.fn in ("min", "max"):
        best = args[0]
        for other in args[1:]:  # of equal ones (0.0 and -0.0) the later
            best = best if (best < other if node.fn == "min" else best > other) else other
        return best
    return nothing_if_nan({"sqrt": root, "log": log, "exp": exp, "pow": power, "floor": floor}[node.fn](*args))


def root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def log(x: float) -> float:
    return math.nan if x < 0 else -math.inf if x == 0 else math.log(x)


def exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def power(x: float, y: float) -> float:
    odd = math.isfinite(y) and y == math.floor(y) and math.fmod(y, 2) != 0
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf
    except ValueError:
        if x == 0:  # and y < 0
            return math.copysign(math.inf, x) if odd else math.inf
        return math.nan


def floor(x: float) -> float:
    if math.isinf(x):
        return x
    return math.copysign(float(math.floor(x)), x) if x == 0 else float(math.floor(x))
