"""Prove that a score of two values of one attribute is loosely monotone, and of one sign (docs/algorithms paper 0).

A score s(a, b) is loosely monotone if, for every value of one object, it rises or falls all the way while the other's value moves away from
it, upwards or downwards; the two directions may differ. ``abs(a.x - b.x)`` is, ``sin(a.x - b.x)`` is not. The proof is over the tree, per
side and direction, where neither the values nor the score are null, and up to the last bit of functions of the C library. What it cannot
prove may still hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag
from functools import reduce
from typing import Final, NamedTuple

from skyband.operators.expressions.ast import Attr, Binary, Call, IsNull, Literal_, Node, Unary
from skyband.operators.expressions.canonical import children


class Trend(Flag):
    """What a value does as one object's value grows, the other's fixed. A constant one rises and falls; all that does either is steady."""

    NONE = 0
    RISES = 1
    FALLS = 2
    STEADY = 4
    CONSTANT = 7


class Sign(Flag):
    """What is known of the sign of a value that is not null."""

    UNKNOWN = 0
    NOT_NEGATIVE = 1
    NOT_POSITIVE = 2


class Facts(NamedTuple):
    """What is known of a part of a score."""

    trend: Trend
    sign: Sign


_DIRECTIONS: Final = Trend.RISES | Trend.FALLS
_UNKNOWN: Final = Facts(Trend.NONE, Sign.UNKNOWN)
_RISING: Final = frozenset({"sqrt", "exp", "log", "floor", "ceil", "round", "sign", "radians"})
_NOT_NEGATIVE: Final = frozenset({"sqrt", "exp", "haversine", "length", "edit_distance", "jaccard", "dice", "overlap"})
_SIGN_STAYS: Final = frozenset({"floor", "ceil", "round", "sign", "radians"})


def loosely_monotone(node: Node) -> bool:
    """Return True if ``node``, a score over one attribute of ``a`` and ``b``, is proven to be loosely monotone. O(size of the tree)."""
    return all(Trend.STEADY in _Region(side, above).facts(node).trend for side in "ab" for above in (False, True))


def sign(node: Node) -> Sign:
    """Return the sign of ``node``, a score over one attribute of ``a`` and ``b``, as far as it is proven. O(size of the tree)."""
    return _Region("a", False).facts(node).sign & _Region("a", True).facts(node).sign


@dataclass(frozen=True, slots=True)
class _Region:
    """The value of the object ``side`` grows, and is ``above`` that of the other object, or below it."""

    side: str
    above: bool

    def facts(self, node: Node) -> Facts:
        """Return what is known of ``node``."""
        parts = [self.facts(child) for child in children(node)]
        found = self._facts(node, parts)
        return found._replace(trend=Trend.CONSTANT) if parts and all(p.trend is Trend.CONSTANT for p in parts) else found

    def _facts(self, node: Node, parts: list[Facts]) -> Facts:
        match node:
            case Literal_(value=value):
                return Facts(Trend.CONSTANT, _sign_of(value) if isinstance(value, int | float) else Sign.UNKNOWN)
            case Attr():
                return Facts(Trend.RISES | Trend.STEADY if node.side == self.side else Trend.CONSTANT, Sign.UNKNOWN)
            case Unary(op="-"):
                return _negated(parts[0])
            case Binary(op="+"):
                return _sum(*parts)
            case Binary(op="-", x=x, y=y):
                found = _sum(parts[0], _negated(parts[1]))
                if isinstance(x, Attr) and isinstance(y, Attr) and x.side != y.side:
                    return found._replace(sign=Sign.NOT_NEGATIVE if (x.side == self.side) == self.above else Sign.NOT_POSITIVE)
                return found
            case Binary(op="*", x=x, y=y):
                return _product(*map(_size, parts)) if x == y else _product(*parts)
            case Binary(op="/"):
                return _product(parts[0], _inverse(parts[1]))
            case Call():
                return _call(node, parts)
        return _UNKNOWN


def _call(node: Call, parts: list[Facts]) -> Facts:
    x = parts[0]
    if node.fn in _RISING:
        stays = x.sign if node.fn in _SIGN_STAYS else Sign.UNKNOWN
        return Facts(x.trend, Sign.NOT_NEGATIVE if node.fn in _NOT_NEGATIVE else stays)
    match node.fn:
        case "abs":
            return _size(x)
        case "min":
            return _negated(reduce(_greater, map(_negated, parts)))
        case "max":
            return reduce(_greater, parts)
        case "pow":
            return _power(x, node.args[1])
        case "where" if isinstance(condition := node.args[0], IsNull) and isinstance(condition.x, Attr):
            return parts[1 if condition.negated else 2]  # of values that are not null
        case "where" if x.trend is Trend.CONSTANT:
            return Facts(_either(parts[1].trend, parts[2].trend), parts[1].sign & parts[2].sign)
    return Facts(Trend.NONE, Sign.NOT_NEGATIVE if node.fn in _NOT_NEGATIVE else Sign.UNKNOWN)


def _sign_of(value: float) -> Sign:
    return (Sign.NOT_NEGATIVE if value >= 0 else Sign.UNKNOWN) | (Sign.NOT_POSITIVE if value <= 0 else Sign.UNKNOWN)


def _negated(x: Facts) -> Facts:
    trend, sign = x.trend & Trend.STEADY, Sign.UNKNOWN
    trend |= (Trend.FALLS if Trend.RISES in x.trend else Trend.NONE) | (Trend.RISES if Trend.FALLS in x.trend else Trend.NONE)
    sign |= (Sign.NOT_POSITIVE if Sign.NOT_NEGATIVE in x.sign else sign) | (Sign.NOT_NEGATIVE if Sign.NOT_POSITIVE in x.sign else sign)
    return Facts(trend, sign)


def _either(x: Trend, y: Trend) -> Trend:
    """Return the trend of one of two values, which of them the other object decides."""
    return x & y


def _together(x: Trend, y: Trend) -> Trend:
    """Return the trend of what rises with both of two values."""
    both = x & y & _DIRECTIONS
    if both:
        return both | Trend.STEADY
    return x & y if Trend.CONSTANT in (x, y) else Trend.NONE


def _sum(x: Facts, y: Facts) -> Facts:
    return Facts(_together(x.trend, y.trend), x.sign & y.sign)


def _greater(x: Facts, y: Facts) -> Facts:
    return Facts(_together(x.trend, y.trend), (x.sign | y.sign) & Sign.NOT_NEGATIVE | (x.sign & y.sign & Sign.NOT_POSITIVE))


def _size(x: Facts) -> Facts:
    """Return what is known of the absolute value of ``x``."""
    if Sign.NOT_NEGATIVE in x.sign:
        return x
    if Sign.NOT_POSITIVE in x.sign:
        return _negated(x)
    return Facts(Trend.CONSTANT if x.trend is Trend.CONSTANT else Trend.NONE, Sign.NOT_NEGATIVE)


def _product(x: Facts, y: Facts) -> Facts:
    if x.sign is Sign.NOT_POSITIVE:
        return _negated(_product(_negated(x), y))
    if y.sign is Sign.NOT_POSITIVE:
        return _negated(_product(x, _negated(y)))
    known = [Sign.NOT_NEGATIVE in f.sign for f in (x, y)]
    sign = Sign.NOT_NEGATIVE if all(known) else Sign.UNKNOWN
    for factor, other, positive in ((x, y, known[0]), (y, x, known[1])):
        if factor.trend is Trend.CONSTANT:
            return Facts(other.trend if positive else other.trend & Trend.STEADY, sign)
    return Facts(_together(x.trend, y.trend) if all(known) else Trend.NONE, sign)


def _inverse(x: Facts) -> Facts:
    if Sign.NOT_NEGATIVE in x.sign:
        return Facts(_negated(x).trend, Sign.NOT_NEGATIVE)
    return x if x.trend is Trend.CONSTANT else _UNKNOWN


def _power(x: Facts, exponent: Node) -> Facts:
    if not isinstance(exponent, Literal_) or not isinstance(exponent.value, int | float):
        return _UNKNOWN
    power = float(exponent.value)
    if Sign.NOT_NEGATIVE in x.sign:
        return x._replace(sign=Sign.NOT_NEGATIVE) if power >= 0 else _inverse(x)
    if Sign.NOT_POSITIVE in x.sign and power > 0 and power.is_integer():
        return x if power % 2 else _negated(x)
    return _UNKNOWN
