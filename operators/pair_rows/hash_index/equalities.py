"""The equalities of a condition over pairs that a hash index can use: ``a.x = b.y``, in any number, each a conjunct of the condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from skyband.operators.expressions.ast import Attr, Binary, Node
from skyband.operators.expressions.canonical import walk
from skyband.operators.expressions.leaves import leaf

_INDEXED: Final = frozenset({"float", "int", "text", "bool", "time"})
"""Types of the columns that have an index."""

SHARE: Final = 16
"""A partner from an index costs about as much as so many of a scan."""


class Equality(NamedTuple):
    """A condition that column ``a`` of a pair's a equals column ``b`` of its b."""

    a: str
    b: str
    real: bool
    """Whether values are compared as floats."""


def conjuncts(condition: Node | None) -> Iterator[Node]:
    """Yield the conditions that all have to hold, from left to right; none for None."""
    if condition is None:
        return
    if isinstance(condition, Binary) and condition.op == "and":
        yield from conjuncts(condition.x)
        yield from conjuncts(condition.y)
    else:
        yield condition


def equality(condition: Node) -> Equality | None:
    """Return a condition as an equality of columns of both objects; None if it is none, or one of kinds that have no index."""
    if not isinstance(condition, Binary) or condition.op != "=":
        return None
    x, y = leaf(condition.x), leaf(condition.y)
    if x is None or y is None or {x.side, y.side} != {"a", "b"} or not {x.type, y.type} <= _INDEXED:
        return None
    a, b = (x, y) if x.side == "a" else (y, x)
    return Equality(a.name, b.name, _real(a, b))


def _real(a: Attr, b: Attr) -> bool:
    return a.type == "float" or a.type != b.type


def without_index(condition: Node | None) -> tuple[Node, ...]:
    """Return the conjuncts that say that a value of a equals one of b, and that an index cannot use, as they compute one of the values."""
    return tuple(part for part in conjuncts(condition) if equality(part) is None and _equates(part))


def _equates(condition: Node) -> bool:
    if not isinstance(condition, Binary) or condition.op != "=":
        return False
    x, y = ({n.side for n in walk(value) if isinstance(n, Attr)} for value in (condition.x, condition.y))
    return sorted([*x, *y]) == ["a", "b"] and len(x) == 1


def equalities(condition: Node | None) -> tuple[Equality, ...]:
    """Return the equalities among the conjuncts of a condition, each once, in order. A row with a null in one pairs with nothing."""
    found = (equality(part) for part in conjuncts(condition))
    return tuple(dict.fromkeys(e for e in found if e is not None))
