"""The skybands of many keys in one pool, each in a slab of its own, in rank order with every member's number of dominators.

Key ``key`` owns places ``start[key]`` .. + ``room[key]`` of the columns (cs score, cq seq, ct time, cd dominators), the first
``length[key]`` in use; members that have expired since the key's last rows are still there. A dominator is newer and ranks before; it
expires later, so the numbers only grow, and a member goes with its K-th (docs/algorithms.md D1; the counters are SMA's, paper 2).
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit
from skyband.operators.single_rows.kernels.ranked_list import heap_push, heap_to_order, lower_bound
from skyband.operators.single_rows.kernels.replay import alive_from
from skyband.operators.topk.kernels.scan import band

FEW = 24


@jit
def _rank_nb(score: AnyArray, m: int, wa: AnyArray, wi: AnyArray) -> None:
    if m <= FEW:
        for j in range(m):
            s = score[j]
            p = j
            while p > 0 and wa[p - 1] < s:
                wa[p], wi[p] = wa[p - 1], wi[p - 1]
                p -= 1
            wa[p], wi[p] = s, j
    else:
        c = 0
        for j in range(m):
            c = heap_push(wa, wi, c, score[j], -j)
        heap_to_order(wa, wi, c)
        for j in range(m):
            wi[j] = -wi[j]


def _rank_np(score: AnyArray, m: int, wa: AnyArray, wi: AnyArray) -> None:
    wi[:m] = np.argsort(-score[:m], kind="stable")
    wa[:m] = score[wi[:m]]


_rank = _rank_nb if HAVE_NUMBA else _rank_np
"""Sort: wa[:m] = the scores, largest first, of equal ones the first first; wi = where they were."""


@jit
def _pool(
    need: int, start: AnyArray, length: AnyArray, room: AnyArray, cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, int]:
    """A pool with ``need`` more places at its end, without the places nobody owns. O(keys + members)."""
    owned = need
    for key in range(len(start)):
        owned += room[key]
    size = owned + owned // 2
    ns, nq, nt, nd = np.empty(size, cs.dtype), np.empty(size, cq.dtype), np.empty(size, ct.dtype), np.empty(size, cd.dtype)
    end = 0
    for key in range(len(start)):
        a, m = start[key], length[key]
        ns[end : end + m], nq[end : end + m], nt[end : end + m], nd[end : end + m] = (
            cs[a : a + m], cq[a : a + m], ct[a : a + m], cd[a : a + m],
        )  # fmt: skip
        start[key] = end
        end += room[key]
    return ns, nq, nt, nd, end


@jit
def absorb(
    groups: AnyArray, sc: AnyArray, tm: AnyArray, start: AnyArray, length: AnyArray, room: AnyArray, end: int,
    cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray, k: int, n: int, micros: int, until: int,
    row: AnyArray, score: AnyArray, count: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, int]:  # fmt: skip
    """Bring the bands of the keys with rows up to date: the columns, which may have moved, and the pool's end.

    ``groups`` as in ``topk_single.run``; ``row``, ``score``, ``count`` (room for a key's rows) are scratch. Other keys are not touched.
    O(rows + their keys' members + kept log k).
    """
    procs, p_lo, p_hi, p_seq = groups[0], groups[1], groups[2], groups[5]
    since = alive_from(until - 1, micros)
    cap = 0
    wa, wi = np.empty(0, np.float64), np.empty(0, np.int64)
    ns, nq, nt, nd = wa, wi, wi, wi
    best = np.empty(k, np.float64)
    for g in range(len(procs)):
        key, lo, hi, seq0 = procs[g], p_lo[g], p_hi[g], p_seq[g]
        if lo == hi:
            continue
        oldest_seq = seq0 + (hi - lo) - n
        a = max(lo, min(hi, lo + (oldest_seq - seq0)))
        if micros > 0:
            a = lower_bound(tm, a, hi, since)
        m = band(sc, a, hi, best, k, row, score, count)
        if cap < m + length[key]:
            cap = 2 * (m + length[key])
            wa, wi = np.empty(cap, np.float64), np.empty(cap, np.int64)
            ns, nq, nt, nd = np.empty(cap, np.float64), np.empty(cap, np.int64), np.empty(cap, np.int64), np.empty(cap, np.int64)
        _rank(score, m, wa, wi)
        b, b_hi = start[key], start[key] + length[key]
        a = w = 0
        while a < m or b < b_hi:
            if b == b_hi or (a < m and wa[a] >= cs[b]):  # equal: the newer one first
                j = wi[a]
                ns[w], nq[w], nt[w], nd[w] = wa[a], seq0 + (row[j] - lo), tm[row[j]], count[j]
                a += 1
                w += 1
            else:
                if cd[b] + a < k and cq[b] >= oldest_seq and ct[b] >= since:
                    ns[w], nq[w], nt[w], nd[w] = cs[b], cq[b], ct[b], cd[b] + a
                    w += 1
                b += 1
        if w > room[key]:
            length[key] = room[key] = 0
            most = w + w // 2 + 2
            if end + most > len(cs):
                cs, cq, ct, cd, end = _pool(most, start, length, room, cs, cq, ct, cd)
            start[key], room[key] = end, most
            end += most
        b = start[key]
        for i in range(w):
            cs[b + i], cq[b + i], ct[b + i], cd[b + i] = ns[i], nq[i], nt[i], nd[i]
        length[key] = w
    return cs, cq, ct, cd, end
