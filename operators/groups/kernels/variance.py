"""Variances from exact sums of values and of their squares: (n * sum of x^2 - (sum of x)^2) / (n * n), or / (n * (n - 1)) of a sample.

The sums are exact (``sums``), and so is the difference: the only rounding is that of the quotient to the nearest float64.
"""

from __future__ import annotations

import math
from typing import Final

from skyband.operators.base import I64
from skyband.operators.groups.kernels.quotients import EXTRA, nearest_quotient
from skyband.operators.groups.kernels.sums import DIGIT, INFINITE, LIMB_DIGITS, ORIGIN, add_scaled, carry_pool, write_limbs
from skyband.operators.groups.kernels.tables import LOWEST, STDDEV_POP, STDDEV_SAMP, VAR_SAMP, WIDE, Moments, Sums
from skyband.operators.jit import inner

SQUARED: Final = 1088
"""Squares are added 2^1088 times as large: the lowest bit of any then lies within the chunks."""
WIDE_SQUARES: Final = 136
"""Chunks of a sum of squares of any float64 values."""
LIMBS: Final = 2 * (WIDE_SQUARES + WIDE)
"""16-bit limbs between the lowest bit of a square and the highest of a square of a sum."""
LIMB: Final = (1 << 16) - 1
ANY: Final = 1 << 12
"""Exponents are between this and its negative: these sums are not rounded by their limbs."""
_PART: Final = 21
_LOW: Final = (1 << _PART) - 1


@inner
def change_moments(moments: Moments, slot: int, group: int, cell: int, whole: int, sign: int) -> None:
    """Add (``sign`` 1) or subtract (-1) a value that is not null to the sums of a group: an int64, or the bits of a float64."""
    sums = moments.sums
    if whole:
        m, e, negative = abs(cell), 0, cell < 0
    else:
        exponent, m, negative = (cell >> 52) & INFINITE, cell & ((1 << 52) - 1), cell < 0
        if exponent == INFINITE:
            sums.endless[2 * slot, group, 0] += sign
            return
        if exponent == 0:
            exponent = 1
        else:
            m |= 1 << 52
        e = exponent - 1075
    if m != 0:
        add_scaled(sums, 2 * slot, group, m, e, -sign if negative else sign, -ANY, ANY)
        add_square(sums, 2 * slot + 1, group, m, 2 * e + SQUARED, sign)


@inner
def add_square(sums: Sums, slot: int, group: int, m: int, e: int, sign: int) -> None:
    """Add or subtract m^2 * 2^e, 0 < m < 2^63: products of parts of 21 bits, none of which leaves 44 bits."""
    low, middle, high = m & _LOW, (m >> _PART) & _LOW, m >> (2 * _PART)
    if low != 0:
        add_scaled(sums, slot, group, low * low, e, sign, -ANY, ANY)
        if middle != 0:
            add_scaled(sums, slot, group, 2 * low * middle, e + _PART, sign, -ANY, ANY)
    both = 2 * low * high + middle * middle
    if both != 0:
        add_scaled(sums, slot, group, both, e + 2 * _PART, sign, -ANY, ANY)
    if high != 0:
        if middle != 0:
            add_scaled(sums, slot, group, 2 * middle * high, e + 3 * _PART, sign, -ANY, ANY)
        add_scaled(sums, slot, group, high * high, e + 4 * _PART, sign, -ANY, ANY)


@inner
def spread(moments: Moments, slot: int, group: int, n: int, code: int, scale: int) -> float:
    """Return the variance or standard deviation of n values, in units of 10^-``scale``; NaN for null, and with infinities.

    A standard deviation is the square root of the rounded variance, rounded again.
    """
    sample = code in (VAR_SAMP, STDDEV_SAMP)
    if n < (2 if sample else 1) or moments.sums.endless[2 * slot, group, 0] != 0:
        return math.nan
    top, lowest = difference(moments, slot, group, n)
    if top < 0:
        return 0.0
    found = nearest_quotient(moments.digits, top, lowest, n, n - 1 if sample else n, 2 * scale)
    return math.sqrt(found) if code in (STDDEV_POP, STDDEV_SAMP) else found


