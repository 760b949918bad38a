"""Exact sums of float64 and int64 values, added and subtracted in any order, rounded once.

A value is m * 2^e with integers m and e. Its 32-bit digits are added to *chunks*: int64 numbers of weight 2^(32 * chunk - ``ORIGIN``).
Chunks take 2^31 additions before a carry could be lost; ``rounded`` carries. After Radford Neal, Fast exact summation using small and large
superaccumulators, 2015 (arXiv 1505.05571).
"""

from __future__ import annotations

import math
from typing import Final

from skyband.operators.base import I64
from skyband.operators.groups.kernels.tables import BASE, EXTRA_DIGITS, NARROW, PLACE, RECORD, WIDE, Sums
from skyband.operators.jit import inner, inner_inlined

ORIGIN: Final = 1120
"""The weight of the lowest bit of chunk 0 is 2^-1120, below the least float64, 2^-1074."""
DIGIT: Final = (1 << 32) - 1
PRECISION: Final = 55
"""Bits that are looked at before rounding to 53."""
INFINITE: Final = 0x7FF
"""The exponent of infinities and NaN."""


@inner_inlined
def add_number(sums: Sums, slot: int, group: int, bits: int, sign: int) -> None:
    """Add (``sign`` 1) or subtract (-1) the float64 with these bits, which is not NaN."""
    exponent = (bits >> 52) & INFINITE
    mantissa = bits & ((1 << 52) - 1)
    if exponent == INFINITE:
        sums.endless[slot, group, 1 if bits < 0 else 0] += sign
        sums.spare[1] += sign
        return
    if exponent == 0:
        exponent = 1
    else:
        mantissa |= 1 << 52
    if mantissa != 0:
        add_scaled(sums, slot, group, mantissa, exponent - 1075, -sign if bits < 0 else sign)


@inner_inlined
def add_whole(sums: Sums, slot: int, group: int, value: int, sign: int) -> None:
    """Add or subtract an int64."""
    if value != 0:
        add_scaled(sums, slot, group, abs(value), 0, -sign if value < 0 else sign)


@inner_inlined
def add_scaled(sums: Sums, slot: int, group: int, m: int, e: int, sign: int) -> None:
    """Add ``sign`` * m * 2^e, 0 < m < 2^63. A sum that leaves its chunks takes a free row of the pool, which must be there."""
    chunk, shift = (e + ORIGIN) >> 5, (e + ORIGIN) & 31
    low, high = (m & DIGIT) << shift, (m >> 32) << shift
    a, b, c = low & DIGIT, (low >> 32) + (high & DIGIT), high >> 32
    row = sums.narrow[slot, group, PLACE] - 1
    if row < 0:
        if sums.narrow[slot, group, BASE] == 0:
            sums.narrow[slot, group, BASE] = chunk
        at = chunk - sums.narrow[slot, group, BASE] + 1
        if 0 <= at < NARROW - 3:
            sums.narrow[slot, group, at] += sign * a
            sums.narrow[slot, group, at + 1] += sign * b
            sums.narrow[slot, group, at + 2] += sign * c
            return
        row = widen(sums, slot, group)
    sums.pool[row, chunk] += sign * a
    sums.pool[row, chunk + 1] += sign * b
    sums.pool[row, chunk + 2] += sign * c


@inner
def widen(sums: Sums, slot: int, group: int) -> int:
    """Move a sum to a row of the pool; return the row."""
    sums.spare[0] -= 1
    row = sums.free[sums.spare[0]]
    sums.narrow[slot, group, PLACE] = row + 1
    base = sums.narrow[slot, group, BASE] - 1
    for i in range(sums.pool.shape[1]):
        sums.pool[row, i] = 0
    for i in range(NARROW):
        sums.pool[row, base + i] = sums.narrow[slot, group, i]
        sums.narrow[slot, group, i] = 0
    return int(row)


@inner
def clear(sums: Sums, slot: int, group: int) -> None:
    """Make a sum empty: its last value has left."""
    row = sums.narrow[slot, group, PLACE] - 1
    if row >= 0:
        sums.free[sums.spare[0]] = row
        sums.spare[0] += 1
    for i in range(RECORD):
        sums.narrow[slot, group, i] = 0


