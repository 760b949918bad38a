"""The functions of numbers that generated code computes by several operations each. Null (NaN) gives null."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol

EARTH_RADIUS: Final = 6_371_008.8
"""The mean radius of the Earth in metres."""
MOST_LATITUDE: Final = 90.0


class Code(Protocol):
    """What a formula needs of ``Lowering``: operations over variables that hold floats."""

    def real(self, value: float) -> str:
        """Return the code of a constant."""

    def emit(self, code: str, *operands: str) -> str:
        """Return the variable that holds ``code``."""

    def test(self, x: str, op: str, y: str) -> str:
        """Return the flag of a comparison."""

    def both(self, x: str, y: str) -> str:
        """Return the flag "x and y"."""

    def select(self, flag: str, x: str, y: str) -> str:
        """Return the variable that holds x where the flag is set, else y."""

    def call(self, fn: str, *args: str) -> str:
        """Return the variable that holds the result of a function."""


def _sign(code: Code, x: str) -> str:
    """Return -1 or 1; zeros and NaN stay."""
    zero = code.real(0.0)
    below = code.select(code.test(x, "<", zero), code.real(-1.0), x)
    return code.select(code.test(x, ">", zero), code.real(1.0), below)


def _round(code: Code, x: str) -> str:
    """Return the nearest whole number, of two the one farther from zero; never -0.0. The fraction of a float64 is exact."""
    size = code.call("abs", x)
    whole = code.call("floor", size)
    fraction = code.emit(f"{size} - {whole}", size, whole)
    more = code.emit(f"{whole} + {code.real(1.0)}", whole)
    near = code.select(code.test(fraction, ">=", code.real(0.5)), more, whole)
    signed = code.select(code.test(x, "<", code.real(0.0)), code.emit(f"-{near}", near), near)
    return code.emit(f"{signed} + {code.real(0.0)}", signed)


def _radians(code: Code, x: str) -> str:
    return code.emit(f"{x} * {code.real(math.pi / 180)}", x)


def _haversine(code: Code, lat1: str, lon1: str, lat2: str, lon2: str) -> str:
    """Return metres along a great circle between two points in degrees; NaN for a latitude beyond a pole."""
    north, east = _half_sine(code, lat1, lat2), _half_sine(code, lon1, lon2)
    cosines = [code.call("cos", _radians(code, lat)) for lat in (lat1, lat2)]
    shrunk = code.emit(f"{cosines[0]} * {cosines[1]}", *cosines)
    across = code.emit(f"{shrunk} * {_square(code, east)}", shrunk, _square(code, east))
    root = code.call("sqrt", code.emit(f"{_square(code, north)} + {across}", _square(code, north), across))
    one = code.real(1.0)
    angle = code.call("asin", code.select(code.test(root, ">", one), one, root))  # rounding may exceed 1
    metres = code.emit(f"{angle} * {code.real(2 * EARTH_RADIUS)}", angle)
    known = [code.test(code.call("abs", lat), "<=", code.real(MOST_LATITUDE)) for lat in (lat1, lat2)]
    return code.select(code.both(*known), metres, code.real(math.nan))


def _half_sine(code: Code, x: str, y: str) -> str:
    angle = _radians(code, code.emit(f"{y} - {x}", x, y))
    return code.call("sin", code.emit(f"{angle} * {code.real(0.5)}", angle))


def _square(code: Code, x: str) -> str:
    return code.emit(f"{x} * {x}", x)


FORMULAS: Final[Mapping[str, Callable[..., str]]] = {"sign": _sign, "round": _round, "radians": _radians, "haversine": _haversine}
"""Function -> its code over variables that hold its arguments."""
