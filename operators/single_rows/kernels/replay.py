"""Replay of one query and key over a block of arrivals: the event loop that every top-k operator shares (docs/algorithms.md D1, step 2).

The query's *list* holds every alive candidate that ranks at or above its cutoff: fewer than 2 * limit of them, in rank order. Only rows
that reach the cutoff (*candidates*, found beforehand by a scan or an index) and the departures of the first k are visited; between them
nothing can change. Members beyond the first k may be dead until they would be promoted, or the list is long. When fewer than k are left
and the list does not hold all there is, ``replay`` stops in the middle of the event, the driver refills the list, and ``replay`` goes on.

Work per visit hardly grows with the list: the oldest of the first k is followed instead of sought, a departure moves the tail of the list
instead of sieving it, and the time column is not read until needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import DELETE, EXPIRY, NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound, shift
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, more_rows
from skyband.operators.single_rows.kernels.expiry import ALWAYS, alive_from
from skyband.operators.single_rows.kernels.net_change import Shown, changed, write_boundary, write_event
from skyband.operators.single_rows.kernels.ranked_list import RankedList, oldest, place_of
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    BEFORE,
    CAUSE,
    CUT,
    DELETION,
    DONE,
    FULL,
    LEFT,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACE,
    REFILL,
    ROW,
    ROWS,
    SEEN,
    SIZE,
    VISITS,
    Candidates,
    Progress,
    Query,
    Records,
    Span,
)
from skyband.operators.windows import UNBOUNDED

SHORT = 256


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
    query: Query, span: Span, block: Block, candidates: Candidates, found: int, known: int,
    ranked: RankedList, progress: Progress, records: Records, changes: ChangeRows,
) -> tuple[ChangeRows, int]:  # fmt: skip
    """Go on from ``progress`` to the end of the block (DONE), to the next refill (REFILL), or to row ``known`` (ROWS): candidates are
    known for rows before it only. Returns the change rows, which may have moved, and what it stopped for.

    ``candidates`` are ``found`` rows of the span, in order. O(k) per change and O(list) moves per visited event.
    """
    st, fs = progress.places, progress.cutoff
    q, k, n, micros, every, col = query.number, query.k, query.count, query.micros, query.every, query.column
    key, lo, hi, seq0, d_hi, until, timed = (
        span.key, span.begin, span.end, span.first_seq, span.deletions_end, span.until, span.timed
    )  # fmt: skip
    tm, dpos, dtime, dtarget = block.time, block.deletion_row, block.deletion_time, block.deletion_seq
    rows, scores = candidates.row, candidates.score
    hs, hq, ht, gone_s, gone_q = ranked.score, ranked.seq, ranked.time, ranked.left_score, ranked.left_seq
    step, due, rep_n = records.step, records.due, records.shown
    rep_s, rep_q, rep_t, rep_d = records.shown_score, records.shown_seq, records.shown_time, records.shown_deleted
    i, j, m, r, c, size = st[ROW], st[DELETION], st[SIZE], st[OUT], st[NEXT], st[LIMIT]
    thr, full = fs[0], st[FULL] == 1
    pending, visits = st[PENDING] == 1, st[VISITS]
    h, at, m0, x, pi, cause = st[SEEN], st[AT], st[BEFORE], st[LEFT], st[PLACE], st[CAUSE]
    o = oldest(hq, min(k, m))
    stop = DONE
    while True:
        if not pending:
            if r + 4 * k + 4 > len(changes.score):
                changes = more_rows(changes, 2 * len(changes.score) + 4 * k + 4)
            while c < found and (rows[c] < i or not scores[c] >= thr):
                c += 1
            h = rows[c] if c < found else known
            e: Any = np.int64(NEVER)
            by_count = False
            if o >= 0:
                if micros < UNBOUNDED:
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
                shown = Shown(rep_s[key, col : col + k], rep_q[key, col : col + k], rep_t[key, col : col + k], rep_d[key, col : col + k])
                r = write_boundary(
                    changes, r, Event(q, key, b, step[q, key] + 1), ranked, min(k, m), shown, rep_n[q, key], seq0 + (i - lo) - n,
                    alive_from(b, micros),
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
                if c < found and rows[c] == h:
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
                return changes, REFILL
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
                r = write_event(changes, r, Event(q, key, at, step[q, key]), k, m0, x, cause, ranked, m, pi)
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
    return changes, stop


@jit
def stamp(changes: ChangeRows, begin: int, end: int, time: AnyArray) -> None:
    """Put the times of the rows noted in changes [begin, end) there: all at once, so that the reads overlap."""
    numbers = changes.numbers
    for row in range(begin, end):
        numbers[row, 2] = time[numbers[row, 2]]


@jit
def next_wake(ranked: RankedList, size: int, micros: int) -> int:
    """The next expiry by time of the first ``size``, or NEVER."""
    if micros >= UNBOUNDED or size == 0:
        return NEVER
    instant: int = ranked.time[oldest(ranked.seq, size)] + micros
    return instant
