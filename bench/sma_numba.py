"""SMA for one query in Numba, for those who have not built the C++ peers: a ring of scores, a skyband kept per event (paper 2, section 5).

Test against the k-th score at the last computation from scratch, insert with dominance counters, recompute when fewer than k are left
(with the repairs of docs/algorithms E2.1-E2.4). It answers after every arrival but writes no change stream.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.jit import jit


@jit
def sma(x: Any, w: Any, n: int, k: int) -> tuple[float, int]:
    """(sum of the k-th scores after every arrival, computations from scratch) over the rows of x (rows, d), a count window n,
    direction max."""
    rows, d = x.shape
    room = 1
    while room < n + 1:
        room *= 2
    ring = np.empty(room, np.float64)
    cap = 4 * k + 64
    ss, sq, sc = np.empty(cap + 1, np.float64), np.empty(cap + 1, np.int64), np.empty(cap + 1, np.int64)
    m, thr, oldest, total, scratch = 0, -np.inf, np.int64(2**62), 0.0, 0
    for r in range(rows):
        s = w[0] * x[r, 0]
        for t in range(1, d):
            s += w[t] * x[r, t]
        ring[r & (room - 1)] = s
        if r - n >= oldest:
            at = 0
            while sq[at] != oldest:
                at += 1
            for i in range(at + 1, m):
                ss[i - 1], sq[i - 1], sc[i - 1] = ss[i], sq[i], sc[i]
            m -= 1
            oldest = np.int64(2**62)
            for i in range(m):
                oldest = min(oldest, sq[i])
        if s >= thr:
            at = 0
            while at < m and ss[at] > s:
                at += 1
            last = m
            for i in range(m - 1, at - 1, -1):
                ss[i + 1], sq[i + 1], sc[i + 1] = ss[i], sq[i], sc[i] + 1
            ss[at], sq[at], sc[at] = s, r, 0
            m = at + 1
            for i in range(at + 1, last + 1):
                if sc[i] < k:
                    ss[m], sq[m], sc[m] = ss[i], sq[i], sc[i]
                    m += 1
            oldest = np.int64(2**62)
            for i in range(m):
                oldest = min(oldest, sq[i])
        if (m < k and thr > -np.inf) or m >= cap:
            scratch += 1
            m = 0
            for p in range(r, max(-1, r - n), -1):  # newest first, so that an equal score further back never ranks before
                v = ring[p & (room - 1)]
                if m < k or v > ss[m - 1]:
                    i = m if m < k else k - 1
                    while i > 0 and ss[i - 1] < v:
                        ss[i], sq[i] = ss[i - 1], sq[i - 1]
                        i -= 1
                    ss[i], sq[i] = v, p
                    m = min(m + 1, k)
            oldest = np.int64(2**62)
            for i in range(m):
                sc[i] = 0
                oldest = min(oldest, sq[i])
                for j in range(i):
                    sc[i] += 1 if sq[j] > sq[i] else 0
            thr = ss[k - 1] if m == k else -np.inf
        elif thr == -np.inf and m >= k and r >= n:
            thr = ss[k - 1]
        total += ss[min(m, k) - 1]
    return total, scratch
