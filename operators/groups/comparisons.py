"""Comparisons of aggregates of decimals with numbers, and with each other, rewritten so that whole numbers are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from skyband.operators.base import UNITS
from skyband.operators.expressions.ast import Attr, Binary, Call, IsNull, Literal_, Node, Unary
from skyband.operators.groups.decimals import code_of

_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEVER: Final = {"=": "<>", "<>": "="}
"""What a whole number says of itself where it is compared with a number between two others: no number equals it."""


def code_name(spelling: str) -> str:
    """Return the attribute with the codes of an aggregate of decimals."""
    return UNITS + spelling


def exact(node: Node, scales: Mapping[str, int]) -> Node:
    """Return an expression over aggregates with exact comparisons; ``scales``: digits after the point of those that are decimals."""
    if isinstance(node, Binary):
        if node.op in _TURNED:
            found = _comparison(node, scales)
            if found is not None:
                return found
        return replace(node, x=exact(node.x, scales), y=exact(node.y, scales))
    if isinstance(node, Unary | IsNull):
        return replace(node, x=exact(node.x, scales))
    if isinstance(node, Call):
        return replace(node, args=tuple(exact(a, scales) for a in node.args))
    return node


def _comparison(node: Binary, scales: Mapping[str, int]) -> Node | None:
    """Return a comparison of whole numbers for one of decimals of one scale, or of decimals and a number; None for others."""
    x, y, op = node.x, node.y, node.op
    if not _is_decimal(x, scales):
        x, y, op = y, x, _TURNED[op]
    if not isinstance(x, Attr) or not _is_decimal(x, scales):
        return None
    units = replace(x, name=code_name(x.name), type="int")
    if isinstance(y, Attr):
        same = scales.get(y.name) == scales[x.name]
        return replace(node, op=op, x=units, y=replace(y, name=code_name(y.name), type="int")) if same else None
    if not isinstance(y, Literal_) or y.type not in ("int", "float") or not isinstance(y.value, int | float):
        return None
    number = Fraction(repr(y.value)) * 10 ** scales[x.name]
    if number.denominator != 1 and op in _NEVER:
        return replace(node, op=_NEVER[op], x=units, y=units)
    whole = math.floor(number) if op in (">", "<=") else math.ceil(number)
    return replace(node, op=op, x=units, y=Literal_(value=code_of(whole), type="int", span=y.span))


def _is_decimal(node: Node, scales: Mapping[str, int]) -> bool:
    return isinstance(node, Attr) and node.name in scales