@inner
def difference(moments: Moments, slot: int, group: int, n: int) -> tuple[int, int]:
    """Write n * (sum of squares) - (sum of values)^2 to ``moments.digits``, above ``EXTRA`` zeros.

    Return the place of the top digit, or -1 if it is 0, and the exponent of the weight of digit 0.
    """
    limbs, squares, result = moments.limbs, moments.squares, moments.difference
    base, size = digits_of(moments.sums, 2 * slot + 1, group, squares)
    weight, first, end = 32 * base - ORIGIN - SQUARED, 0, size
    while end > 0 and squares[end - 1] == 0:
        end -= 1
    if end == 0:
        return -1, 0
    while squares[first] == 0:
        first += 1
    base, size = digits_of(moments.sums, 2 * slot, group, moments.digits)
    start, stop = absolute_limbs(moments.digits, size, limbs)
    own, origin = weight + 32 * first, weight + 32 * first  # of the lowest limb of each, and of the result
    squared = 64 * base - 2 * ORIGIN + 32 * start
    if stop > start and squared < origin:
        origin = squared
    shift, other = (own - origin) >> 4, (squared - origin) >> 4
    used = shift + 2 * (end - first)
    if stop > start:
        used = max(used, other + 2 * (stop - start))
    used += 4
    for i in range(used):
        result[i] = 0
    for i in range(first, end):
        at = shift + 2 * (i - first)
        result[at] = n * (squares[i] & LIMB)
        result[at + 1] = n * (squares[i] >> 16)
    for i in range(start, stop):
        at = other + i - start
        for j in range(start, stop):
            result[at + j - start] -= limbs[i] * limbs[j]
    return packed(result, used, moments.digits), origin - 32 * EXTRA


@inner
def digits_of(sums: Sums, slot: int, group: int, digits: I64) -> tuple[int, int]:
    """Write the digits of a sum, the last of them with its sign; return the chunk of the first, and how many there are."""
    total, carry = sums.narrow[slot, group], 0
    if total["place"] > 0:
        row = total["place"] - 1
        return int(sums.pool[row, LOWEST]), carry_pool(sums.pool, digits, row, 0) + 1
    write_limbs(total["low"], total["high"], digits, 0)
    base = total["base"] + ORIGIN
    for i in range(LIMB_DIGITS):
        v = (digits[i] << (base & 31)) + carry
        digits[i] = v & DIGIT
        carry = v >> 32
    digits[LIMB_DIGITS] = carry
    return int(base >> 5), LIMB_DIGITS + 1


@inner
def absolute_limbs(digits: I64, size: int, limbs: I64) -> tuple[int, int]:
    """Write the limbs of the absolute value of a number in digits; return the places of its lowest limb and after its highest."""
    sign, carry = -1 if digits[size - 1] < 0 else 1, 0
    for i in range(size):
        v = sign * digits[i] + carry
        limbs[2 * i], limbs[2 * i + 1] = v & LIMB, (v >> 16) & LIMB
        carry = v >> 32
    start, stop = 0, 2 * size
    while stop > 0 and limbs[stop - 1] == 0:
        stop -= 1
    while start < stop and limbs[start] == 0:
        start += 1
    return start, stop


@inner
def packed(limbs: I64, used: int, digits: I64) -> int:
    """Carry in a number that is not negative, and write its digits above ``EXTRA`` zeros; return the place of the top one, -1 for 0."""
    for i in range(EXTRA):
        digits[i] = 0
    carry, top = 0, -1
    for i in range(used // 2):
        low = limbs[2 * i] + carry
        high = limbs[2 * i + 1] + (low >> 16)
        carry = high >> 16
        digits[EXTRA + i] = (low & LIMB) | ((high & LIMB) << 16)
        if digits[EXTRA + i] != 0:
            top = EXTRA + i
    return top
