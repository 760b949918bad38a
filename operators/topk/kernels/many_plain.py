"""Replay of a block for a query with a count window alone, over one key: the common case of ``topk_many.run``, with less to look at.

The list is as in ``topk_replay``; it lies in the pool of lists and is worked on in place. An expired member beyond the first k is dropped
when it would be promoted.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import ARRIVAL, DISPLACED, EXPIRY, NEVER, PROMOTED, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.arrays import grown, grown_rows, shift
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, put
from skyband.operators.single_rows.kernels.ranked_list import place_of
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    BEFORE,
    CUT,
    FULL,
    LEFT,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACE,
    ROW,
    SEEN,
    SIZE,
    VISITS,
)

NO_SEQ = NEVER // 4


@jit
def _least(hq: AnyArray, m: int) -> int:
    """The oldest seq of the first ``m``, or NO_SEQ. O(m)."""
    least = np.int64(NO_SEQ)
    for i in range(m):
        least = min(least, hq[i])
    return int(least)


@jit
def replay_plain(
    st: AnyArray, fs: AnyArray, q: int, key: int, k: int, n: int, hi: int, up: int, rows: AnyArray, scores: AnyArray, candidates: int,
    time: AnyArray, hs: AnyArray, hq: AnyArray, step: int, oi: AnyArray, os: AnyArray,
) -> tuple[AnyArray, AnyArray, int, bool]:  # fmt: skip
    """Go on from ``st`` to the end of the block (False) or to the next refill (True). Returns the change rows, which may have moved, and
    the query's step.

    ``st[AT]`` is the oldest seq of the first k, or NO_SEQ. Row i has seq i + ``up``; ``rows``/``scores`` are the candidates in order.
    O(k) per visited event.
    """
    m, out, c, size, visits = st[SIZE], st[OUT], st[NEXT], st[LIMIT], st[VISITS]
    thr, full, old = fs[0], st[FULL] == 1, st[AT]
    pending = st[PENDING] == 1
    h, left, pi, kept, gone_q, gone_s = hi, 0, -1, 0, 0, 0.0
    if pending:
        h, kept, left, pi, gone_q, gone_s = st[ROW] - 1, st[BEFORE], st[LEFT], st[PLACE], st[SEEN], fs[1]
        if pi < 0:  # the arrival itself may have come with the refill
            for i in range(m):
                if hq[i] == h + up:
                    pi = i
        old = _least(hq, min(k, m))
    while True:
        if not pending:
            while c < candidates and not scores[c] >= thr:
                c += 1
            h = rows[c] if c < candidates else hi
            left = 0
            e = old + n - up
            if e <= h and e < hi:
                h, left = e, 1
            if h == hi:
                break
            if out + 2 * k + 4 > len(os):
                size_now = 2 * len(os) + 2 * k + 4
                oi, os = grown_rows(oi, size_now), grown(os, size_now)
            kept, pi = min(k, m), -1
            if left == 1:
                kept -= 1
                o = 0
                while hq[o] != old:
                    o += 1
                gone_q, gone_s = old, hs[o]
                shift(hs, o + 1, m, -1)
                shift(hq, o + 1, m, -1)
                m -= 1
                alive = h + up - n
                while m >= k and hq[k - 1] <= alive:  # expired unseen: not to be promoted
                    shift(hs, k, m, -1)
                    shift(hq, k, m, -1)
                    m -= 1
                old = _least(hq, min(k, m))
            if c < candidates and rows[c] == h:
                s = scores[c]
                pi = place_of(hs, m, s)
                shift(hs, pi, m, 1)
                shift(hq, pi, m, 1)
                hs[pi], hq[pi] = s, h + up
                m += 1
                c += 1
                if pi < k:
                    old = min(old, h + up)
                    if m > k and hq[k] == old:
                        old = _least(hq, k)
            visits += 1
            if m < k and not full:
                st[PENDING], st[ROW], st[SIZE], st[OUT], st[NEXT], st[LIMIT], st[VISITS] = 1, h + 1, m, out, c, size, visits
                st[BEFORE], st[LEFT], st[PLACE], st[SEEN], fs[1] = kept, left, pi, gone_q, gone_s
                st[FULL], fs[0] = 0, thr
                return oi, os, step, True
        pending = False
        shown = min(k, m)
        entered = 0 <= pi < k
        if left == 1 or entered or shown > kept:
            step += 1
            event, changes, pos = Event(q, key, time[h], step), ChangeRows(oi, os), 0
            if left == 1:
                out = put(changes, out, event, pos, -1, EXPIRY, gone_q, gone_s)
                pos += 1
            if entered and kept == k:
                out = put(changes, out, event, pos, -1, DISPLACED, hq[k], hs[k])
                pos += 1
            if entered and pi < kept:
                out = put(changes, out, event, pos, 1, ARRIVAL, hq[pi], hs[pi])
                pos += 1
                kept += 1
            for i in range(kept, shown):
                out = put(changes, out, event, pos, 1, ARRIVAL if i == pi else PROMOTED, hq[i], hs[i])
                pos += 1
        if m >= 2 * size:
            w, alive = 0, h + up - n
            for i in range(m):
                hs[w], hq[w] = hs[i], hq[i]
                w += 1 if hq[i] > alive else 0
            m = w
            if m >= 2 * size:  # as in topk_replay
                size = max(size // 2, st[BASE])
                m = size
                thr, full = hs[m - 1], False
                st[CUT] = hq[m - 1]
    fs[0], st[VISITS], st[LIMIT] = thr, visits, size
    st[AT] = old
    st[PENDING], st[SIZE], st[OUT], st[FULL] = 0, m, out, 1 if full else 0
    return oi, os, step, False
