"""The lists behind ``ManyThreshold``: one first-in-first-out list per query and key that ever had a member, found by hashing.

A *slot* is a row of ``slots`` (int64): whose list it is, where its members lie in the pool, its step and boundary clocks. The pool is
parallel vectors: internal score, seq, time (empty for count windows) and instant of deletion (empty without deletions); members
[AT + LO, AT + HI) in seq order, those before HEAD have left and wait to be reported at a boundary.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.windows import UNBOUNDED

KEY, QUERY, STEP, DUE, SHOWN, NEWEST, DEAD, NEXT, AT, ROOM, LO, HI, HEAD = range(13)
COLUMNS = 13
SAVED = 7
"""The first columns are what a checkpoint holds."""


@jit
def spot(table: AnyArray, ids: AnyArray, a: int, b: int) -> int:
    """Place of the pair (a, b) in a hash table of rows of ``ids``, or the free place where it belongs. Pairs are not negative."""
    mask = len(table) - 1
    h = a * 1000003 + b  # no product here leaves int64: keys are below 2**32, seqs below 2**62
    h ^= h >> 15
    h = (h & 0xFFFFFFFF) * 0x5BD1E995
    p = (h ^ (h >> 29)) & mask
    while table[p] >= 0 and not (ids[table[p], 0] == a and ids[table[p], 1] == b):
        p = (p + 1) & mask
    return p


@jit
def hashed(ids: AnyArray, count: int, size: int) -> AnyArray:
    """A table of ``size`` places (a power of two, more than ``count``) with the first ``count`` rows of ``ids``."""
    table = np.full(size, -1, np.int64)
    for i in range(count):
        table[spot(table, ids, ids[i, 0], ids[i, 1])] = i
    return table


@jit
def chained(slots: AnyArray, count: int, first: AnyArray) -> None:
    """Chain the slots of every key: ``first`` per key, then NEXT."""
    for s in range(count - 1, -1, -1):
        slots[s, NEXT] = first[slots[s, KEY]]
        first[slots[s, KEY]] = s


@jit
def grouped(groups: int, of: AnyArray, m: int) -> tuple[AnyArray, AnyArray]:
    """Stable counting sort of of[:m]: where each group starts (groups + 1), and the order."""
    start = np.zeros(groups + 2, np.int64)
    for i in range(m):
        start[of[i] + 2] += 1
    for g in range(groups):
        start[g + 2] += start[g + 1]
    order = np.empty(m, np.int64)
    for i in range(m):
        g = of[i] + 1
        order[start[g]] = i
        start[g] += 1
    return start[: groups + 1].copy(), order


@jit
def make_room(
    slots: AnyArray, s: int, more: int, ps: AnyArray, pq: AnyArray, pt: AnyArray, pd: AnyArray, end: int
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, int]:
    """Let slot ``s`` take ``more`` members: to the front of its room if half of that is free, else to the pool's end. Amortised O(more)."""
    at, lo, hi = slots[s, AT], slots[s, LO], slots[s, HI]
    m = hi - lo
    to = at
    if slots[s, ROOM] < 2 * (m + more):
        room = 2 * (m + more) + 2
        if end + room > len(ps):
            size = 2 * (end + room)
            ps, pq = grown(ps, size), grown(pq, size)
            pt = grown(pt, size) if len(pt) > 0 else pt
            pd = grown(pd, size) if len(pd) > 0 else pd
        to = end
        end += room
        slots[s, AT], slots[s, ROOM] = to, room
    for i in range(m):
        ps[to + i], pq[to + i] = ps[at + lo + i], pq[at + lo + i]
        if len(pt) > 0:
            pt[to + i] = pt[at + lo + i]
        if len(pd) > 0:
            pd[to + i] = pd[at + lo + i]
    slots[s, LO], slots[s, HI] = 0, m
    slots[s, HEAD] -= lo
    return ps, pq, pt, pd, end


@jit
def packed(
    slots: AnyArray, count: int, live: int, ps: AnyArray, pq: AnyArray, pt: AnyArray, pd: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, int]:
    """A pool without gaps for ``live`` members. O(members + slots)."""
    size = live + live // 2 + count + 1
    qs, qq = np.empty(size, np.float64), np.empty(size, np.int64)
    qt = np.empty(size if len(pt) > 0 else 0, np.int64)
    qd = np.empty(size if len(pd) > 0 else 0, np.int64)
    end: Any = np.int64(0)
    for s in range(count):
        a, m = slots[s, AT] + slots[s, LO], slots[s, HI] - slots[s, LO]
        for i in range(m):
            qs[end + i], qq[end + i] = ps[a + i], pq[a + i]
            if len(pt) > 0:
                qt[end + i] = pt[a + i]
            if len(pd) > 0:
                qd[end + i] = pd[a + i]
        slots[s, HEAD] -= slots[s, LO]
        slots[s, AT], slots[s, ROOM], slots[s, LO], slots[s, HI] = end, m, 0, m
        end += m
    return qs, qq, qt, qd, end


