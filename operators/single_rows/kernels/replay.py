"""Replay of one query and key over a block of arrivals: the event loop that every top-k operator shares (docs/algorithms.md D1, step 2).

The query's *list* holds every alive candidate that ranks at or above its cutoff (thr, seq ``cut``): at most 2 * size of them, in rank
order. Only rows that reach the cutoff (*candidates*, found beforehand by a scan or an index) and the departures of the first k are
visited; between them nothing can change. Members beyond the first k may be dead until they would be promoted, or the list is long. When
fewer than k are left and the list is not ``full`` (= all there is), ``replay`` stops in the middle of the event, the driver refills the
list, and ``replay`` goes on.

Work per visit hardly grows with the list: the oldest of the first k is followed instead of sought, a departure moves the tail of the list
instead of sieving it, and the time column is not read until needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import DELETE, EXPIRY, NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.emit import boundary, changed, event
from skyband.operators.single_rows.kernels.ranked_list import lower_bound, oldest, place_of, shift

ALWAYS = -(2**63)
"""A time nothing is older than."""

FAR_PAST = -(2**62)
FAR_FUTURE = 2**62
SHORT = 256

# What a replay stopped for.
DONE, REFILL, ROWS = range(3)

# Places of the replay's integer state; between two calls for one query it holds an event stopped in the middle.
PENDING, ROW, DELETION, SIZE, FULL, CUT, OUT, SEEN, AT, BEFORE, LEFT, PLACE, CAUSE, NEXT, LIMIT, VISITS, BASE, STATE = range(18)


@jit
def alive_from(t: int, micros: int) -> int:
    """The smallest time of an object alive at instant t in a time window (0: no time window)."""
    if micros == 0 or t < FAR_PAST + micros:
        return ALWAYS
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
def _place(hs: AnyArray, m: int, s: float) -> int:
    """``place_of``; in a list that is not long by counting, since a mispredicted branch costs as much as thirty compares."""
    if m > SHORT:
        return int(place_of(hs, m, s))
    p: Any = np.int64(0)
    for i in range(m):
        p += np.int64(hs[i] > s)
    return int(p)


@jit
def _remove(hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, p: int, e: int, timed: bool) -> int:
    """Close places [p, e) of a list of ``m``; returns what is left. ``ht`` is not kept unless ``timed``."""
    if e > p:
        shift(hs, e, m, p - e)
        shift(hq, e, m, p - e)
        if timed:
            shift(ht, e, m, p - e)
    return m - (e - p)


@jit
def _insert(hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, p: int, s: float, q: int, t: int, timed: bool) -> None:
    """Open place ``p`` of a list of ``m`` and put (s, q, t) there."""
    shift(hs, p, m, 1)
    shift(hq, p, m, 1)
    hs[p], hq[p] = s, q
    if timed:
        shift(ht, p, m, 1)
        ht[p] = t


@jit
def _without_dead(hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, p: int, min_seq: int, min_time: int, timed: bool) -> int:
    """Drop the dead members that stand at place ``p`` in a row; returns the new length."""
    e = p
    while e < m and (hq[e] < min_seq or (timed and ht[e] < min_time)):
        e += 1
    return int(_remove(hs, hq, ht, m, p, e, timed))


@jit
def _leave(
    hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, k: int, o: int, min_seq: int, min_time: int, gone_s: AnyArray, gone_q: AnyArray,
    timed: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Take the expired ones out of the first k, of which ``o`` is the oldest, and see to it that whoever follows them is alive.

    Returns the new length, how many left, and the place of the oldest now.
    """
    s, q = hs[o], hq[o]
    t = ht[o] if timed else 0
    left = min(k, m) - 1
    m = _remove(hs, hq, ht, m, o, o + 1, timed)
    a = oldest(hq, left)
    if a >= 0 and (hq[a] < min_seq or (timed and ht[a] < min_time)):  # several at once: the general way
        _insert(hs, hq, ht, m, o, s, q, t, timed)
        m, x = purge(hs, hq, ht, m + 1, k, min_seq, min_time, gone_s, gone_q)
        return m, x, int(oldest(hq, min(k, m)))
    gone_s[0], gone_q[0] = s, q
    m = _without_dead(hs, hq, ht, m, left, min_seq, min_time, timed)
    if left < m and (a < 0 or hq[left] < hq[a]):
        a = left
    return m, 1, a


