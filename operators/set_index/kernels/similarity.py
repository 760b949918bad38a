"""The similarity functions, as scores that are smaller the more alike two sets are, and exact: equal similarities have equal bits.

Of sets of a and b tokens, of which they share o: Jaccard o / (a + b - o), Dice 2o / (a + b) and the overlap o are one correctly rounded
quotient of integers, so float64 keeps both their order and their ties (of sets of up to 2^25 tokens, and 2^12 for cosine: then different
quotients are more than a rounding apart). Cosine is compared as its square, o^2 / (ab): of roots, equal ones come out unequal
(docs/algorithms E1.8). Hamming distance a + b - 2o is an integer.
"""

from __future__ import annotations

from typing import Any

from skyband.operators import jit
from skyband.operators.jit import inner

JACCARD, COSINE, DICE, OVERLAP, HAMMING = range(5)
"""The functions."""


@inner
def score_of(function: int, common: int, a: int, b: int) -> float:
    """The internal score of sets of ``a`` and ``b`` tokens (at least 1 each) that share ``common``. It falls as ``common`` grows."""
    if function == JACCARD:
        return -(common / (a + b - common))
    if function == COSINE:
        return -((common * common) / (a * b))
    if function == DICE:
        return -((2 * common) / (a + b))
    if function == OVERLAP:
        return -float(common)
    return float(a + b - 2 * common)


@inner
def best_score(function: int, common: int, a: int) -> float:
    """The best score of a set of ``a`` tokens with any set that shares ``common`` of them at most: with exactly those."""
    return score_of(function, common, a, common)


def _popcount() -> Any:
    """The number of ones of a non-negative int64: one instruction."""
    if not jit.HAVE_NUMBA:
        return lambda word: int(word).bit_count()
    jit.prepare_numba()
    from numba.core import types
    from numba.extending import intrinsic

    def ones(context: Any, word: Any) -> Any:
        return types.int64(types.int64), lambda _context, builder, _signature, args: builder.ctpop(args[0])

    return intrinsic(ones)


ones = _popcount()
"""``ones(word)``: how many bits of a non-negative int64 are set."""