@jit
def next_change(slots: AnyArray, s: int, n: int, micros: int, pq: AnyArray, pt: AnyArray) -> tuple[int, int]:
    """When slot ``s`` changes by itself: the instant (expiry or boundary), and the seq whose arrival makes its oldest member leave."""
    wake: Any = slots[s, DUE]
    leave: Any = np.int64(NEVER)
    if slots[s, HEAD] < slots[s, HI]:
        i = slots[s, AT] + slots[s, HEAD]
        if micros < UNBOUNDED:
            wake = min(wake, pt[i] + micros)
        if n < UNBOUNDED:
            leave = pq[i] + n
    return wake, leave


@jit
def due_lists(
    procs: AnyArray, p_lo: AnyArray, p_hi: AnyArray, p_seq: AnyArray, first: AnyArray, k_wake: AnyArray, k_leave: AnyArray, slots: AnyArray,
    q_n: AnyArray, q_micros: AnyArray, pq: AnyArray, pt: AnyArray, until: int,
) -> tuple[AnyArray, AnyArray, int]:  # fmt: skip
    """(query, group) of the lists that change by themselves in this block, and their number; group by group.

    A key's k_wake and k_leave are no later than its lists' ``next_change``; they are made exact here for all lists not returned.
    """
    of, at = np.empty(256, np.int64), np.empty(256, np.int64)
    m = 0
    for g in range(len(procs)):
        key, last = procs[g], p_seq[g] + p_hi[g] - p_lo[g]
        if k_wake[key] >= until and k_leave[key] >= last:
            continue
        k_wake[key], k_leave[key] = NEVER, NEVER
        s = first[key]
        while s >= 0:
            q = slots[s, QUERY]
            wake, leave = next_change(slots, s, q_n[q], q_micros[q], pq, pt)
            if wake < until or leave < last:
                if m == len(of):
                    of, at = grown(of, 2 * m), grown(at, 2 * m)
                of[m], at[m] = q, g
                m += 1
            else:
                k_wake[key], k_leave[key] = min(k_wake[key], wake), min(k_leave[key], leave)
            s = slots[s, NEXT]
    return of, at, m


@jit
def note_rows(
    of: AnyArray, key: AnyArray, seq: AnyArray, m: int, log: AnyArray, count: int, table: AnyArray, listed: AnyArray, end: int
) -> tuple[int, int]:
    """Note which queries take which rows, for deletions: entries of[:m], equal (key, seq) side by side. ``log`` rows: key, seq, begin.

    The queries of log row i are listed[log[i, 2] : log[i + 1, 2]]. Everything has room. Returns the numbers of rows and of queries.
    """
    for e in range(m):
        if e == 0 or key[e] != key[e - 1] or seq[e] != seq[e - 1]:
            log[count, 0], log[count, 1], log[count, 2] = key[e], seq[e], end
            table[spot(table, log, key[e], seq[e])] = count
            count += 1
        listed[end] = of[e]
        end += 1
    log[count, 2] = end
    return count, end


@jit
def deleted_from(
    procs: AnyArray, p_dlo: AnyArray, p_dhi: AnyArray, dtarget: AnyArray, log: AnyArray, table: AnyArray, listed: AnyArray
) -> tuple[AnyArray, AnyArray, int]:
    """(query, deletion) for every deletion of a noted row, in the order of deletions, and their number."""
    of, at = np.empty(256, np.int64), np.empty(256, np.int64)
    m = 0
    for g in range(len(procs)):
        for j in range(p_dlo[g], p_dhi[g]):
            i = table[spot(table, log, procs[g], dtarget[j])]
            if i < 0:
                continue
            for e in range(log[i, 2], log[i + 1, 2]):
                if m == len(of):
                    of, at = grown(of, 2 * m), grown(at, 2 * m)
                of[m], at[m] = listed[e], j
                m += 1
    return of, at, m


@jit
def forget_rows(log: AnyArray, count: int, listed: AnyArray, slots: AnyArray, table: AnyArray, pq: AnyArray) -> tuple[int, int]:
    """Keep the log rows that some list may still hold, in place; returns the numbers of rows and queries. O(rows + queries)."""
    kept, end = 0, 0
    for i in range(count):
        key, seq, a, b = log[i, 0], log[i, 1], log[i, 2], log[i + 1, 2]
        held = False
        for e in range(a, b):
            s = table[spot(table, slots, key, listed[e])]
            if s >= 0 and slots[s, LO] < slots[s, HI] and pq[slots[s, AT] + slots[s, LO]] <= seq:
                held = True
                break
        if held:
            log[kept, 0], log[kept, 1], log[kept, 2] = key, seq, end
            for e in range(a, b):
                listed[end + e - a] = listed[e]
            kept += 1
            end += b - a
    log[kept, 2] = end
    return kept, end
