"""Top-k of one scoring function: the driver that replays a block for every query and key (docs/algorithms.md D1).

Scores of the whole block are known; lists are filled from the skyband of the last block and the rows of this one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.ranked_list import into_rank_order, lower_bound, select
from skyband.operators.single_rows.kernels.replay import (
    AT,
    BASE,
    CUT,
    DELETION,
    DONE,
    FAR_FUTURE,
    LIMIT,
    NEXT,
    OUT,
    ROW,
    ROWS,
    SIZE,
    STATE,
    VISITS,
    alive_from,
    begin,
    fitted,
    grown,
    next_wake,
    replay,
    settle,
    stamp,
)
from skyband.operators.topk.kernels.scan import gather


@jit
def refill_from_rows(
    cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray, c_lo: int, c_hi: int, sc: AnyArray, tm: AnyArray, sd: AnyArray, lo: int,
    arrived: int, seq0: int, now: int, min_seq: int, min_time: int, thr: float, cut: int, floor: float,
    hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, need: int, wa: AnyArray, wi: AnyArray,
) -> int:  # fmt: skip
    """Append to the list the ``need`` best alive candidates that rank after (thr, seq ``cut``), from a state in seq order with deletions.

    Returns how many there were. O(rows + state + need log need).
    """
    c = 0
    a = max(lo, min(arrived, lo + (min_seq - seq0)))
    a = lower_bound(tm, a, arrived, min_time)
    c = select(sc, sd, True, now, a, arrived, c_hi - lo, thr, lo + (cut - seq0), floor, wa, wi, c, need)
    a = max(lower_bound(cq, c_lo, c_hi, min_seq), lower_bound(ct, c_lo, c_hi, min_time))
    if a < c_hi:
        c = select(cs, cd, True, now, a, c_hi, 0, thr, lower_bound(cq, c_lo, c_hi, cut), floor, wa, wi, c, need)
    into_rank_order(wa, wi, c)
    for i in range(c):
        src = wi[i]
        hs[m + i] = wa[i]
        if src < c_hi:
            hq[m + i], ht[m + i] = cq[src], ct[src]
        else:
            row = src - c_hi + lo
            hq[m + i], ht[m + i] = seq0 + row - lo, tm[row]
    return c


@jit
def refill_from_band(
    cs: AnyArray, cq: AnyArray, ct: AnyArray, c_lo: int, c_hi: int, sc: AnyArray, tm: AnyArray, sd: AnyArray, lo: int,
    arrived: int, seq0: int, min_seq: int, min_time: int, thr: float, cut: int, floor: float,
    hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, need: int, wa: AnyArray, wi: AnyArray,
) -> int:  # fmt: skip
    """As ``refill_from_rows``, from a band in rank order and the rows so far: a merge. O(rows + need log need + log band)."""
    c = 0
    if arrived > lo:
        a = max(lo, min(arrived, lo + (min_seq - seq0)))
        a = lower_bound(tm, a, arrived, min_time)
        c = select(sc, sd, False, 0, a, arrived, 0, thr, lo + (cut - seq0), floor, wa, wi, 0, need)
        into_rank_order(wa, wi, c)
    b, e = c_lo, c_hi
    if m > 0:  # the first member after the cutoff
        while b < e:
            mid = (b + e) >> 1
            if cs[mid] > thr or (cs[mid] == thr and cq[mid] >= cut):
                b = mid + 1
            else:
                e = mid
    i, w = 0, m
    while w < m + need:
        while b < c_hi and (cq[b] < min_seq or ct[b] < min_time):
            b += 1
        old = b < c_hi and cs[b] >= floor
        if i < c and (not old or wa[i] >= cs[b]):  # equal: the newer one first
            row = wi[i]
            hs[w], hq[w], ht[w] = wa[i], seq0 + row - lo, tm[row]
            i += 1
        elif old:
            hs[w], hq[w], ht[w] = cs[b], cq[b], ct[b]
            b += 1
        else:
            break
        w += 1
    return w - m


@jit
def run(
    spec: AnyArray, floors: AnyArray, rep_col: AnyArray, groups: AnyArray, sc: AnyArray, tm: AnyArray, sd: AnyArray, dels: AnyArray,
    start: AnyArray, length: AnyArray, cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray,
    next_seq: AnyArray, clocks: AnyArray, rep_s: AnyArray, rep_i: AnyArray,
    prev_until: int, until: int, deletes: bool, piece: int, counters: AnyArray,
    rows: AnyArray, scores: AnyArray, oi: AnyArray, os: AnyArray,
) -> tuple[AnyArray, AnyArray, int]:  # fmt: skip
    """Replay the block for every query and every key of ``groups`` and bring ``next_seq`` up to date. Returns the change rows (grouped by
    query, then key) and their number.

    ``spec`` (6, queries): k, count, duration, boundaries, list size, same at first. ``groups`` (6, keys): key, rows [lo, hi) of (sc, tm),
    deletions [dlo, dhi) of ``dels`` (before which row, instant, target), seq of row lo. State of ``key``: places start .. + length of
    (cs, cq, ct): its band in rank order, or with ``deletes`` all candidates in seq order; ``sd``/``cd`` hold the deletion that ends a
    row, or NEVER. ``clocks`` (4, queries, keys): step, wake, due, rep_n; ``rep_i`` (3, ...): rep_q, rep_t, rep_d. ``rows``, ``scores``
    (room for a key's rows) and ``oi``, ``os`` (the change rows, replaced if too short) are scratch. Candidates are sought ``piece`` rows
    ahead at first.
    """
    procs, p_lo, p_hi, p_dlo, p_dhi, p_seq = groups[0], groups[1], groups[2], groups[3], groups[4], groups[5]
    step, wake, due, rep_n = clocks[0], clocks[1], clocks[2], clocks[3]
    rep_q, rep_t, rep_d = rep_i[0], rep_i[1], rep_i[2]
    dpos, dtime, dtarget = dels[0], dels[1], dels[2]
    st, fs = np.zeros(STATE, np.int64), np.zeros(1, np.float64)
    cap = 64
    hs, hq, ht = np.empty(cap, np.float64), np.empty(cap, np.int64), np.empty(cap, np.int64)
    wa, wi = np.empty(cap, np.float64), np.empty(cap, np.int64)
    gone_s, gone_q = np.empty(cap, np.float64), np.empty(cap, np.int64)
    out = 0
    for q in range(spec.shape[1]):
        k, n, micros, every, floor = spec[0, q], spec[1, q], spec[2, q], spec[3, q], floors[q]
        for g in range(len(procs)):
            key = procs[g]
            lo, hi, d_hi, seq0 = p_lo[g], p_hi[g], p_dhi[g], p_seq[g]
            if lo == hi and p_dlo[g] == d_hi and wake[q, key] >= until:
                continue
            c_lo, c_hi = start[key], start[key] + length[key]
            size, first = spec[4, q], spec[5, q]
            if cap < 2 * size + 1:
                cap = 2 * size + 1
                hs, hq, ht = grown(hs, cap), grown(hq, cap), grown(ht, cap)
                wa, wi = grown(wa, cap), grown(wi, cap)
                gone_s, gone_q = grown(gone_s, cap), grown(gone_q, cap)
            since = alive_from(prev_until - 1, micros)
            if deletes:
                m = refill_from_rows(
                    cs, cq, ct, cd, c_lo, c_hi, sc, tm, sd, lo, lo, seq0, p_dlo[g], seq0 - n, since,
                    np.inf, FAR_FUTURE, floor, hs, hq, ht, 0, first, wa, wi,
                )  # fmt: skip
            else:
                m = refill_from_band(
                    cs, cq, ct, c_lo, c_hi, sc, tm, sd, lo, lo, seq0, seq0 - n, since,
                    np.inf, FAR_FUTURE, floor, hs, hq, ht, 0, first, wa, wi,
                )  # fmt: skip
            begin(st, fs, lo, p_dlo[g], m, size, m < first, floor, hs, hq, out)
            st[VISITS], st[BASE] = 0, size
            timed = micros > 0 or every > 0 or p_dlo[g] < d_hi
            known, ahead = lo, piece
            while True:
                i, known = known, min(hi, known + ahead)
                ahead *= 2
                found = gather(sc, i, known, 0, fs[0], rows, scores)
                st[NEXT] = 0
                oi, os, need = replay(
                    st, fs, q, key, k, n, micros, every, lo, known, hi, d_hi, seq0, rows, scores, found, tm, dpos, dtime, dtarget,
                    hs, hq, ht, gone_s, gone_q, step, due, rep_n, rep_col[q], rep_s, rep_q, rep_t, rep_d, until, timed, oi, os,
                )  # fmt: skip
                if need == DONE:
                    break
                if need == ROWS:
                    continue
                known, ahead = st[ROW], piece
                i, m, size = st[ROW], st[SIZE], st[LIMIT]
                cost = (c_hi - c_lo + i - lo) // 256
                size = max(m + 1, fitted(size, max(8 * k + 64, cost), st[VISITS], cost))
                st[LIMIT], st[VISITS] = size, 0
                if cap < 2 * size + 1:
                    cap = 2 * size + 1
                    hs, hq, ht = grown(hs, cap), grown(hq, cap), grown(ht, cap)
                    wa, wi = grown(wa, cap), grown(wi, cap)
                    gone_s, gone_q = grown(gone_s, cap), grown(gone_q, cap)
                since = alive_from(st[AT], micros)
                if deletes:
                    got = refill_from_rows(
                        cs, cq, ct, cd, c_lo, c_hi, sc, tm, sd, lo, i, seq0, st[DELETION], seq0 + (i - lo) - n, since,
                        fs[0], st[CUT], floor, hs, hq, ht, m, size - m, wa, wi,
                    )  # fmt: skip
                else:
                    got = refill_from_band(
                        cs, cq, ct, c_lo, c_hi, sc, tm, sd, lo, i, seq0, seq0 + (i - lo) - n, since,
                        fs[0], st[CUT], floor, hs, hq, ht, m, size - m, wa, wi,
                    )  # fmt: skip
                st[SIZE] = m + got
                settle(st, fs, got < size - m, floor, hs, hq)
                counters[0] += 1
            if not timed:
                stamp(oi, out, st[OUT], tm)
            out = st[OUT]
            wake[q, key] = min(next_wake(hq, ht, min(k, st[SIZE]), micros), due[q, key])
    for g in range(len(procs)):
        next_seq[procs[g]] = p_seq[g] + (p_hi[g] - p_lo[g])
    return oi, os, out


@jit
def groups_of(key: AnyArray, seq: AnyArray, also: AnyArray, next_seq: AnyArray) -> AnyArray:
    """``groups`` of rows sorted by (key, seq), and of the keys of ``also`` (sorted), those without rows empty. O(rows + keys)."""
    rows = len(key)
    most: Any = np.int64(len(also) + (1 if rows > 0 else 0))
    for i in range(1, rows):
        most += np.int64(key[i] != key[i - 1])
    out = np.zeros((6, most), np.int64)
    g, a, i = 0, 0, 0
    while i < rows or a < len(also):
        if a < len(also) and (i == rows or also[a] < key[i]):
            out[0, g], out[5, g] = also[a], next_seq[also[a]]
            a += 1
        else:
            if a < len(also) and also[a] == key[i]:
                a += 1
            out[0, g], out[1, g], out[5, g] = key[i], i, seq[i]
            i += 1
            while i < rows and key[i] == key[i - 1]:
                i += 1
            out[2, g] = i
        g += 1
    return out[:, :g].copy()


@jit
def publish(oi: AnyArray, os: AnyArray, n: int, negate: bool) -> tuple[AnyArray, ...]:
    """The first ``n`` change rows as the columns of ``Changes``, scores as the user wrote them (-0.0 folded)."""
    query, key, at, step = np.empty(n, np.int16), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    pos, sign, cause = np.empty(n, np.int32), np.empty(n, np.int8), np.empty(n, np.int8)
    score, items = np.empty(n, np.float64), np.empty((n, 1), np.int64)
    for i in range(n):
        query[i], key[i], at[i], step[i] = oi[i, 0], oi[i, 1], oi[i, 2], oi[i, 3]
        pos[i], sign[i], cause[i], items[i, 0] = oi[i, 4], oi[i, 5], oi[i, 6], oi[i, 7]
        score[i] = (-os[i] if negate else os[i]) + 0.0
    return query, key, at, step, pos, sign, cause, score, items
