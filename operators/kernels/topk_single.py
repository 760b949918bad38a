"""Top-k of one scoring function: the driver that replays a block for every query and key (algorithms.md D1).

Scores of the whole block are known; lists are filled from the skyband of the last block and the rows of this one.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.kernels.jit import jit
from skyband.operators.kernels.topk_list import into_rank_order, lower_bound, select
from skyband.operators.kernels.topk_replay import (
    AT,
    BASE,
    CUT,
    DELETION,
    FAR_FUTURE,
    LIMIT,
    NEXT,
    OUT,
    ROW,
    SIZE,
    STATE,
    VISITS,
    alive_from,
    begin,
    fitted,
    gather,
    grown,
    next_wake,
    replay,
    settle,
)


@jit
def refill(
    cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray, c_lo: int, c_hi: int, sc: AnyArray, tm: AnyArray, sd: AnyArray, lo: int,
    arrived: int,
    seq0: int, deletes: bool, now: int, min_seq: int, min_time: int, thr: float, cut: int, floor: float,
    hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int, need: int, wa: AnyArray, wi: AnyArray,
) -> int:  # fmt: skip
    """Append to the list the ``need`` best alive candidates that rank after (thr, seq ``cut``). Returns how many there were."""
    c = 0
    a = max(lo, min(arrived, lo + (min_seq - seq0)))
    a = lower_bound(tm, a, arrived, min_time)
    c = select(sc, sd, deletes, now, a, arrived, c_hi - lo, thr, lo + (cut - seq0), floor, wa, wi, c, need)
    a = max(lower_bound(cq, c_lo, c_hi, min_seq), lower_bound(ct, c_lo, c_hi, min_time))
    if a < c_hi:
        c = select(cs, cd, deletes, now, a, c_hi, 0, thr, lower_bound(cq, c_lo, c_hi, cut), floor, wa, wi, c, need)
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
def run(
    query_k: AnyArray, query_n: AnyArray, query_micros: AnyArray, query_floor: AnyArray, query_every: AnyArray, query_size: AnyArray,
    procs: AnyArray, p_lo: AnyArray, p_hi: AnyArray, p_dlo: AnyArray, p_dhi: AnyArray, p_seq: AnyArray,
    sc: AnyArray, tm: AnyArray, sd: AnyArray, dpos: AnyArray, dtime: AnyArray, dtarget: AnyArray,
    coff: AnyArray, cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray,
    step: AnyArray, wake: AnyArray, due: AnyArray, rep_n: AnyArray, rep_col: AnyArray,
    rep_s: AnyArray, rep_q: AnyArray, rep_t: AnyArray, rep_d: AnyArray,
    prev_until: int, until: int, deletes: bool, counters: AnyArray,
) -> tuple[AnyArray, AnyArray, int]:  # fmt: skip
    """Replay the block for every query and every key of ``procs``. Returns the change rows (grouped by query, then key) and their number.

    Key g of ``procs`` has rows [p_lo, p_hi) of (sc, tm), the first with seq ``p_seq``, deletions [p_dlo, p_dhi), and skyband rows
    coff[key]..coff[key+1] of (cs, cq, ct). Deletion j comes before row ``dpos[j]``; ``sd``/``cd`` hold the deletion that ends a row,
    or NEVER.
    """
    oi, os = np.empty((1024, 8), np.int64), np.empty(1024, np.float64)
    st, fs = np.zeros(STATE, np.int64), np.zeros(1, np.float64)
    cap = 64
    hs, hq, ht = np.empty(cap, np.float64), np.empty(cap, np.int64), np.empty(cap, np.int64)
    wa, wi = np.empty(cap, np.float64), np.empty(cap, np.int64)
    gone_s, gone_q = np.empty(cap, np.float64), np.empty(cap, np.int64)
    rows, scores = np.empty(len(sc), np.int64), np.empty(len(sc), np.float64)
    out = 0
    for q in range(len(query_k)):
        k, n, micros, floor, every = query_k[q], query_n[q], query_micros[q], query_floor[q], query_every[q]
        for g in range(len(procs)):
            key = procs[g]
            lo, hi, d_hi, seq0 = p_lo[g], p_hi[g], p_dhi[g], p_seq[g]
            if lo == hi and p_dlo[g] == d_hi and wake[q, key] >= until:
                continue
            c_lo, c_hi = coff[key], coff[key + 1]
            size = query_size[q]
            if cap < 2 * size + 1:
                cap = 2 * size + 1
                hs, hq, ht = grown(hs, cap), grown(hq, cap), grown(ht, cap)
                wa, wi = grown(wa, cap), grown(wi, cap)
                gone_s, gone_q = grown(gone_s, cap), grown(gone_q, cap)
            m = refill(
                cs, cq, ct, cd, c_lo, c_hi, sc, tm, sd, lo, lo, seq0, deletes, p_dlo[g], seq0 - n, alive_from(prev_until - 1, micros),
                np.inf, FAR_FUTURE, floor, hs, hq, ht, 0, size, wa, wi,
            )  # fmt: skip
            begin(st, fs, lo, p_dlo[g], m, size, m < size, floor, hs, hq, out)
            st[VISITS], st[BASE] = 0, size
            while True:
                found = gather(sc, st[ROW], hi, 0, fs[0], rows, scores)
                st[NEXT] = 0
                oi, os, need = replay(
                    st, fs, q, key, k, n, micros, every, lo, hi, d_hi, seq0, rows, scores, found, tm, dpos, dtime, dtarget,
                    hs, hq, ht, gone_s, gone_q, step, due, rep_n, rep_col[q], rep_s, rep_q, rep_t, rep_d, until, oi, os,
                )  # fmt: skip
                if not need:
                    break
                i, m, size = st[ROW], st[SIZE], st[LIMIT]
                cost = (c_hi - c_lo + i - lo) // 256
                size = max(m + 1, fitted(size, max(8 * k + 64, cost), st[VISITS], cost))
                st[LIMIT], st[VISITS] = size, 0
                if cap < 2 * size + 1:
                    cap = 2 * size + 1
                    hs, hq, ht = grown(hs, cap), grown(hq, cap), grown(ht, cap)
                    wa, wi = grown(wa, cap), grown(wi, cap)
                    gone_s, gone_q = grown(gone_s, cap), grown(gone_q, cap)
                got = refill(
                    cs, cq, ct, cd, c_lo, c_hi, sc, tm, sd, lo, i, seq0, deletes, st[DELETION], seq0 + (i - lo) - n, alive_from(st[AT],
                    micros),
                    fs[0], st[CUT], floor, hs, hq, ht, m, size - m, wa, wi,
                )  # fmt: skip
                st[SIZE] = m + got
                settle(st, fs, got < size - m, floor, hs, hq)
                counters[0] += 1
            out = st[OUT]
            wake[q, key] = min(next_wake(hq, ht, min(k, st[SIZE]), micros), due[q, key])
    return oi, os, out
