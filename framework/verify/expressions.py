"""The expression language by its definition, one object or pair at a time, over plain Python values: what ``verify`` scores with.

Shares with the operators the syntax tree and nothing else. An object is a mapping of column names to values: float, int (whole numbers,
instants and durations in microseconds), str, bool, or None for null. NaN is null, so no value here is ever NaN.

* Arithmetic is float64 (IEEE 754: no division by zero raises, nothing overflows); a duration where a number is needed is its seconds.
* Whole numbers, instants and durations compare exactly among themselves; their sums and differences wrap at 64 bits.
* Null gives null, in arithmetic and in functions; ``and``, ``or`` and ``not`` know true, false and null; ``where`` takes its last argument
  unless the condition is true. Of equal values ``min`` and ``max`` take the later (0.0 and -0.0 are equal).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary

Object: TypeAlias = Mapping[str, Any]
Meaning: TypeAlias = Callable[[Object, Object], Any]
"""The value of an expression over the objects a and b; one over a single object looks at the first."""


def score_of(node: Node) -> Callable[[Object, Object], float | None]:
    """The score an expression gives, None for none; -0.0 is 0.0."""
    value = _number(node)

    def score(a: Object, b: Object) -> float | None:
        x: float | None = value(a, b)
        return None if x is None else x + 0.0

    return score


def holds(node: Node | None) -> Callable[[Object, Object], bool]:
    """Whether a condition is true; no condition always is."""
    if node is None:
        return lambda a, b: True
    value = meaning(node)
    return lambda a, b: value(a, b) is True


def meaning(node: Node) -> Meaning:
    """What ``node`` means. Raises TypeError for what is no expression."""
    match node:
        case Literal_(value=constant):
            return lambda a, b: constant
        case Attr(side=side, name=name):
            return _attribute(side, name)
        case IsNull(x=x, negated=negated):
            value = meaning(x)
            return lambda a, b: (value(a, b) is None) != negated
        case In(x=x, options=options, negated=negated):
            return _in([_comparison("=", x, option) for option in options], negated)
        case Unary(op="not", x=x):
            value = meaning(x)
            return lambda a, b: _not(value(a, b))
        case Unary(x=x):
            exact = node.type == "duration"
            value = meaning(x) if exact else _number(x)
            return lambda a, b: None if (v := value(a, b)) is None else _int64(-v) if exact else -v
        case Binary():
            return _binary(node)
        case Call():
            return _call(node)
    raise TypeError(f"not an expression: {node!r}")


def _attribute(side: str, name: str) -> Meaning:
    def first(a: Object, b: Object) -> Any:
        v = a[name]
        return v if v == v else None

    def second(a: Object, b: Object) -> Any:
        v = b[name]
        return v if v == v else None

    return second if side == "b" else first


def _number(node: Node) -> Meaning:
    """``node`` where a float is needed."""
    value = meaning(node)
    if node.type == "duration":
        return lambda a, b: None if (v := value(a, b)) is None else float(v) / 1e6
    if node.type == "int":
        return lambda a, b: None if (v := value(a, b)) is None else float(v)
    return value


def _not(x: bool | None) -> bool | None:
    return None if x is None else not x


def _any(x: bool | None, y: bool | None) -> bool | None:
    if x is True or y is True:
        return True
    return None if x is None or y is None else False


def _in(equals: list[Meaning], negated: bool) -> Meaning:
    def isin(a: Object, b: Object) -> bool | None:
        found: bool | None = False
        for equal in equals:
            found = _any(found, equal(a, b))
        return _not(found) if negated else found

    return isin


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _comparison(op: str, left: Node, right: Node) -> Meaning:
    """Values of one type as they are, else numbers as floats."""
    same = left.type == right.type
    x, y = (meaning(left), meaning(right)) if same else (_number(left), _number(right))
    test = _COMPARE[op]

    def compare(a: Object, b: Object) -> bool | None:
        v, w = x(a, b), y(a, b)
        return None if v is None or w is None else test(v, w)

    return compare


def _divide(x: float, y: float) -> float:
    if y != 0:
        return x / y
    return math.nan if x == 0 else math.copysign(math.inf, x) * math.copysign(1.0, y)


_FLOAT: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide,
}  # fmt: skip


def _binary(node: Binary) -> Meaning:
    if node.op in ("and", "or"):
        x, y = meaning(node.x), meaning(node.y)
        if node.op == "or":
            return lambda a, b: _any(x(a, b), y(a, b))
        return lambda a, b: _not(_any(_not(x(a, b)), _not(y(a, b))))
    if node.type == "bool":
        return _comparison(node.op, node.x, node.y)
    exact = node.type in ("time", "duration")
    x, y = (meaning(node.x), meaning(node.y)) if exact else (_number(node.x), _number(node.y))
    apply = _FLOAT[node.op]

    def arithmetic(a: Object, b: Object) -> Any:
        v, w = x(a, b), y(a, b)
        if v is None or w is None:
            return None
        z = apply(v, w)
        return _int64(int(z)) if exact else z if z == z else None

    return arithmetic


def _call(node: Call) -> Meaning:
    if node.fn == "where":
        asked = holds(node.args[0])
        yes, no = (_number(n) if node.type == "float" else meaning(n) for n in node.args[1:])
        return lambda a, b: yes(a, b) if asked(a, b) else no(a, b)
    exact = node.type in ("time", "duration")
    arguments = [meaning(n) if exact else _number(n) for n in node.args]
    function: Callable[..., Any] = _FUNCTIONS[node.fn]

    def call(a: Object, b: Object) -> Any:
        values = [argument(a, b) for argument in arguments]
        if None in values:
            return None
        z = function(*values)
        return _int64(z) if exact else z if z == z else None

    return call


def _int64(x: int) -> int:
    """Two's complement."""
    return (x + 2**63) % 2**64 - 2**63


def _least(first: Any, *others: Any) -> Any:
    for x in others:
        first = first if first < x else x
    return first


def _greatest(first: Any, *others: Any) -> Any:
    for x in others:
        first = first if first > x else x
    return first


def _log(x: float) -> float:
    return math.nan if x < 0 else -math.inf if x == 0 else math.log(x)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _pow(x: float, y: float) -> float:
    odd = math.isfinite(y) and math.fmod(y, 2) in (1.0, -1.0)
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf
    except ValueError:  # a root of a negative number, or zero to a negative power
        return math.nan if x != 0 else math.copysign(math.inf, x) if odd else math.inf


def _floor(x: float) -> float:
    return x if x == 0 or math.isinf(x) else float(math.floor(x))


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs, "min": _least, "max": _greatest, "log": _log, "exp": _exp, "pow": _pow, "floor": _floor,
    "sqrt": lambda x: math.nan if x < 0 else math.sqrt(x),
}  # fmt: skip
