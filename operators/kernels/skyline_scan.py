"""Scans over words: which of 32 retained objects may dominate an arrival, which it may dominate, as bit masks.

Indices are unsigned where a loop must vectorise: Numba then leaves out Python's negative-index arithmetic (algorithms.md section 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.kernels.jit import HAVE_NUMBA, jit, prepare_numba

LANES: int = 32
"""Objects per mask; word arrays carry this many dead words in front."""

CHUNK: int = 128
"""Far from the newest object whole chunks are tested for any hit first."""

if HAVE_NUMBA:
    prepare_numba()
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def highest(typingctx: Any, x: Any) -> Any:
        """Index of the highest set bit of a positive int64. O(1)."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            zeros = builder.ctlz(args[0], context.get_constant(types.boolean, True))
            return builder.sub(context.get_constant(types.int64, 63), zeros)

        return types.int64(types.int64), generate

else:

    def highest(x: int) -> int:
        """Index of the highest set bit of a positive integer."""
        return int(x).bit_length() - 1


@jit
def masks(word: AnyArray, at: int, above: int, below: int, guard: int) -> tuple[int, int]:
    """Bits i of objects at + i that may dominate the arrival, and of those it may dominate. O(LANES), branch free."""
    b = np.uint64(at)
    up = np.int64(0)
    down = np.int64(0)
    for i in range(LANES):
        v = word[b + np.uint64(i)]
        up |= np.int64(((above - v) & guard) == guard) << i
        down |= np.int64(((v - below) & guard) == guard) << i
    return up, down


@jit
def any_hit(word: AnyArray, at: int, above: int, below: int, guard: int) -> int:
    """Whether one of ``CHUNK`` objects from ``at`` on may dominate the arrival or be dominated. O(CHUNK), branch free."""
    b = np.uint64(at)
    c = np.int64(0)
    for i in range(CHUNK):
        v = word[b + np.uint64(i)]
        c |= np.int64(((above - v) & guard) == guard) | np.int64(((v - below) & guard) == guard)
    return c


@jit
def compare(obj: AnyArray, a: int, b: int, first: int, dims: int) -> int:
    """1 if slot a is <= slot b in every dimension, 2 if >=, 3 if equal, 0 if neither or not comparable. Branch free in the dimensions."""
    le = np.int64(1)
    ge = np.int64(2)
    p = np.uint64(a)
    q = np.uint64(b)
    for j in range(first, first + dims):
        x = obj[p, np.uint64(j)]
        y = obj[q, np.uint64(j)]
        le &= np.int64(x <= y)
        ge &= np.int64(x >= y) << 1
    for j in range(first + dims, obj.shape[1]):
        if obj[p, np.uint64(j)] != obj[q, np.uint64(j)]:
            return 0
    return le + ge


@jit
def close_gap(word: AnyArray, slot: AnyArray, at: int, hi: int) -> None:
    """Remove position ``at``: everything up to ``hi`` moves down by one, in steps of 16 (the arrays reach at least 16 beyond ``hi``)."""
    p = np.uint64(at)
    end = np.uint64(hi)
    while p < end:
        for i in range(16):
            word[p + np.uint64(i)] = word[p + np.uint64(i) + np.uint64(1)]
        for i in range(16):
            slot[p + np.uint64(i)] = slot[p + np.uint64(i) + np.uint64(1)]
        p += np.uint64(16)


@jit
def squeeze(word: AnyArray, slot: AnyArray, lo: int, hi: int, queries: AnyArray, position: int) -> int:
    """Close all holes in [lo, hi) and correct the queries' field ``position``; returns the new end. O(hi - lo)."""
    for w in range(queries.shape[0]):
        c = lo
        for p in range(lo, queries[w, position]):
            if slot[p] >= 0:
                c += 1
        queries[w, position] = c
    c = lo
    for p in range(lo, hi):
        if slot[p] >= 0:
            slot[c] = slot[p]
            word[c] = word[p]
            c += 1
    return c
