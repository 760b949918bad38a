"""Exact sums of int64 values in two limbs, and the *code* of such a sum: an int64 in the same order.

The limbs of ``totals`` (slots, groups, 2) are sums of the low 32 bits of the values, and of what is above: 2^31 rows fit. The code of a sum
below ``LARGE`` is the sum itself. Beyond, it counts on through the float64 numbers: the sum is rounded to the nearest.
"""

from __future__ import annotations

from skyband.operators.base import I64
from skyband.operators.groups.kernels.quotients import EXTRA, nearest_quotient
from skyband.operators.groups.kernels.sums import DIGIT
from skyband.operators.groups.kernels.tables import LARGE, LARGE_BITS
from skyband.operators.jit import inner, inner_inlined


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
