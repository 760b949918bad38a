"""SCase of the top-k pairs paper (Shen et al., ICDE 2012, Algorithms 3 and 4) in Numba, ties repaired, for users without the C++ peers.

One query, k = K, n = N, a count window. Per arrival: every partner's score, a binary search in the staircase per pair, one full pass over
the skyband. Ties are ranked as everywhere here: score, larger older seq, larger newer seq. Absolute sequence numbers instead of ages.
``run`` takes the score as a function: ``pair_score`` of rows, or ``jaccard`` of sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.jit import jit

CLOSEST, FURTHEST, MAX_PRODUCT = range(3)


@jit
def pair_score(data: Any, i: int, j: int) -> float:
    """Internal score (smaller is better) of objects i and j; ``data``: the rows and the function."""
    x, fn = data
    s = 0.0
    if fn == MAX_PRODUCT:
        s = 1.0
        for c in range(x.shape[1]):
            s *= abs(x[i, c] - x[j, c])
        return -s
    for c in range(x.shape[1]):
        s += abs(x[i, c] - x[j, c])
    return s if fn == CLOSEST else -s


@jit
def jaccard(data: Any, i: int, j: int) -> float:
    """Internal score (smaller is better) of sets i and j, infinite if they share nothing; ``data``: starts of the sets, sorted tokens."""
    start, tokens = data
    x, y, common = start[i], start[j], 0
    while x < start[i + 1] and y < start[j + 1]:
        a, b = tokens[x], tokens[y]
        common += a == b
        x += a <= b
        y += b <= a
    size = start[i + 1] - start[i] + start[j + 1] - start[j]
    return -(common / (size - common)) if common else np.inf


@jit
def late_enough(s: float, j: int, ts: Any, to: Any, tm: int) -> bool:
    """Whether a pair of score s and older member j is in the skyband of what the staircase (ts, to)[:tm] holds.

    Staircase point p says: k pairs with score <= ts[p] have an older member >= to[p]. The last point with score <= s decides.
    """
    a, z = 0, tm
    while a < z:
        mid = (a + z) >> 1
        if ts[mid] <= s:
            a = mid + 1
        else:
            z = mid
    return a == 0 or to[a - 1] <= j


@jit
def one_pass(
    lo: int, k: int, cs: Any, co: Any, c: int, ks: Any, ko: Any, m: int, ts: Any, to: Any, heap: Any, ns: Any, no: Any
) -> tuple[int, int, float]:
    """Skyband (ks, ko)[:m] and new pairs (cs, co)[:c] by older descending, the k best scores in a sorted list; the new staircase.

    Returns (skyband length, staircase length, k-th score or 0).
    """
    h, out, p, q, tm = 0, 0, 0, 0, 0
    while p < m or q < c:
        from_new = q < c and (p == m or co[q] > ko[p] or (co[q] == ko[p] and cs[q] <= ks[p]))
        s, o = (cs[q], co[q]) if from_new else (ks[p], ko[p])
        if from_new:
            q += 1
        else:
            p += 1
        if o < lo:
            continue
        if h == k and s >= heap[k - 1]:
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
    # steps were found from large to small scores: turn them round
    for i in range(tm // 2):
        ts[i], ts[tm - 1 - i] = ts[tm - 1 - i], ts[i]
        to[i], to[tm - 1 - i] = to[tm - 1 - i], to[i]
    ks[:out], ko[:out] = ns[:out], no[:out]
    return out, tm, heap[k - 1] if h == k else 0.0


@jit(cache=False)
def run(
    score: Any, data: Any, k: int, n: int, start: int, stop: int, ks: Any, ko: Any, m: int, ts: Any, to: Any, tm: int
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
            s = score(data, j, t)
            if s < np.inf and late_enough(s, j, ts, to, tm):
                cs[c], co[c] = s, j
                c += 1
        m, tm, kth = one_pass(lo, k, cs, co, c, ks, ko, m, ts, to, heap, ns, no)
        total += kth
    return m, tm, total
