"""Replay of one query and key over a block of arrivals: the event loop that every top-k operator shares (algorithms.md D1, step 2).

The query's *list* holds every alive candidate that ranks at or above its cutoff (thr, seq ``cut``): at most 2 * size of them, in rank
order. Only
rows that reach the cutoff (*candidates*, found beforehand by a scan or an index) and the departures of the first k are visited; between
them nothing can change. Members beyond the first k stay after their expiry until one could be promoted; then all such are dropped at
once. When fewer than k are left and the list is not ``full`` (= all there is), ``replay`` stops in the middle of the
event, the driver refills the list, and ``replay`` goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import DELETE, EXPIRY, NEVER, AnyArray
from skyband.operators.kernels.jit import HAVE_NUMBA, jit
from skyband.operators.kernels.topk_emit import boundary, changed, event
from skyband.operators.kernels.topk_list import BLOCK, insert_at, lower_bound, oldest, place_of, remove_at

FAR_PAST = -(2**62)
FAR_FUTURE = 2**62

# Places of the replay's integer state; between two calls for one query it holds an event stopped in the middle.
PENDING, ROW, DELETION, SIZE, FULL, CUT, OUT, SEEN, AT, BEFORE, LEFT, PLACE, CAUSE, NEXT, LIMIT, VISITS, BASE, STATE = range(18)


@jit
def alive_from(t: int, micros: int) -> int:
    """The smallest time of an object alive at instant t in a time window (0: no time window)."""
    if micros == 0 or t < FAR_PAST + micros:
        return -(2**63)
    return t - micros + 1


@jit
def grown(a: AnyArray, size: int) -> AnyArray:
    """A copy of the vector ``a`` with room for ``size``."""
    b = np.empty(size, a.dtype)
    b[: len(a)] = a
    return b


@jit
def grown_rows(a: AnyArray, size: int) -> AnyArray:
    """A copy of the matrix ``a`` with room for ``size`` rows."""
    b = np.empty((size, a.shape[1]), a.dtype)
    b[: len(a)] = a
    return b


@jit
def _gather_nb(sc: AnyArray, lo: int, hi: int, base: int, thr: float, rows: AnyArray, scores: AnyArray) -> int:
    c: Any = np.int64(0)
    i = lo
    while i < hi:
        e = min(hi, i + BLOCK)
        b = sc[i:e]
        hits: Any = np.int64(0)
        for j in range(e - i):
            hits += np.int64(b[j] >= thr)
        if hits > 0:
            for j in range(e - i):
                if b[j] >= thr:
                    rows[c], scores[c] = base + i + j, b[j]
                    c += 1
        i = e
    return int(c)


def _gather_np(sc: AnyArray, lo: int, hi: int, base: int, thr: float, rows: AnyArray, scores: AnyArray) -> int:
    hit = lo + np.flatnonzero(sc[lo:hi] >= thr)
    rows[: len(hit)] = base + hit
    scores[: len(hit)] = sc[hit]
    return len(hit)


gather = _gather_nb if HAVE_NUMBA else _gather_np
"""Rows (base + i) and scores of the i in [lo, hi) with sc[i] >= thr, in order; returns their number. One compare per row, 64 at a time."""


@jit
def purge(
    hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, k: int, min_seq: int, min_time: int, gone_s: AnyArray, gone_q: AnyArray
) -> tuple[int, int]:
    """Drop expired members; those of the first k go to ``gone``. Returns the new length and how many went there. O(m)."""
    w, x = 0, 0
    for a in range(m):
        if hq[a] < min_seq or ht[a] < min_time:
            if a < k:
                gone_s[x], gone_q[x] = hs[a], hq[a]
                x += 1
        else:
            if w < a:
                hs[w], hq[w], ht[w] = hs[a], hq[a], ht[a]
            w += 1
    return w, x


@jit
def begin(
    st: AnyArray, fs: AnyArray, lo: int, j: int, m: int, size: int, full: bool, floor: float, hs: AnyArray, hq: AnyArray, out: int
) -> None:
    """Set the state up for a list of ``m`` just filled with up to ``size``."""
    st[PENDING], st[ROW], st[DELETION], st[SIZE], st[OUT], st[NEXT], st[LIMIT] = 0, lo, j, m, out, 0, size
    settle(st, fs, full, floor, hs, hq)


@jit
def fitted(size: int, most: int, visits: int, cost: int) -> int:
    """The next list size, when a refill costs as much as ``cost`` list visits and ``visits`` were made since the last one: longer
    lists, fewer refills."""
    return max(size, min(2 * size, most)) if cost > visits else size


@jit
def settle(st: AnyArray, fs: AnyArray, full: bool, floor: float, hs: AnyArray, hq: AnyArray) -> None:
    """Set the cutoff below the list's last member, or as low as it can be if the list holds all there is."""
    m = st[SIZE]
    if full:
        fs[0], st[CUT], st[FULL] = floor, -1, 1
    else:
        fs[0], st[CUT], st[FULL] = hs[m - 1], hq[m - 1], 0


