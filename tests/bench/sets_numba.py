"""SCase of the top-k pairs paper (Shen et al., ICDE 2012) on sets, in Numba, for users without the C++ peers: it scores all sets.

One query, k = K, n = N, a count window, Jaccard. Per arrival: the overlap with every set of the window (both sorted by token), a binary
search in the staircase per pair, one full pass over the skyband. Ties are ranked as everywhere here: score, larger older seq, larger newer
seq. Similarity 0 is no pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
            # staircase point p says: k pairs with score <= ts[p] have an older member >= to[p]. Last point with score <= s:
            a, z = 0, tm
            while a < z:
                mid = (a + z) >> 1
                if ts[mid] <= s:
                    a = mid + 1
                else:
                    z = mid
            if a > 0 and to[a - 1] > j:
                continue
            cs[c], co[c] = s, j
            c += 1
        # one pass over skyband and new pairs by older descending, the k best scores in a sorted list
        h, out, p, q, tm = 0, 0, 0, 0, 0
        while p < m or q < c:
            from_new = q < c and (p == m or co[q] > ko[p] or (co[q] == ko[p] and cs[q] <= ks[p]))
            s, o = (cs[q], co[q]) if from_new else (ks[p], ko[p])
            if from_new:
                q += 1
            else:
                p += 1
            if o < lo or (h == k and s >= heap[k - 1]):
                continue
            i = min(h, k - 1)
            while i > 0 and heap[i - 1] > s:
                heap[i] = heap[i - 1]
                i -= 1
            heap[i] = s
            h = min(h + 1, k)
            ns[out], no[out] = s, o
            out += 1
            if h == k and (tm == 0 or ts[tm - 1] != heap[k - 1]):  # a new step
                ts[tm], to[tm] = heap[k - 1], o
                tm += 1
        if h == k:
            total += heap[k - 1]
        # steps were found from large to small scores: turn them round
        for i in range(tm // 2):
            ts[i], ts[tm - 1 - i] = ts[tm - 1 - i], ts[i]
            to[i], to[tm - 1 - i] = to[tm - 1 - i], to[i]
        ks[:out], ko[:out] = ns[:out], no[:out]
        m = out
    return m, tm, total
