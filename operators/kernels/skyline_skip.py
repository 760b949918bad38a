"""Arrivals that never show: found for a whole stretch of arrivals at once, before any of them is looked at one by one (K = 1).

An arrival r is passed over if (1) an older object p alive in every query's window to the end of the stretch dominates it, and (2) a newer
arrival j of the same stretch dominates it. Exact, by transitivity: r is no member, since p is alive until j removes r; whatever r would
have removed is dominated by p too, hence no member, and goes with j; whatever r would have kept out is kept out by p until j removes it.
The last j of a chain is not passed over, so at the end of the stretch the state is the same.

Words decide alone here: a smaller field means a smaller value, so "smaller in every field" is sufficient for dominance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.kernels.jit import jit

STRETCH: int = 256
AHEAD: int = 16
"""How many newer arrivals are tried as j."""

STRONG: int = 8
"""How many older objects are tried as p."""


@jit
def strongest(
    word: AnyArray, slot: AnyArray, lo: int, hi: int, guard: int, shifts: AnyArray, top: int, strong: AnyArray, sums: AnyArray
) -> int:
    """The words of the (at most ``STRONG``) objects in [lo, hi) with the smallest sums of fields. O(hi - lo)."""
    n = 0
    for p in range(lo, hi):
        if slot[p] < 0:
            continue
        w = word[p] - guard
        total = np.int64(0)
        for j in range(shifts.shape[0]):
            total += (w >> shifts[j]) & top
        if n == STRONG and total >= sums[n - 1]:
            continue
        i = n if n < STRONG else n - 1
        while i > 0 and sums[i - 1] > total:
            sums[i] = sums[i - 1]
            strong[i] = strong[i - 1]
            i -= 1
        sums[i] = total
        strong[i] = w
        n = min(n + 1, STRONG)
    return n


@jit
def _smaller(older: AnyArray, newer: AnyArray, above: int, guard: int, found: AnyArray) -> None:
    for i in range(len(newer)):
        found[i] |= np.int64(((older[i] + above - newer[i]) & guard) == guard)


@jit
def passed_over(words: AnyArray, guard: int, above: int, strong: AnyArray, n: int, kept_out: AnyArray, removed: AnyArray) -> int:
    """Sets ``kept_out[i]`` to 1 if arrival i is passed over, else 0; returns how many are. ``above`` is guard - 1 in every field.

    O(arrivals (AHEAD + STRONG)), branch free.
    """
    m = len(words)
    for i in range(m):
        kept_out[i] = 0
        removed[i] = 0
    for j in range(n):
        x = above - strong[j]
        for i in range(m):
            kept_out[i] |= np.int64(((words[i] + x) & guard) == guard)
    for j in range(1, min(AHEAD, m - 1) + 1):
        _smaller(words[: m - j], words[j:], above, guard, removed[: m - j])
    c: Any = np.int64(0)
    for i in range(m):
        kept_out[i] &= removed[i]
        c += kept_out[i]
    count: int = c
    return count
