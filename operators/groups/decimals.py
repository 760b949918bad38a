"""Scores that are a single aggregate of a decimal column: whole numbers of its smallest units, ranked as they are and shown as doubles.

Kernels rank float64 values. A whole number u, as the *code* of ``kernels.totals``, becomes the float64 with the bits |u| + 2^52 and the
sign of u: these are normal numbers in the same order.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from skyband.operators.base import F64, I64, NULL
from skyband.operators.groups.kernels.tables import LARGE, LARGE_BITS

_NORMAL: Final = 1 << 52
_MOST: Final = LARGE + (1 << 61)
"""A code that is larger than that of any sum: 2^94 units, the most of 2^31 rows, are 2^62 + 2^57."""
_EXACT: Final = 1 << 53
"""Whole numbers up to this one are float64 numbers."""


def doubles(code: I64, scale: int) -> F64:
    """Return the float64 nearest to each number of units of 10^-``scale``, NaN for ``NULL``; ``code`` beyond 2^62 stands for a double."""
    found: F64 = code / 10.0**scale  # both are exact up to 2^53: rounded once
    for i in np.flatnonzero((code > _EXACT) | (code < -_EXACT)):
        u = int(code[i])
        found[i] = math.nan if u == NULL else whole_number(u) / 10**scale
    return found


def whole_number(code: int) -> int:
    """Return the whole number that a code stands for."""
    if abs(code) < LARGE:
        return code
    size = int(np.array(abs(code) - LARGE + LARGE_BITS).view(np.float64))
    return size if code > 0 else -size


def ranked(code: I64) -> F64:
    """Return float64 numbers in the order of the codes, NaN for ``NULL``."""
    bits = np.abs(code) + _NORMAL
    found: F64 = np.where(code == NULL, math.nan, np.where(code < 0, -1.0, 1.0) * bits.view(np.float64))
    return found


def codes(value: F64) -> I64:
    """Return the codes of numbers made by ``ranked``, none of them NaN."""
    size = np.abs(value).view(np.int64) - _NORMAL
    found: I64 = np.where(value < 0, -size, size)
    return found


def bound(number: float, scale: int, up: bool) -> float:
    """Return the ``ranked`` number of a bound as a person wrote it: of the units at or below it, or at or above it if ``up``.

    The written number is the ``repr``, which may have more digits than the double.
    """
    if math.isinf(number):
        return number
    exact = Fraction(repr(number)) * 10**scale
    units = math.ceil(exact) if up else math.floor(exact)
    return float(ranked(np.array([code_of(units)], np.int64))[0])


def code_of(units: int) -> int:
    """Return the code of a whole number; the largest code for one beyond all float64 numbers of units."""
    size = abs(units)
    if size >= LARGE:
        near = float(min(size, 1 << 1000))
        size = min(LARGE - LARGE_BITS + int(np.array(near).view(np.int64)), _MOST)
    return size if units >= 0 else -size
