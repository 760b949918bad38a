"""Comparisons of aggregates of decimals and of whole numbers with numbers, and with each other, rewritten so that int64 are compared.

A decimal is compared by its code (``decimals``). A whole number, which may be a sum beyond int64, is compared by its *limbs*: its value
divided by 2^32, rounded down, and the remainder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Final

from skyband.operators.base import UNITS
from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary
from skyband.operators.groups.decimals import code_of

_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEVER: Final = {"=": "<>", "<>": "="}
"""What a whole number says of itself where it is compared with a number between two others: no number equals it."""
LIMB: Final = 32
"""Bits of the lower limb of a whole number."""
_LARGEST: Final = (1 << 63) - 1


def code_name(spelling: str) -> str:
    """Return the attribute with the codes of an aggregate of decimals."""
    return UNITS + spelling


def limb_names(spelling: str) -> tuple[str, str]:
    """Return the attributes with the upper and the lower limbs of an aggregate of whole numbers."""
    return f"{UNITS}high {spelling}", f"{UNITS}low {spelling}"


def exact(node: Node, scales: Mapping[str, int], wholes: Mapping[str, bool]) -> Node:
    """Return an expression over aggregates with exact comparisons.

    ``scales``: digits after the point of those that are decimals. ``wholes``: those that are whole numbers; False for counts, whose doubles
    are exact.
    """
    if isinstance(node, Binary):
        found = _comparison(node, scales, wholes) if node.op in _TURNED else None
        return found or replace(node, x=exact(node.x, scales, wholes), y=exact(node.y, scales, wholes))
    if isinstance(node, In):
        return _one_of(node, scales, wholes)
    if isinstance(node, Unary | IsNull):
        return replace(node, x=exact(node.x, scales, wholes))
    if isinstance(node, Call):
        return replace(node, args=tuple(exact(a, scales, wholes) for a in node.args))
    return node


def _one_of(node: In, scales: Mapping[str, int], wholes: Mapping[str, bool]) -> Node:
    """Return ``x in (a, b)`` as ``x = a or x = b``, if these are exact."""
    x = node.x
    if not isinstance(x, Attr) or (x.name not in scales and not wholes.get(x.name)):
        return replace(node, x=exact(x, scales, wholes))
    equal = [exact(Binary(op="=", x=x, y=option, type="bool", span=node.span), scales, wholes) for option in node.options]
    found = reduce(lambda a, b: _either(node, a, b), equal)
    return Unary(op="not", x=found, type="bool", span=node.span) if node.negated else found


def _comparison(node: Binary, scales: Mapping[str, int], wholes: Mapping[str, bool]) -> Node | None:
    """Return a comparison of int64 for one of aggregates of one kind, or of an aggregate and a number; None for others.

    Decimals are of one kind if they have one scale.
    """
    x, y, op = node.x, node.y, node.op
    if not isinstance(x, Attr) or (x.name not in scales and x.name not in wholes):
        x, y, op = y, x, _TURNED[op]
    if not isinstance(x, Attr) or (x.name not in scales and x.name not in wholes):
        return None
    if isinstance(y, Attr):
        if x.name in wholes:
            return _by_limbs(node, op, _limbs(x), _limbs(y)) if y.name in wholes and (wholes[x.name] or wholes[y.name]) else None
        same = scales.get(y.name) == scales[x.name]
        return replace(node, op=op, x=_coded(x), y=_coded(y)) if same else None
    if not isinstance(y, Literal_) or y.type not in ("int", "float") or not isinstance(y.value, int | float):
        return None
    if wholes.get(x.name) is False:
        return None
    number = Fraction(repr(y.value)) * 10 ** scales.get(x.name, 0)
    if number.denominator != 1 and op in _NEVER:
        units = _limbs(x)[0] if x.name in wholes else _coded(x)
        return replace(node, op=_NEVER[op], x=units, y=units)
    whole = math.floor(number) if op in (">", "<=") else math.ceil(number)
    if x.name in wholes:
        high, low = max(-_LARGEST, min(whole >> LIMB, _LARGEST)), whole & ((1 << LIMB) - 1)
        return _by_limbs(node, op, _limbs(x), (_literal(y, high), _literal(y, low)))
    return replace(node, op=op, x=_coded(x), y=_literal(y, code_of(whole)))


def _by_limbs(node: Node, op: str, x: tuple[Node, Node], y: tuple[Node, Node]) -> Node:
    """Return the comparison of two numbers by their upper limbs, and if these are equal by the lower ones."""
    high, low = (Binary(op=op, x=a, y=b, type="bool", span=node.span) for a, b in zip(x, y, strict=True))
    if op in _NEVER:
        return Binary(op="and", x=high, y=low, type="bool", span=node.span) if op == "=" else _either(node, high, low)
    equal = replace(high, op="=")
    return _either(node, replace(high, op=op[0]), Binary(op="and", x=equal, y=low, type="bool", span=node.span))


def _either(node: Node, x: Node, y: Node) -> Node:
    return Binary(op="or", x=x, y=y, type="bool", span=node.span)


def _coded(x: Attr) -> Attr:
    return replace(x, name=code_name(x.name), type="int")


def _limbs(x: Attr) -> tuple[Attr, Attr]:
    high, low = limb_names(x.name)
    return replace(x, name=high, type="int"), replace(x, name=low, type="int")


def _literal(y: Literal_, value: int) -> Literal_:
    return Literal_(value=value, type="int", span=y.span)
