"""Exact sums of float64 and int64 values, added and subtracted in any order, rounded once.

A value is m * 2^e with integers m and e. The sum of values of like magnitudes is an integer of two limbs (``tables.NARROW``), as multiples
of a power of 2 below the first value. For others, the 32-bit digits of m are added to *chunks*: int64 numbers of weight
2^(32 * chunk - ``ORIGIN``). Chunks take 2^31 additions before a carry could be lost; ``rounded`` carries. After Radford Neal, Fast exact
summation using small and large superaccumulators, 2015 (arXiv 1505.05571).
"""

from __future__ import annotations

import math
from typing import Final

from skyband.operators.base import I64
from skyband.operators.groups.kernels.tables import BOUNDS, EXTRA_DIGITS, HIGHEST, LOW_BITS, LOWEST, Sums
from skyband.operators.jit import inner, inner_inlined

ORIGIN: Final = 1120
"""The weight of the lowest bit of chunk 0 is 2^-1120, below the least float64, 2^-1074."""
DIGIT: Final = (1 << 32) - 1
LOW: Final = (1 << LOW_BITS) - 1
MARGIN: Final = 24
"""Binary places that two limbs have below the lowest bit of the first value."""
LIMB_DIGITS: Final = 4
"""Digits of two limbs."""
LAST_SHIFT: Final = 56
HIGH_LIMIT: Final = 1 << 61
"""A value of 53 bits, shifted by no more than ``LAST_SHIFT``, has a high limb below this; so have sums of two limbs."""
LEAST_BASE, LAST_BASE = -1022, 900
"""Between these, no sum of two limbs is subnormal or infinite."""
EXACT: Final = 1 << 53
"""Integers up to this are float64."""
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
        add_scaled(sums, slot, group, mantissa, exponent - 1075, -sign if bits < 0 else sign, LEAST_BASE, LAST_BASE)


@inner_inlined
def add_whole(sums: Sums, slot: int, group: int, value: int, sign: int) -> None:
    """Add or subtract an int64."""
    if value != 0:
        add_scaled(sums, slot, group, abs(value), 0, -sign if value < 0 else sign, LEAST_BASE, LAST_BASE)


@inner_inlined
def add_scaled(sums: Sums, slot: int, group: int, m: int, e: int, sign: int, least: int, last: int) -> None:
    """Add ``sign`` * m * 2^e, 0 < m < 2^63. A sum that leaves its limbs takes a free row of the pool, which must be there.

    ``least``, ``last``: bases of sums of two limbs are between them: ``LEAST_BASE`` and ``LAST_BASE`` for one that ``rounded`` rounds.
    """
    total = sums.narrow[slot, group]
    if total["place"] == 0:
        if total["scale"] == 0 and least <= e - MARGIN <= last:
            total["base"], total["scale"] = e - MARGIN, math.ldexp(1.0, int(min(max(e - MARGIN, LEAST_BASE), LAST_BASE)))
        shift = e - total["base"]
        if total["scale"] != 0 and 0 <= shift <= LAST_SHIFT:
            v = m if sign > 0 else -m
            if shift <= LOW_BITS:
                low, high = (v << shift) & LOW, v >> (LOW_BITS - shift)
            else:
                low, high = 0, v << (shift - LOW_BITS)
            low += total["low"]
            high += total["high"] + (low >> LOW_BITS)
            if -HIGH_LIMIT < high < HIGH_LIMIT:
                total["low"], total["high"] = low & LOW, high
                return
        widen(sums, slot, group)
    add_digits(sums.pool, total["place"] - 1, m, e, sign)


@inner
def add_digits(pool: I64, row: int, m: int, e: int, sign: int) -> None:
    """Add ``sign`` * m * 2^e, 0 <= m < 2^63, to a row of the pool."""
    chunk, shift = (e + ORIGIN) >> 5, (e + ORIGIN) & 31
    low, high = (m & DIGIT) << shift, (m >> 32) << shift
    pool[row, chunk] += sign * (low & DIGIT)
    pool[row, chunk + 1] += sign * ((low >> 32) + (high & DIGIT))
    pool[row, chunk + 2] += sign * (high >> 32)
    pool[row, LOWEST], pool[row, HIGHEST] = min(pool[row, LOWEST], chunk), max(pool[row, HIGHEST], chunk + 2)


