"""Intervals of functions of numbers (docs/algorithms D8): of ``formulas``, of remainders and of trigonometric functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Final

from skyband.operators.expressions.formulas import EARTH_RADIUS, FORMULAS, MOST_LATITUDE
from skyband.operators.expressions.interval_arithmetic import Arithmetic, Reals

_MARGIN: Final = 1e-6
"""How far from a turning point, as a share of half a period, an angle must be to be distinguished from it; rounding is off by less."""
_FARTHEST: Final = 1e6
"""Angles beyond it may be anywhere in a period."""


def _ceil(code: Arithmetic, x: Reals) -> Reals:
    ends = code.call("ceil", x.least), code.call("ceil", x.greatest)
    return replace(x, least=ends[0], greatest=ends[1], clean=x.clean and x.nonnegative)  # ceil(-0.5) is -0.0


def _sign(code: Arithmetic, x: Reals) -> Reals:
    return replace(x, least=FORMULAS["sign"](code, x.least), greatest=FORMULAS["sign"](code, x.greatest))


def _round(code: Arithmetic, x: Reals) -> Reals:
    return replace(x, least=FORMULAS["round"](code, x.least), greatest=FORMULAS["round"](code, x.greatest), clean=True)


def _radians(code: Arithmetic, x: Reals) -> Reals:
    return code.product(x, code.number(math.pi / 180))


def _mod(code: Arithmetic, x: Reals, y: Reals) -> Reals:
    """``mod(x, y)``: of the sign of x, no farther from zero than x or y, and x itself if y is farther from zero."""
    size, most = code.absolute(x), code.absolute(y)
    least = code.negative(code.more(code.less(code.negative(x.least), most.greatest), code.zero))
    greatest = code.more(code.less(x.greatest, most.greatest), code.zero)
    itself = code.test(size.greatest, "<", most.least)
    null = code.any((x.null, y.null, code.has_infinity(x), code.has_zero(y)))
    clean = x.clean and x.nonnegative
    ends = code.select(itself, x.least, least), code.select(itself, x.greatest, greatest)
    return Reals(ends[0], ends[1], null, code.both(x.some, y.some), clean, x.nonnegative)


def _between_turns(code: Arithmetic, x: Reals, shift: float) -> tuple[str, str, str]:
    """Between which turning points the ends are, and the flag that they are near enough to zero to tell.

    The turning point number k is at (k - ``shift``) pi.
    """

    def turn(end: str, margin: float) -> str:
        halves = code.emit(f"{end} * {code.real(1 / math.pi)}", end)
        return code.call("floor", code.emit(f"{halves} + {code.real(shift + margin)}", halves))

    near = (code.test(x.least, ">=", code.real(-_FARTHEST)), code.test(x.greatest, "<=", code.real(_FARTHEST)))
    return turn(x.least, -_MARGIN), turn(x.greatest, _MARGIN), code.all(near)


def _wave(code: Arithmetic, fn: str, x: Reals) -> Reals:
    """``sin`` or ``cos``: monotone between turning points, where it is 1 or -1 by turns."""
    first, last, near = _between_turns(code, x, 0.5 if fn == "sin" else 0.0)
    half = code.emit(f"{last} * {code.real(0.5)}", last)
    even = code.test(code.call("floor", half), "==", half)
    one = code.both(near, code.test(last, "==", code.emit(f"{first} + {code.real(1.0)}", first)))
    none = code.both(near, code.test(last, "==", first))
    peak, lowest = (even, code.test(code.call("floor", half), "!=", half)) if fn == "cos" else (
        code.test(code.call("floor", half), "!=", half), even,
    )  # fmt: skip
    ends = code.call(fn, x.least), code.call(fn, x.greatest)
    bottom, top = code.down(code.real(-1.0)), code.up(code.real(1.0))
    least = code.select(code.any((none, code.both(one, peak))), code.down(code.less(*ends)), bottom)
    greatest = code.select(code.any((none, code.both(one, lowest))), code.up(code.more(*ends)), top)
    return Reals(least, greatest, code.any((x.null, code.has_infinity(x))), x.some)


def _sin(code: Arithmetic, x: Reals) -> Reals:
    return _wave(code, "sin", x)


def _cos(code: Arithmetic, x: Reals) -> Reals:
    return _wave(code, "cos", x)


def _tan(code: Arithmetic, x: Reals) -> Reals:
    """``tan(x)``: rises between its poles."""
    first, last, near = _between_turns(code, x, 0.5)
    rises = code.both(near, code.test(first, "==", last))
    least = code.select(rises, code.down(code.call("tan", x.least)), code.low)
    greatest = code.select(rises, code.up(code.call("tan", x.greatest)), code.high)
    return Reals(least, greatest, code.any((x.null, code.has_infinity(x))), x.some)


def _atan2(code: Arithmetic, y: Reals, x: Reals) -> Reals:
    """``atan2(y, x)``: monotone in each argument where the box does not touch the half-line y = 0, x <= 0."""
    corners = [*dict.fromkeys(code.call("atan2", p, q) for p, q in product((y.least, y.greatest), (x.least, x.greatest)))]
    apart = code.any((code.test(x.least, ">", code.zero), code.test(y.least, ">", code.zero), code.test(y.greatest, "<", code.zero)))
    least = code.select(apart, code.down(reduce(code.less, corners)), code.down(code.real(-math.pi)))
    greatest = code.select(apart, code.up(reduce(code.more, corners)), code.up(code.real(math.pi)))
    return Reals(least, greatest, code.any((x.null, y.null)), code.both(x.some, y.some))


def _haversine(code: Arithmetic, lat1: Reals, lon1: Reals, lat2: Reals, lon2: Reals) -> Reals:
    """The formula step by step, in intervals: what is left out is that a latitude occurs twice in it."""
    first, second = _latitude(code, lat1), _latitude(code, lat2)
    north, east = _half_sine_square(code, first, second), _half_sine_square(code, lon1, lon2)
    shrunk = code.product(_cosine(code, first), _cosine(code, second))
    root = code.square_root(code.sum(north, code.product(shrunk, east)))
    one = code.real(1.0)
    angles = [code.call("asin", code.select(code.test(end, ">", one), one, end)) for end in (root.least, root.greatest)]
    angle = replace(root, least=code.more(code.down(angles[0]), code.zero), greatest=code.up(angles[1]))
    return code.product(angle, code.number(2 * EARTH_RADIUS))


def _latitude(code: Arithmetic, x: Reals) -> Reals:
    """The latitudes that there are; others give null."""
    south, north = code.real(-MOST_LATITUDE), code.real(MOST_LATITUDE)
    beyond = code.any((code.test(x.least, "<", south), code.test(x.greatest, ">", north)))
    some = code.all((x.some, code.test(x.least, "<=", north), code.test(x.greatest, ">=", south)))
    return Reals(code.more(x.least, south), code.less(x.greatest, north), code.any((x.null, beyond)), some)


def _half_sine_square(code: Arithmetic, x: Reals, y: Reals) -> Reals:
    difference = code.sum(y, code.negation(x))
    return code.square(_sin(code, code.product(_radians(code, difference), code.number(0.5))))


def _cosine(code: Arithmetic, latitude: Reals) -> Reals:
    """The cosine of a latitude: above zero, as the float64 next to a pole's angle is below it."""
    x = _cos(code, _radians(code, latitude))
    return replace(x, least=code.more(x.least, code.zero), clean=True, nonnegative=True)


RULES: Final[Mapping[str, Callable[..., Reals]]] = {
    "ceil": _ceil, "sign": _sign, "round": _round, "radians": _radians, "mod": _mod, "sin": _sin, "cos": _cos, "tan": _tan,
    "atan2": _atan2, "haversine": _haversine,
}  # fmt: skip
"""Function -> the interval of its values from those of its arguments."""
