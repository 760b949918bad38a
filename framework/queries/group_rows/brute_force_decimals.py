"""Comparisons of decimals and whole numbers by definition: exact numbers are compared, the rest sees which are true."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any, Final, overload

import numpy as np

from skyband.framework.verify.brute_force.expressions import Values
from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Columns = Mapping[str, list[Any]]
"""Aggregates of decimals and whole numbers, by their attributes: a fraction or an int of each group, or NaN for null."""
Scales = Mapping[str, int | None]
"""Digits after the point of aggregates of decimals, None for those of whole numbers, by their attributes."""


@overload
def judged(node: Node, decimals: Columns, scales: Scales, objects: dict[str, Values]) -> Node: ...
@overload
def judged(node: None, decimals: Columns, scales: Scales, objects: dict[str, Values]) -> None: ...
def judged(node: Node | None, decimals: Columns, scales: Scales, objects: dict[str, Values]) -> Node | None:
    """Return an expression with an attribute, whose values go to ``objects``, for every exact comparison with a number or each other.

    Those of different ``scales`` compare as doubles, as all others do.
    """
    if isinstance(node, In):
        if _fractions(node.x, decimals) is None:
            return replace(node, x=judged(node.x, decimals, scales, objects))
        equal = [judged(Binary(op="=", x=node.x, y=o, type="bool", span=node.span), decimals, scales, objects) for o in node.options]
        found = reduce(lambda x, y: Binary(op="or", x=x, y=y, type="bool", span=node.span), equal)
        return Unary(op="not", x=found, type="bool", span=node.span) if node.negated else found
    if isinstance(node, Binary):
        sides = [_fractions(side, decimals) for side in (node.x, node.y)] if node.op in _COMPARE else [None]
        if None not in sides and len({scales[side.name] for side in (node.x, node.y) if isinstance(side, Attr)}) == 1:
            name = f"?{len(objects)}"
            objects[name] = _compared(_COMPARE[node.op], *sides)
            return Attr(side="", name=name, type="bool")
        return replace(node, x=judged(node.x, decimals, scales, objects), y=judged(node.y, decimals, scales, objects))
    if isinstance(node, Unary | IsNull):
        return replace(node, x=judged(node.x, decimals, scales, objects))
    if isinstance(node, Call):
        return replace(node, args=tuple(judged(a, decimals, scales, objects) for a in node.args))
    return node


def _fractions(node: Node, decimals: Columns) -> list[Any] | None:
    """Return the values of a side of a comparison, one for all groups if it is a number as a person wrote it."""
    if isinstance(node, Attr):
        return decimals.get(node.name)
    if isinstance(node, Literal_) and node.type in ("int", "float"):
        return [Fraction(repr(node.value))]
    return None


def _compared(compare: Callable[[Any, Any], bool], x: Any, y: Any) -> Values:
    n = max(len(x), len(y))
    pairs = list(zip(x * n if len(x) == 1 else x, y * n if len(y) == 1 else y, strict=True))
    valid = np.array([a == a and b == b for a, b in pairs], bool)
    return Values(np.array([compare(a, b) for a, b in pairs], bool), valid)
