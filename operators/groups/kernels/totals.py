"""Exact sums of int64 values in two limbs, and the *code* of such a sum: an int64 in the same order.

The limbs of ``totals`` (slots, groups, 2) are sums of the low 32 bits of the values, and of what is above: 2^31 rows fit. The code of a sum
below ``LARGE`` is the sum itself. Beyond, it counts on through the float64 numbers: the sum is rounded to the nearest.
"""

from __future__ import annotations

import math
from typing import Final

from skyband.operators.base import I64
from skyband.operators.groups.kernels.sums import DIGIT, INFINITE, LIMB_DIGITS, ORIGIN, add_scaled, carry_pool, nearest, write_limbs
from skyband.operators.groups.kernels.tables import LARGE, LARGE_BITS, LOWEST, STDDEV_POP, STDDEV_SAMP, VAR_SAMP, WIDE, Moments, Sums
from skyband.operators.jit import inner, inner_inlined

# The float64 nearest to a quotient of a number in 32-bit digits by several small numbers: divided in turn, rounded once.

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


@inner_inlined
def change_total(totals: I64, slot: int, group: int, value: int, sign: int) -> None:
    """Add (``sign`` 1) or subtract (-1) a value that is not null."""
    totals[slot, group, 0] += sign * (value & DIGIT)
    totals[slot, group, 1] += sign * (value >> 32)


@inner
def code_of_total(totals: I64, slot: int, group: int) -> int:
    """Return the code of a sum."""
    low, high = totals[slot, group, 0], totals[slot, group, 1]
    high, low = high + (low >> 32), low & DIGIT
    negative = high < 0
    if negative:
        high, low = -high - (1 if low != 0 else 0), (-low) & DIGIT
    if high < 1 << 30:
        code = (high << 32) | low
    else:
        width = 31
        while high >> width != 0:
            width += 1
        drop = width - 21  # of 32 + width bits, 53 stay
        if drop <= 32:
            q, rest, half = (high << (32 - drop)) | (low >> drop), low & ((1 << drop) - 1), 1 << (drop - 1)
            up = rest > half or (rest == half and q & 1 != 0)
        else:
            drop -= 32
            q, rest, half = high >> drop, high & ((1 << drop) - 1), 1 << (drop - 1)
            up = rest > half or (rest == half and (low != 0 or q & 1 != 0))
            drop += 32
        code = LARGE - LARGE_BITS + ((drop + 1074) << 52) + q + (1 if up else 0)
    return int(-code if negative else code)


@inner_inlined
def limb_of_total(totals: I64, slot: int, group: int, lower: bool) -> int:
    """Return the sum modulo 2^32 if ``lower``, else divided by 2^32 and rounded down."""
    low, high = totals[slot, group, 0], totals[slot, group, 1]
    return int(low & DIGIT if lower else high + (low >> 32))


@inner
def mean_of_total(totals: I64, slot: int, group: int, n: int, scale: int, digits: I64) -> float:
    """Return the sum over n, in units of 10^-``scale``, rounded once to the nearest float64."""
    low, high = totals[slot, group, 0], totals[slot, group, 1]
    high, low = high + (low >> 32), low & DIGIT
    negative = high < 0
    if negative:
        high, low = -high - (1 if low != 0 else 0), (-low) & DIGIT
    for i in range(EXTRA):
        digits[i] = 0
    digits[EXTRA], digits[EXTRA + 1], digits[EXTRA + 2] = low, high & DIGIT, high >> 32
    top = EXTRA + 2
    while top >= EXTRA and digits[top] == 0:
        top -= 1
    if top < EXTRA:
        return 0.0
    value = nearest_quotient(digits, top, -32 * EXTRA, n, 1, scale)
    return -value if negative else value


# Variances from exact sums of values and of their squares: (n * sum of x^2 - (sum of x)^2) / (n * n), or / (n * (n - 1)) of a sample.
#
# The sums are exact (``sums``), and so is the difference: the only rounding is that of the quotient to the nearest float64.

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