@jit
def replay(
    st: AnyArray, fs: AnyArray, q: int, key: int, k: int, n: int, micros: int, every: int,
    lo: int, hi: int, d_hi: int, seq0: int, rows: AnyArray, scores: AnyArray, candidates: int, tm: AnyArray,
    dpos: AnyArray, dtime: AnyArray, dtarget: AnyArray, hs: AnyArray, hq: AnyArray, ht: AnyArray, gone_s: AnyArray, gone_q: AnyArray,
    step: AnyArray, due: AnyArray, rep_n: AnyArray, col: int, rep_s: AnyArray, rep_q: AnyArray, rep_t: AnyArray, rep_d: AnyArray,
    until: int, oi: AnyArray, os: AnyArray,
) -> tuple[AnyArray, AnyArray, bool]:  # fmt: skip
    """Go on from ``st`` to the end of the block (False) or to the next refill (True). Returns the change rows, which may have moved.

    Rows [lo, hi) of ``tm`` arrive (the first with seq ``seq0``); ``rows``/``scores`` are the candidates among them in order. Deletion
    j comes
    before row ``dpos[j]``. O(list) per visited event.
    """
    i, j, m, r, c, size = st[ROW], st[DELETION], st[SIZE], st[OUT], st[NEXT], st[LIMIT]
    thr, full = fs[0], st[FULL] == 1
    pending, visits = st[PENDING] == 1, st[VISITS]
    h, at, m0, x, pi, cause = st[SEEN], st[AT], st[BEFORE], st[LEFT], st[PLACE], st[CAUSE]
    o = oldest(hq, min(k, m))
    while True:
        if not pending:
            if r + 4 * k + 4 > len(os):
                oi, os = grown_rows(oi, 2 * len(os) + 4 * k + 4), grown(os, 2 * len(os) + 4 * k + 4)
            while c < candidates and (rows[c] < i or not scores[c] >= thr):
                c += 1
            h = rows[c] if c < candidates else hi
            e: Any = np.int64(NEVER)
            by_count = False
            if o >= 0:
                if micros > 0:
                    e = ht[o] + micros
                leaves = lo + (hq[o] + n - seq0)
                if leaves <= h and leaves < hi:
                    h, by_count = leaves, True
            deleted = j < d_hi and dpos[j] <= h
            if deleted:
                h = dpos[j]
            at = dtime[j] if deleted else (tm[h] if h < hi else until)
            by_time = e <= at if (deleted or h < hi) else e < until
            if by_time:
                at = e
                h = lower_bound(tm, i, h, e)
            elif h == hi and not deleted:
                if every > 0 and due[q, key] < until:
                    at = until
                else:
                    break
            if every > 0 and due[q, key] < at:
                b = due[q, key]
                r0 = r
                i = lower_bound(tm, i, h, b + 1)
                r = boundary(
                    oi, os, r, q, key, b, step[q, key] + 1, k, hs, hq, ht, m,
                    rep_s[key, col : col + k], rep_q[key, col : col + k], rep_t[key, col : col + k], rep_d[key, col : col + k],
                    rep_n[q, key], seq0 + (i - lo) - n, alive_from(b, micros),
                )  # fmt: skip
                rep_n[q, key] = min(k, m)
                due[q, key] = NEVER
                if r > r0:
                    step[q, key] += 1
                continue
            i = h
            m0, x, pi, cause = min(k, m), 0, -1, EXPIRY
            if by_time:
                m, x = purge(hs, hq, ht, m, k, seq0 + (h - lo) - n, alive_from(e, micros), gone_s, gone_q)
                o = oldest(hq, min(k, m))
            elif deleted:
                cause = DELETE
                target = dtarget[j]
                a = 0
                while a < m and hq[a] != target:
                    a += 1
                if a < m:
                    if a < k:
                        gone_s[0], gone_q[0] = hs[a], hq[a]
                        x = 1
                    remove_at(hs, hq, ht, m, a)
                    m -= 1
                    if a < k:
                        m, _ = purge(hs, hq, ht, m, 0, seq0 + (h - lo) - n, alive_from(at, micros), gone_s, gone_q)
                        o = oldest(hq, min(k, m))
                if every > 0:
                    for a in range(rep_n[q, key]):
                        if rep_q[key, col + a] == target:
                            rep_d[key, col + a] = 1
                j += 1
            else:
                if by_count:
                    m, x = purge(hs, hq, ht, m, k, seq0 + (h - lo) - n + 1, alive_from(at, micros), gone_s, gone_q)
                if c < candidates and rows[c] == h:
                    pi = place_of(hs, m, scores[c])
                    insert_at(hs, hq, ht, m, pi, scores[c], seq0 + (h - lo), tm[h])
                    m += 1
                if by_count or 0 <= pi < k:
                    o = oldest(hq, min(k, m))
                i = h + 1
            visits += 1
            if m < k and not full:
                st[PENDING], st[ROW], st[DELETION], st[SIZE], st[OUT], st[NEXT], st[LIMIT] = 1, i, j, m, r, c, size
                st[FULL], st[VISITS], fs[0] = 0, visits, thr
                st[SEEN], st[AT], st[BEFORE], st[LEFT], st[PLACE], st[CAUSE] = h, at, m0, x, pi, cause
                return oi, os, True
        elif i > h and pi < 0:
            arriving = seq0 + (h - lo)
            for a in range(m):
                if hq[a] == arriving:
                    pi = a
        pending = False
        if changed(k, m0, x, m, pi):
            if every > 0:
                if due[q, key] == NEVER:
                    due[q, key] = -((-at) // every) * every
            else:
                step[q, key] += 1
                r = event(oi, os, r, q, key, at, step[q, key], k, m0, x, gone_s, gone_q, cause, hs, hq, m, pi)
        if m >= 2 * size:
            m, _ = purge(hs, hq, ht, m, 0, seq0 + (i - lo) - n, alive_from(at, micros), gone_s, gone_q)
            if m > size:  # keep the list short: what it drops, a refill finds again; and shorter while arrivals push it
                size = max(size // 2, st[BASE])
                m = size
                thr, full = hs[m - 1], False
                st[CUT] = hq[m - 1]
    fs[0], st[VISITS], st[LIMIT] = thr, visits, size
    st[PENDING], st[ROW], st[DELETION], st[SIZE], st[OUT], st[FULL] = 0, i, j, m, r, 1 if full else 0
    return oi, os, False


@jit
def next_wake(hq: AnyArray, ht: AnyArray, m: int, micros: int) -> int:
    """The next expiry by time of the first ``m``, or NEVER."""
    if micros == 0 or m == 0:
        return NEVER
    t: int = ht[oldest(hq, m)] + micros
    return t