@inner
def widen(sums: Sums, slot: int, group: int) -> None:
    """Move a sum to a row of the pool."""
    total = sums.narrow[slot, group]
    sums.spare[0] -= 1
    row = sums.free[sums.spare[0]]
    wide = sums.pool.shape[1] - BOUNDS
    for i in range(wide):
        sums.pool[row, i] = 0
    sums.pool[row, LOWEST], sums.pool[row, HIGHEST] = wide, 0
    if total["scale"] != 0:
        high, base = total["high"], total["base"]
        add_digits(sums.pool, row, total["low"], base, 1)
        add_digits(sums.pool, row, abs(high), base + LOW_BITS, -1 if high < 0 else 1)
    total["place"] = row + 1


@inner_inlined
def clear(sums: Sums, slot: int, group: int) -> None:
    """Make a sum empty: its last value has left."""
    total = sums.narrow[slot, group]
    if total["place"] > 0:
        sums.free[sums.spare[0]] = total["place"] - 1
        sums.spare[0] += 1
    total["low"], total["high"], total["scale"], total["base"], total["place"] = 0, 0, 0.0, 0, 0


@inner_inlined
def rounded(sums: Sums, slot: int, group: int, divisor: int) -> float:
    """Return the sum divided by ``divisor`` (1 to 2^31 - 1), rounded to nearest, ties to even."""
    if sums.spare[1] > 0:
        plus, minus = sums.endless[slot, group, 0], sums.endless[slot, group, 1]
        if plus != 0 or minus != 0:
            return math.nan if plus != 0 and minus != 0 else math.inf if plus != 0 else -math.inf
    total = sums.narrow[slot, group]
    if divisor == 1 and total["place"] == 0:
        return rounded_limbs(total["low"], total["high"], total["scale"])
    return rounded_digits(sums, slot, group, divisor)


@inner_inlined
def rounded_limbs(low: int, high: int, scale: float) -> float:
    """Return a sum of two limbs, rounded to nearest, ties to even: by one addition, as both limbs are float64."""
    if -EXACT <= high <= EXACT:
        return (float(high) * 2.0**LOW_BITS + float(low)) * scale
    rest = (high & 0xFFFF) << (LOW_BITS - 16) | low >> 16
    if low & 0xFFFF:
        rest |= 1  # keeps the sum off the halfway cases, which are far above
    return (float(high >> 16) * 2.0**LOW_BITS + float(rest)) * (scale * 65536.0)


@inner
def rounded_digits(sums: Sums, slot: int, group: int, divisor: int) -> float:
    """Return the sum over ``divisor``, rounded by its digits."""
    digits, total = sums.digits, sums.narrow[slot, group]
    low = EXTRA_DIGITS if divisor > 1 else 0
    if total["place"] > 0:
        row = total["place"] - 1
        lowest, top = 32 * sums.pool[row, LOWEST] - ORIGIN, carry_pool(sums.pool, digits, row, low)
    else:
        lowest, top = total["base"], low + LIMB_DIGITS - 1
        write_limbs(total["low"], total["high"], digits, low)
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
    value = nearest(digits, top, divisor, lowest - 32 * low)
    return -value if negative else value


@inner_inlined
def write_limbs(low: int, high: int, digits: I64, first: int) -> None:
    """Write the ``LIMB_DIGITS`` digits of a sum of two limbs from a place on, the last of them with its sign."""
    digits[first], digits[first + 1] = low & DIGIT, low >> 32 | (high & 0xFFFF) << 16
    digits[first + 2], digits[first + 3] = (high >> 16) & DIGIT, high >> 48


@inner
def carry_pool(pool: I64, digits: I64, row: int, low: int) -> int:
    """Carry in a row of the pool, and copy what is used of it to ``digits`` from ``low`` on; return the place of the top one."""
    first, top, carry = pool[row, LOWEST], pool[row, HIGHEST] + 1, 0
    for i in range(first, top):
        v = pool[row, i] + carry
        pool[row, i] = v & DIGIT
        digits[low + i - first] = v & DIGIT
        carry = v >> 32
    pool[row, top] += carry
    digits[low + top - first] = pool[row, top]
    return int(low + top - first)


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
