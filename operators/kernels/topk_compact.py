"""Bringing the shared state of a bucket up to date once per block: the skyband (or, with deletions, all alive candidates) of every key."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.kernels.jit import HAVE_NUMBA, jit
from skyband.operators.kernels.topk_list import lower_bound, skyband
from skyband.operators.kernels.topk_replay import alive_from


@jit
def _alive_nb(sc: AnyArray, sd: AnyArray, deletes: bool, lo: int, hi: int, out: AnyArray, m: int, base: int) -> int:
    for i in range(hi - 1, lo - 1, -1):
        if sc[i] >= -np.inf and not (deletes and sd[i] < NEVER):
            out[m] = base + i
            m += 1
    return m


def _alive_np(sc: AnyArray, sd: AnyArray, deletes: bool, lo: int, hi: int, out: AnyArray, m: int, base: int) -> int:
    keep = sc[lo:hi] >= -np.inf
    if deletes:
        keep &= sd[lo:hi] == NEVER
    rows = np.flatnonzero(keep)[::-1]
    out[m : m + len(rows)] = base + lo + rows
    return m + len(rows)


_alive = _alive_nb if HAVE_NUMBA else _alive_np


@jit
def compact(
    group: AnyArray, p_lo: AnyArray, p_hi: AnyArray, p_seq: AnyArray, sc: AnyArray, tm: AnyArray, sd: AnyArray,
    coff: AnyArray, cs: AnyArray, cq: AnyArray, ct: AnyArray, cd: AnyArray, next_seq: AnyArray,
    k: int, n: int, micros: int, until: int, deletes: bool,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:  # fmt: skip
    """New (offsets, score, seq, time) of every key; ``group[key]`` is the key's block of rows or -1. O(rows + state + kept log k)."""
    keys = len(group)
    room = len(cs)
    for key in range(keys):
        g = group[key]
        if g >= 0:
            room += p_hi[g] - p_lo[g]
    noff = np.zeros(keys + 1, np.int64)
    ns, nq, nt = np.empty(room, np.float64), np.empty(room, np.int64), np.empty(room, np.int64)
    out = np.empty(room, np.int64)
    heap = np.empty(k, np.float64)
    since = alive_from(until - 1, micros)
    w = 0
    for key in range(keys):
        c_hi = coff[key + 1]
        oldest_seq = next_seq[key] - n
        c_lo = max(lower_bound(cq, coff[key], c_hi, oldest_seq), lower_bound(ct, coff[key], c_hi, since))
        g = group[key]
        if g < 0:
            for i in range(c_lo, c_hi):
                ns[w], nq[w], nt[w] = cs[i], cq[i], ct[i]
                w += 1
        else:
            lo, hi, seq0 = p_lo[g], p_hi[g], p_seq[g]
            a = lower_bound(tm, max(lo, min(hi, lo + (oldest_seq - seq0))), hi, since)
            base = c_hi - lo
            if deletes:
                m = _alive(sc, sd, True, a, hi, out, 0, base)
                m = _alive(cs, cd, True, c_lo, c_hi, out, m, 0)
            else:
                m, c = skyband(sc, a, hi, heap, 0, k, out, 0, base)
                m, c = skyband(cs, c_lo, c_hi, heap, c, k, out, m, 0)
            for i in range(m - 1, -1, -1):
                src = out[i]
                if src < c_hi:
                    ns[w], nq[w], nt[w] = cs[src], cq[src], ct[src]
                else:
                    row = src - base
                    ns[w], nq[w], nt[w] = sc[row], seq0 + row - lo, tm[row]
                w += 1
        noff[key + 1] = w
    return noff, ns[:w].copy(), nq[:w].copy(), nt[:w].copy()


@jit
def mark_deleted(
    p_lo: AnyArray, p_hi: AnyArray, p_dlo: AnyArray, p_dhi: AnyArray, p_seq: AnyArray, procs: AnyArray, dtarget: AnyArray,
    sc: AnyArray, sd: AnyArray, coff: AnyArray, cs: AnyArray, cq: AnyArray, cd: AnyArray,
) -> None:  # fmt: skip
    """Note in ``sd``/``cd`` which deletion ends which row. O(deletions log state)."""
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
