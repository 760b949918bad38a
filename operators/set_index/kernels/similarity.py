"""The similarity functions as internal scores: smaller is more similar, and equal similarities have equal bits.

For sets of a and b tokens with o in common: Jaccard o / (a + b - o), Dice 2o / (a + b) and the overlap o are one correctly rounded quotient
of integers. So float64 keeps their order and their ties for sets of up to 2^25 tokens (2^12 for cosine), whose different quotients are more
than a rounding apart. Cosine is compared as its square o^2 / (ab), since rounded roots of equal cosines can differ (docs/algorithms
E1.8). Hamming distance a + b - 2o is an integer.
"""

from __future__ import annotations

from typing import Any

from skyband.operators import jit
from skyband.operators.jit import inner
from skyband.operators.set_index.functions import COSINE, DICE, JACCARD, OVERLAP


@inner
def score_of(function: int, common: int, a: int, b: int) -> float:
    """Return the internal score of sets of ``a`` and ``b`` tokens (at least 1 each) with ``common`` tokens in common.

    It falls as ``common`` grows.
    """
    if function == JACCARD:
        return -(common / (a + b - common))
    if function == COSINE:
        return -((common * common) / (a * b))
    if function == DICE:
        return -((2 * common) / (a + b))
    if function == OVERLAP:
        return -float(common)
    return float(a + b - 2 * common)


ROUNDING = 1 - 2**-40
"""Far more than the rounding errors of a quotient and a product."""


@inner
def may_reach(function: int, common: int, a: int, b: int, limit: float) -> bool:
    """Return True if ``score_of`` is at most ``limit``, and perhaps if it is a rounding error above. Needs no division."""
    if function == JACCARD:
        return common >= -limit * (a + b - common) * ROUNDING
    if function == COSINE:
        return common * common >= -limit * (a * b) * ROUNDING
    if function == DICE:
        return 2 * common >= -limit * (a + b) * ROUNDING
    return score_of(function, common, a, b) <= limit


@inner
def best_score(function: int, common: int, a: int) -> float:
    """Return the best score of a set of ``a`` tokens with any set that shares at most ``common`` of them: a set of exactly those."""
    return score_of(function, common, a, common)


def _make_popcount() -> Any:
    """Return an intrinsic for LLVM's ``ctpop`` instruction; ``int.bit_count`` without Numba."""
    if not jit.HAVE_NUMBA:
        return lambda word: int(word).bit_count()
    from numba.core import types
    from numba.extending import intrinsic

    def popcount(context: Any, word: Any) -> Any:
        return types.int64(types.int64), lambda _context, builder, _signature, args: builder.ctpop(args[0])

    return intrinsic(popcount)


popcount = _make_popcount()
"""``popcount(word)``: the number of set bits of a non-negative int64."""
