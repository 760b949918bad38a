"""The state of a top-k with deletions: all alive candidates of every key, in seq order, brought up to date once per block."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.expiry import alive_from


@jit
def _alive_nb(sc: AnyArray, sd: AnyArray, lo: int, hi: int, out: AnyArray) -> int:
    m = 0
    for i in range(lo, hi):
        if sc[i] >= -np.inf and sd[i] == NEVER:
            out[m] = i
            m += 1
    return m


def _alive_np(sc: AnyArray, sd: AnyArray, lo: int, hi: int, out: AnyArray) -> int:
    rows = lo + np.flatnonzero((sc[lo:hi] >= -np.inf) & (sd[lo:hi] == NEVER))
    out[: len(rows)] = rows
    return len(rows)


_alive = _alive_nb if HAVE_NUMBA else _alive_np


@jit
def compact(
    groups: AnyArray, sc: AnyArray, tm: AnyArray, sd: AnyArray,
    coff: AnyArray, cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray, next_seq: AnyArray, n: int, micros: int, until: int,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:  # fmt: skip
    """New (offsets, score, seq, time) of every key; ``groups`` as in ``topk_single.run``, sorted by key. O(rows + state)."""
    procs, p_lo, p_hi, p_seq = groups[0], groups[1], groups[2], groups[5]
    keys = len(coff) - 1
    room = len(cs) + len(sc)
    noff = np.zeros(keys + 1, np.int64)
    ns, nq, nt = np.empty(room, np.float64), np.empty(room, np.int64), np.empty(room, np.int64)
    out = np.empty(room, np.int64)
    since = alive_from(until - 1, micros)
    w, g = 0, 0
    for key in range(keys):
        c_hi = coff[key + 1]
        oldest_seq = next_seq[key] - n
        c_lo = max(lower_bound(cq, coff[key], c_hi, oldest_seq), lower_bound(ct, coff[key], c_hi, since))
        m = _alive(cs, cd, c_lo, c_hi, out)
        for a in range(m):
            i = out[a]
            ns[w], nq[w], nt[w] = cs[i], cq[i], ct[i]
            w += 1
        if g < len(procs) and procs[g] == key:
            lo, hi, seq0 = p_lo[g], p_hi[g], p_seq[g]
            m = _alive(sc, sd, lower_bound(tm, max(lo, min(hi, lo + (oldest_seq - seq0))), hi, since), hi, out)
            for a in range(m):
                i = out[a]
                ns[w], nq[w], nt[w] = sc[i], seq0 + i - lo, tm[i]
                w += 1
            g += 1
        noff[key + 1] = w
    return noff, ns[:w].copy(), nq[:w].copy(), nt[:w].copy()


@jit
def mark_deleted(
    groups: AnyArray, dtarget: AnyArray, sc: AnyArray, sd: AnyArray, coff: AnyArray, cs: AnyArray, cq: AnyArray, cd: AnyArray
) -> None:
    """Note in ``sd``/``cd`` which deletion ends which row. O(deletions log state)."""
    procs, p_lo, p_hi, p_dlo, p_dhi, p_seq = groups[0], groups[1], groups[2], groups[3], groups[4], groups[5]
    for g in range(len(procs)):
        key = procs[g]
        for j in range(p_dlo[g], p_dhi[g]):
            if dtarget[j] >= p_seq[g]:
                row = p_lo[g] + (dtarget[j] - p_seq[g])
                if row < p_hi[g]:
                    sd[row] = min(sd[row], j)
            else:
                a = lower_bound(cq, coff[key], coff[key + 1], dtarget[j])
                if a < coff[key + 1] and cq[a] == dtarget[j]:
                    cd[a] = min(cd[a], j)
