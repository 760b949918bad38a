"""SCase of the top-k pairs paper (Shen et al., ICDE 2012) on sets, in Numba, for users without the C++ peers: it scores all sets.

One query, k = K, n = N, a count window, Jaccard. Per arrival: the overlap with every set of the window (both sorted by token), a binary
search in the staircase per pair, one full pass over the skyband. Ties are ranked as everywhere here: score, larger older seq, larger newer
seq. Similarity 0 is no pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.scase_numba import late_enough, one_pass
from skyband.operators.jit import jit


@jit
def jaccard(start: Any, tokens: Any, i: int, j: int) -> float:
    """Internal score (smaller is better) of sets i and j, 0 if they share nothing."""
    x, y, common = start[i], start[j], 0
    while x < start[i + 1] and y < start[j + 1]:
        a, b = tokens[x], tokens[y]
        common += a == b
        x += a <= b
        y += b <= a
    size = start[i + 1] - start[i] + start[j + 1] - start[j]
    return -(common / (size - common))


@jit
def run(
    starts: Any, tokens: Any, k: int, n: int, start: int, stop: int, ks: Any, ko: Any, m: int, ts: Any, to: Any, tm: int
) -> tuple[int, int, float]:
    """Arrivals start..stop; skyband (ks, ko)[:m] by older descending, staircase (ts, to)[:tm]: score ascending, older ascending steps.

    Returns (skyband length, staircase length, sum of the k-th scores: a checksum).
    """
    heap = np.empty(k)
    ns, no = np.empty(len(ks)), np.empty(len(ks), np.int64)
    cs, co = np.empty(n), np.empty(n, np.int64)
    total = 0.0
    for t in range(start, stop):
        lo = max(0, t - n + 1)
        c = 0
        for j in range(t - 1, lo - 1, -1):
            s = jaccard(starts, tokens, j, t)
            if s == 0:
                continue
            if late_enough(s, j, ts, to, tm):
                cs[c], co[c] = s, j
                c += 1
        m, tm, kth = one_pass(lo, k, cs, co, c, ks, ko, m, ts, to, heap, ns, no)
        total += kth
    return m, tm, total