@inner_inlined
def rounded(sums: Sums, slot: int, group: int, divisor: int) -> float:
    """Return the sum divided by ``divisor`` (1 to 2^31 - 1), rounded to nearest, ties to even."""
    if sums.spare[1] > 0:
        plus, minus = sums.endless[slot, group, 0], sums.endless[slot, group, 1]
        if plus != 0 or minus != 0:
            return math.nan if plus != 0 and minus != 0 else math.inf if plus != 0 else -math.inf
    digits, row = sums.digits, sums.narrow[slot, group, PLACE] - 1
    low = EXTRA_DIGITS if divisor > 1 else 0
    if row >= 0:
        base, top = 0, low + WIDE - 1
        carry_pool(sums.pool, digits, row, low)
    else:
        base, top, carry = max(sums.narrow[slot, group, BASE] - 1, 0), low + NARROW - 1, 0
        for i in range(NARROW - 1):
            v = sums.narrow[slot, group, i] + carry
            digits[low + i] = v & DIGIT
            sums.narrow[slot, group, i] = v & DIGIT
            carry = v >> 32
        digits[top] = sums.narrow[slot, group, NARROW - 1] + carry
        sums.narrow[slot, group, NARROW - 1] = digits[top]
    negative = digits[top] < 0
    if negative:
        carry = 0
        for i in range(low, top + 1):
            v = carry - digits[i]
            digits[i] = v & DIGIT if i < top else v
            carry = v >> 32
    while top >= low and digits[top] == 0:
        top -= 1
    if top < low:
        return 0.0
    value = nearest(digits, top, divisor, 32 * (base - low) - ORIGIN)
    return -value if negative else value


@inner
def carry_pool(pool: I64, digits: I64, row: int, low: int) -> None:
    """Carry in a row of the pool, and copy it to ``digits`` from ``low`` on."""
    carry = 0
    for i in range(WIDE - 1):
        v = pool[row, i] + carry
        pool[row, i] = v & DIGIT
        digits[low + i] = v & DIGIT
        carry = v >> 32
    pool[row, WIDE - 1] += carry
    digits[low + WIDE - 1] = pool[row, WIDE - 1]


@inner
def nearest(digits: I64, top: int, divisor: int, lowest: int) -> float:
    """Return the float64 nearest to the number with the digits up to ``top``, the lowest of weight 2^``lowest``, over ``divisor``."""
    end, sticky = top, 0
    if divisor > 1:  # four digits of the quotient have the 55 bits that are looked at, as the first two are not both 0
        for i in range(EXTRA_DIGITS):
            digits[i] = 0
        end, remainder = top - EXTRA_DIGITS + 1, 0
        for i in range(top, end - 1, -1):
            v = (remainder << 32) | digits[i]
            digits[i] = v // divisor
            remainder = v - digits[i] * divisor
        sticky = 1 if remainder != 0 else 0
        for i in range(EXTRA_DIGITS, end):
            if digits[i] != 0:
                sticky = 1
        if digits[top] == 0:
            top -= 1
    else:
        end = max(top - 2, 0)
        for i in range(end):
            if digits[i] != 0:
                sticky = 1
    width = math.frexp(float(digits[top]))[1]
    missing = PRECISION - width
    w = digits[top]
    second = digits[top - 1] if top - 1 >= end else 0
    third = digits[top - 2] if top - 2 >= end else 0
    if missing <= 32:
        w = (w << missing) | (second >> (32 - missing))
        rest = (second & ((1 << (32 - missing)) - 1)) | third
    else:
        missing -= 32
        w = (((w << 32) | second) << missing) | (third >> (32 - missing))
        rest = third & ((1 << (32 - missing)) - 1)
    if rest != 0 or (top - 3 >= end and digits[top - 3] != 0):
        sticky = 1
    return round_to_even(w, lowest + 32 * top + width - PRECISION, sticky)


@inner
def round_to_even(w: int, exponent: int, sticky: int) -> float:
    """Return the float64 nearest to w * 2^``exponent``, and a bit more if ``sticky``; w has ``PRECISION`` bits."""
    result = max(exponent + PRECISION - 53, -1074)
    drop = result - exponent
    if drop > PRECISION:
        return 0.0
    half, rest, q = 1 << (drop - 1), w & ((1 << drop) - 1), w >> drop
    if rest > half or (rest == half and (sticky != 0 or q & 1 != 0)):
        q += 1
    if result > 971 or (result == 971 and q == 1 << 53):
        return math.inf
    return math.ldexp(float(q), int(result))
