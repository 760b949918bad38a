"""Top-k of many linear functions over one window: the driver that replays a block for every query and key.

Candidates come from an influence grid (``topk_many_grid``) where there is one, else from scoring the block for each query.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.single_rows.kernels.emit import ChangeRows
from skyband.operators.single_rows.kernels.expiry import alive_from
from skyband.operators.single_rows.kernels.ranked_list import RankedList, oldest
from skyband.operators.single_rows.kernels.replay import replay
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    CUT,
    DELETION,
    FULL,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACES,
    REFILL,
    ROW,
    SIZE,
    VISITS,
    Candidates,
    Progress,
    Query,
    Records,
    Span,
    fitted,
    settle,
)
from skyband.operators.topk.kernels.many_plain import NO_SEQ, replay_plain
from skyband.operators.topk.kernels.many_refill import corners_pay, look_again, refill_rows
from skyband.operators.topk.kernels.scan import gather
from skyband.operators.topk.kernels.window_pool import CHUNK, LEAF, leaf_bounds, score_rows
from skyband.operators.windows import UNBOUNDED


@jit
def run(
    query_k: AnyArray, query_n: AnyArray, query_micros: AnyArray, query_floor: AnyArray, query_ceiling: AnyArray, query_every:
    AnyArray, query_size: AnyArray,
    weights: AnyArray, boxed: AnyArray, low: AnyArray, high: AnyArray, where: AnyArray,
    procs: AnyArray, p_lo: AnyArray, p_hi: AnyArray, p_dlo: AnyArray, p_dhi: AnyArray, p_seq: AnyArray, time: AnyArray, shift:
    AnyArray, head: AnyArray, wrap: int,
    x: AnyArray, tm: AnyArray, flags: AnyArray, dead: AnyArray, dpos: AnyArray, dtime: AnyArray, dtarget: AnyArray,
    found_at: AnyArray, found_rows: AnyArray, found_scores: AnyArray,
    l_at: AnyArray, l_room: AnyArray, l_m: AnyArray, l_size: AnyArray, l_thr: AnyArray, l_cut: AnyArray, l_full: AnyArray, l_old: AnyArray,
    ps: AnyArray, pq: AnyArray, pt: AnyArray, pool: int,
    zlo: AnyArray, zhi: AnyArray, leaf_at: AnyArray,
    step: AnyArray, wake: AnyArray, due: AnyArray, rep_n: AnyArray, rep_col: AnyArray,
    rep_s: AnyArray, rep_q: AnyArray, rep_t: AnyArray, rep_d: AnyArray, until: int, work: AnyArray,
) -> tuple[AnyArray, AnyArray, int, AnyArray, AnyArray, AnyArray, int]:  # fmt: skip
    """Change rows and their number, and the pool of lists (which may have moved) and its end.

    Key g of ``procs`` has rows [p_lo, p_hi) of the block, the first with seq ``p_seq``;
    block row i is place i + shift[g] (see ``topk_many_refill``). Query
    q's candidates are found_rows[found_at[q]:found_at[q+1]] if
    ``found_at`` is not empty (then there is one key). List (q, key) has l_m members at ps/pq/pt[l_at:], room ``l_room``, oldest seq
    among the first k ``l_old``.
    """
    oi, os = np.empty((1024, 8), np.int64), np.empty(1024, np.float64)
    st, fs = np.zeros(PLACES, np.int64), np.zeros(2, np.float64)
    progress = Progress(st, fs)
    block = Block(procs, p_lo, p_hi, p_dlo, p_dhi, p_seq, time, dpos, dtime, dtarget)
    records = Records(step, wake, due, rep_n, rep_s, rep_q, rep_t, rep_d)
    most = 1
    for g in range(len(procs)):
        most = max(most, p_hi[g] - p_lo[g])
    rows, scores = np.empty(most, np.int64), np.empty(most, np.float64)
    chunk = np.empty(max(CHUNK, LEAF), np.float64)
    cap = 64
    wa, wi = np.empty(cap, np.float64), np.empty(cap, np.int64)
    gone_s, gone_q = np.empty(cap, np.float64), np.empty(cap, np.int64)
    out = 0
    indexed = len(found_at) > 0
    for q in range(len(query_k)):
        k, n, micros, every = query_k[q], query_n[q], query_micros[q], query_every[q]
        plain = micros >= UNBOUNDED and every == 0 and len(dead) == 0
        floor, ceiling, w, box, wh = query_floor[q], query_ceiling[q], weights[q], boxed[q], where[q]
        for g in range(len(procs)):
            key = procs[g]
            lo, hi, d_hi, seq0 = p_lo[g], p_hi[g], p_dhi[g], p_seq[g]
            found, up = 0, shift[g]
            if indexed:
                crow, cscore = found_rows[found_at[q] : found_at[q + 1]], found_scores[found_at[q] : found_at[q + 1]]
                found = len(crow)
            else:
                crow, cscore = rows, scores
                a = lo
                while a < hi:
                    p = a + up if a + up < wrap else a + up - wrap
                    b = min(hi, a + CHUNK, a + wrap - p)
                    score_rows(w, x, p, p + b - a, box, low[q], high[q], wh, flags, ceiling, chunk)
                    found += gather(chunk, 0, b - a, a, l_thr[q, key], rows[found:], scores[found:])
                    a = b
            leaves = l_old[q, key] + n < seq0 + (hi - lo)
            if found == 0 and p_dlo[g] == d_hi and wake[q, key] >= until and not leaves:
                continue
            size = l_size[q, key]
            room = min(2 * size, l_m[q, key] + found) + 2 if l_full[q, key] == 1 else 2 * size + 2
            if room > l_room[q, key]:
                room = min(2 * room, 2 * size + 2)
                if pool + room > len(ps):
                    ps, pq, pt = grown(ps, 2 * (pool + room)), grown(pq, 2 * (pool + room)), grown(pt, 2 * (pool + room))
                a, b = l_at[q, key], l_m[q, key]
                for i in range(b):
                    ps[pool + i], pq[pool + i], pt[pool + i] = ps[a + i], pq[a + i], pt[a + i]
                l_at[q, key], l_room[q, key] = pool, room
                pool += room
            at = l_at[q, key]
            hs, hq, ht = ps[at : at + l_room[q, key]], pq[at : at + l_room[q, key]], pt[at : at + l_room[q, key]]
            if cap < 2 * size + 1:
                cap = 2 * size + 1
                wa, wi = grown(wa, cap), grown(wi, cap)
                gone_s, gone_q = grown(gone_s, cap), grown(gone_q, cap)
            st[PENDING], st[ROW], st[DELETION], st[SIZE], st[OUT], st[NEXT], st[LIMIT] = 0, lo, p_dlo[g], l_m[q, key], out, 0, size
            fs[0], st[CUT], st[FULL] = l_thr[q, key], l_cut[q, key], l_full[q, key]
            st[AT] = l_old[q, key]
            st[VISITS], st[BASE], read = 0, query_size[q], work[1]
            while True:
                if plain:
                    oi, os, step[q, key], need = replay_plain(
                        st, fs, q, key, k, n, hi, seq0 - lo, crow, cscore, found, time, hs, hq, step[q, key], oi, os
                    )  # fmt: skip
                else:
                    query, span = Query(q, k, n, micros, every, rep_col[q]), Span(key, lo, hi, seq0, d_hi, until, True)
                    changes, stop = replay(
                        query, span, block, Candidates(crow, cscore), found, hi, RankedList(hs, hq, ht, gone_s, gone_q), progress, records,
                        ChangeRows(oi, os),
                    )  # fmt: skip
                    oi, os = changes.numbers, changes.score
                    need = stop == REFILL
                if not need:
                    break
                i, m, size = st[ROW], st[SIZE], st[LIMIT]
                cost = (work[1] - read + (hi + up - head[key]) // LEAF) // 64
                size = max(m + 1, fitted(size, max(8 * k + 64, cost), st[VISITS], cost))
                st[LIMIT], st[VISITS], read = size, 0, work[1]
                if 2 * size + 2 > l_room[q, key]:
                    room = 2 * size + 2
                    if pool + room > len(ps):
                        ps, pq, pt = grown(ps, 2 * (pool + room)), grown(pq, 2 * (pool + room)), grown(pt, 2 * (pool + room))
                    a = l_at[q, key]
                    for b in range(m):
                        ps[pool + b], pq[pool + b], pt[pool + b] = ps[a + b], pq[a + b], pt[a + b]
                    l_at[q, key], l_room[q, key] = pool, room
                    pool += room
                at = l_at[q, key]
                hs, hq, ht = ps[at : at + l_room[q, key]], pq[at : at + l_room[q, key]], pt[at : at + l_room[q, key]]
                if cap < 2 * size + 1:
                    cap = 2 * size + 1
                    wa, wi = grown(wa, cap), grown(wi, cap)
                    gone_s, gone_q = grown(gone_s, cap), grown(gone_q, cap)
                known = max(leaf_at[key], head[key])
                known = (known + LEAF - 1) // LEAF * LEAF
                if corners_pay(w, x, zlo, zhi, known, i + up, wrap, fs[0]):
                    while known + LEAF <= hi + up:
                        p = known if known < wrap else known - wrap
                        leaf_bounds(x, p, zlo, zhi, p // LEAF)
                        known += LEAF
                        leaf_at[key] = known
                got = refill_rows(
                    w, x, tm, box, low[q], high[q], wh, flags, dead, ceiling, head[key], i + up, wrap, seq0 - lo - up, st[DELETION],
                    seq0 + (i - lo) - n, alive_from(st[AT], micros), fs[0], st[CUT], floor, hs, hq, ht, m, size - m, wa, wi, chunk,
                    zlo, zhi, min(known, (i + up) // LEAF * LEAF), work,
                )  # fmt: skip
                st[SIZE] = m + got
                settle(progress, RankedList(hs, hq, ht, gone_s, gone_q), got < size - m, floor)
                work[0] += 1
                crow, cscore = rows, scores  # the cutoff is lower now: look again at the rest of the block
                found = look_again(
                    w, x, box, low[q], high[q], wh, flags, ceiling, i + up, hi + up, up, wrap, fs[0], rows, scores, chunk,
                    zlo, zhi, head[key], known, work,
                )  # fmt: skip
                st[NEXT] = 0
            out = st[OUT]
            m = st[SIZE]
            l_m[q, key], l_size[q, key], l_thr[q, key], l_cut[q, key], l_full[q, key] = m, st[LIMIT], fs[0], st[CUT], st[FULL]
            if plain:
                l_old[q, key] = st[AT]
                continue
            o = oldest(hq, min(k, m))
            l_old[q, key] = hq[o] if o >= 0 else NO_SEQ
            wake[q, key] = min(ht[o] + micros if o >= 0 and micros < UNBOUNDED else NEVER, due[q, key])
    return oi, os, out, ps, pq, pt, pool