@jit
def replay(
    st: AnyArray, fs: AnyArray, q: int, key: int, k: int, n: int, micros: int, every: int,
    lo: int, known: int, hi: int, d_hi: int, seq0: int, rows: AnyArray, scores: AnyArray, candidates: int, tm: AnyArray,
    dpos: AnyArray, dtime: AnyArray, dtarget: AnyArray, hs: AnyArray, hq: AnyArray, ht: AnyArray, gone_s: AnyArray, gone_q: AnyArray,
    step: AnyArray, due: AnyArray, rep_n: AnyArray, col: int, rep_s: AnyArray, rep_q: AnyArray, rep_t: AnyArray, rep_d: AnyArray,
    until: int, timed: bool, oi: AnyArray, os: AnyArray,
) -> tuple[AnyArray, AnyArray, int]:  # fmt: skip
    """Go on from ``st`` to the end of the block (DONE), to the next refill (REFILL), or to row ``known`` (ROWS): candidates are known for
    rows before it only. Returns the change rows, which may have moved, and what it stopped for.

    Rows [lo, hi) of ``tm`` arrive (the first with seq ``seq0``); ``rows``/``scores`` are the candidates among them in order. Deletion j
    comes before row ``dpos[j]``. O(k) per change and O(list) moves per visited event.

    Unless ``timed`` (no time window, no boundaries, no deletions of this key) times are left out: ``ht`` is not kept, and a change's
    ``at`` is the number of the row it came with, to be replaced (see ``stamp``).
    """
    i, j, m, r, c, size = st[ROW], st[DELETION], st[SIZE], st[OUT], st[NEXT], st[LIMIT]
    thr, full = fs[0], st[FULL] == 1
    pending, visits = st[PENDING] == 1, st[VISITS]
    h, at, m0, x, pi, cause = st[SEEN], st[AT], st[BEFORE], st[LEFT], st[PLACE], st[CAUSE]
    o = oldest(hq, min(k, m))
    stop = DONE
    while True:
        if not pending:
            if r + 4 * k + 4 > len(os):
                oi, os = grown_rows(oi, 2 * len(os) + 4 * k + 4), grown(os, 2 * len(os) + 4 * k + 4)
            while c < candidates and (rows[c] < i or not scores[c] >= thr):
                c += 1
            h = rows[c] if c < candidates else known
            e: Any = np.int64(NEVER)
            by_count = False
            if o >= 0:
                if micros > 0:
                    e = ht[o] + micros
                leaves = lo + (hq[o] + n - seq0)
                if leaves <= h and leaves < known:
                    h, by_count = leaves, True
            deleted = j < d_hi and dpos[j] <= h
            if deleted:
                h = dpos[j]
            at = h
            by_time = False
            if timed:
                at = dtime[j] if deleted else (tm[h] if h < hi else until)
                by_time = e <= at if (deleted or h < hi) else e < until
            if by_time:
                at = e
                h = lower_bound(tm, i, h, e)
            elif h == known and not deleted:
                if known < hi:
                    stop = ROWS
                    break
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
                m, x, o = _leave(hs, hq, ht, m, k, o, seq0 + (h - lo) - n, alive_from(e, micros), gone_s, gone_q, timed)
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
                    m = _remove(hs, hq, ht, m, a, a + 1, timed)
                    if a < k:
                        m = _without_dead(hs, hq, ht, m, m0 - 1, seq0 + (h - lo) - n, alive_from(at, micros), timed)
                        o = oldest(hq, min(k, m))
                if every > 0:
                    for a in range(rep_n[q, key]):
                        if rep_q[key, col + a] == target:
                            rep_d[key, col + a] = 1
                j += 1
            else:
                if by_count:
                    since = alive_from(at, micros) if timed else ALWAYS
                    m, x, o = _leave(hs, hq, ht, m, k, o, seq0 + (h - lo) - n + 1, since, gone_s, gone_q, timed)
                if c < candidates and rows[c] == h:
                    pi = _place(hs, m, scores[c])
                    _insert(hs, hq, ht, m, pi, scores[c], seq0 + (h - lo), at, timed)
                    m += 1
                    if pi < k:  # the newest of all: it cannot be the oldest unless it is alone
                        o = max(o, 0) if m == 1 else o + (1 if pi <= o else 0)
                        if o >= k:
                            o = oldest(hq, min(k, m))
                i = h + 1
            visits += 1
            if m < k and not full:
                st[PENDING], st[ROW], st[DELETION], st[SIZE], st[OUT], st[NEXT], st[LIMIT] = 1, i, j, m, r, c, size
                st[FULL], st[VISITS], fs[0] = 0, visits, thr
                st[SEEN], st[AT], st[BEFORE], st[LEFT], st[PLACE], st[CAUSE] = h, at, m0, x, pi, cause
                return oi, os, REFILL
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
            m, _ = purge(hs, hq, ht, m, 0, seq0 + (i - lo) - n, alive_from(at, micros) if timed else ALWAYS, gone_s, gone_q)
            if m > size + size // 2:  # keep the list short: what it drops, a refill finds again; and shorter while arrivals push it
                size = max(size // 2, st[BASE])
                m = min(m, size)
                thr, full = hs[m - 1], False
                st[CUT] = hq[m - 1]
            o = oldest(hq, min(k, m))
    fs[0], st[VISITS], st[LIMIT] = thr, visits, size
    st[PENDING], st[ROW], st[DELETION], st[SIZE], st[OUT], st[FULL] = 0, i, j, m, r, 1 if full else 0
    return oi, os, stop


@jit
def stamp(oi: AnyArray, r0: int, r: int, tm: AnyArray) -> None:
    """Put the times of the rows noted in changes [r0, r) there: all at once, so that the reads overlap."""
    for a in range(r0, r):
        oi[a, 2] = tm[oi[a, 2]]


@jit
def next_wake(hq: AnyArray, ht: AnyArray, m: int, micros: int) -> int:
    """The next expiry by time of the first ``m``, or NEVER."""
    if micros == 0 or m == 0:
        return NEVER
    t: int = ht[oldest(hq, m)] + micros
    return t
