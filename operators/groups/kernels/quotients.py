"""The float64 nearest to a quotient of a number in 32-bit digits by several small numbers: divided in turn, rounded once."""

from __future__ import annotations

from typing import Final

from skyband.operators.base import I64
from skyband.operators.groups.kernels.sums import nearest
from skyband.operators.jit import inner

EXTRA: Final = 9
"""Zeros below a number: enough for the quotient of 1 by 2^62 and by 10^36 to have 55 bits and a digit more."""
_ROOT: Final = 46_340
"""The product of two numbers up to this one is below 2^31."""


@inner
def nearest_quotient(digits: I64, top: int, lowest: int, a: int, b: int, tens: int) -> float:
    """Return the number in ``digits`` (up to ``top``, ``EXTRA`` zeros below) over a * b * 10^``tens``; digit 0 has weight 2^``lowest``.

    ``a`` and ``b`` are at most 2^31 - 1, ``tens`` at most 36. Overwrites the digits.
    """
    if a > _ROOT or b > _ROOT:
        top, b = divide(digits, top, b), 1
    top = divide(digits, top, a * b)
    while tens > 0:
        power = 1
        for _ in range(min(tens, 9)):  # 10^9 is the largest power of 10 below 2^31
            power *= 10
        top = divide(digits, top, power)
        tens -= 9
    return nearest(digits, top, 1, lowest)


@inner
def divide(digits: I64, top: int, divisor: int) -> int:
    """Divide in place; return the place of the top digit.

    If anything remains, the lowest bit is set, and stays set when what is left is divided again: an odd number never has an even quotient
    without a remainder. So the true quotient is less than one unit of the lowest bit away, and on the same side of every rounder number.
    """
    if divisor == 1:
        return top
    remainder = 0
    for i in range(top, -1, -1):
        v = (remainder << 32) | digits[i]
        digits[i] = v // divisor
        remainder = v - digits[i] * divisor
    if remainder != 0:
        digits[0] |= 1
    return top - 1 if digits[top] == 0 else top
