"""Thresholds of many linear functions: replay of what a block does to the lists it concerns, first in first out.

Only lists that get a candidate, lose a member or reach a boundary are visited. A result set has no k, so nothing is ever refilled.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, EXPIRY, NEVER, NULL, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.arrays import grown, grown_rows, lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, put
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.threshold.kernels.many_lists import (
    AT,
    DEAD,
    DUE,
    HEAD,
    HI,
    KEY,
    LO,
    NEWEST,
    NEXT,
    QUERY,
    ROOM,
    SHOWN,
    STEP,
    make_room,
    next_change,
    spot,
)
from skyband.operators.windows import UNBOUNDED


@jit
def group_of(ends: AnyArray, row: int) -> int:
    """The first group whose end lies behind ``row``."""
    lo, hi = 0, len(ends) - 1
    while lo < hi:
        mid = (lo + hi) >> 1
        if ends[mid] > row:
            hi = mid
        else:
            lo = mid + 1
    return lo


@jit
def was_shown(i: int, pq: AnyArray, pt: AnyArray, pd: AnyArray, b: int, newest: int, n: int, micros: int) -> bool:
    """Whether member ``i`` was in the result as of boundary ``b`` (NULL: nothing was shown yet), when ``newest`` was the last seq."""
    if b == NULL or pq[i] > newest or pq[i] <= newest - n:
        return False
    return (micros >= UNBOUNDED or pt[i] > b - micros) and (len(pd) == 0 or pd[i] > b)


@jit
def at_boundary(
    oi: AnyArray, os: AnyArray, r: int, slots: AnyArray, s: int, n: int, micros: int, base: int, head: int, a: int, newest: int,
    ps: AnyArray, pq: AnyArray, pt: AnyArray, pd: AnyArray, wa: AnyArray, wi: AnyArray,
) -> int:  # fmt: skip
    """Write the net change of the boundary that is due, with ``newest`` the last seq by then. O(changes), O(members) after deletions."""
    b, was, until = slots[s, DUE], slots[s, SHOWN], slots[s, NEWEST]
    heap, changes = Heap(wa, wi), ChangeRows(oi, os)
    pos, step = 0, slots[s, STEP] + 1
    event = Event(slots[s, QUERY], slots[s, KEY], b, step)
    w = 0
    for x in range(base, a if slots[s, DEAD] > was else head):  # who has left stands in front, unless it was deleted
        if (x < head or pd[x] < NEVER) and was_shown(x, pq, pt, pd, was, until, n, micros):
            w = heap_push(heap, w, ps[x], x)
    heap_to_order(heap, w)
    for x in range(w):
        cause = DELETE if len(pd) > 0 and pd[wi[x]] <= b else EXPIRY
        r = put(changes, r, event, pos, -1, cause, pq[wi[x]], wa[x])
        pos += 1
    w = 0
    x = a
    while x > head and pq[x - 1] > until:  # who is new stands at the end
        x -= 1
        if len(pd) == 0 or pd[x] == NEVER:
            w = heap_push(heap, w, ps[x], x)
    heap_to_order(heap, w)
    for x in range(w):
        r = put(changes, r, event, pos, 1, BOUNDARY, pq[wi[x]], wa[x])
        pos += 1
    slots[s, STEP] += 1 if pos > 0 else 0
    slots[s, DUE], slots[s, SHOWN], slots[s, NEWEST] = NEVER, b, newest
    return r


@jit
def run(
    q_n: AnyArray, q_micros: AnyArray, q_every: AnyArray,
    procs: AnyArray, p_lo: AnyArray, p_hi: AnyArray, p_dlo: AnyArray, p_dhi: AnyArray, p_seq: AnyArray,
    tm: AnyArray, dpos: AnyArray, dtime: AnyArray, dtarget: AnyArray,
    found_at: AnyArray, found_rows: AnyArray, found_scores: AnyArray, del_at: AnyArray, deletions: AnyArray,
    due_at: AnyArray, due_groups: AnyArray, first: AnyArray, k_wake: AnyArray, k_leave: AnyArray,
    slots: AnyArray, count: int, table: AnyArray, live: int, ps: AnyArray, pq: AnyArray, pt: AnyArray, pd: AnyArray, end: int, until: int,
) -> tuple[AnyArray, AnyArray, int, AnyArray, AnyArray, AnyArray, AnyArray, int, int, int]:  # fmt: skip
    """Change rows and their number, the pool (which may have moved) and its end, the numbers of members and slots.

    Rows, deletions and keys as in ``topk_single.run``. Query q has the candidates found_rows/scores[found_at[q]:found_at[q+1]], may lose
    members to ``deletions`` of the block and is due in the groups ``due_groups``, all ascending. O(changes) plus O(visited lists).
    """
    oi, os, r = np.empty((1024, 8), np.int64), np.empty(1024, np.float64), 0
    cap = 64
    wa, wi = np.empty(cap, np.float64), np.empty(cap, np.int64)
    deletes, groups = len(pd) > 0, len(procs)
    for q in range(len(q_n)):
        n, micros, every = q_n[q], q_micros[q], q_every[q]
        c1, j1, u = found_at[q], del_at[q], due_at[q]
        while True:
            g = groups
            if c1 < found_at[q + 1]:
                g = group_of(p_hi, found_rows[c1])
            if j1 < del_at[q + 1]:
                g = min(g, group_of(p_dhi, deletions[j1]))
            if u < due_at[q + 1]:
                g = min(g, due_groups[u])
            if g == groups:
                break
            key, lo, hi, seq0 = procs[g], p_lo[g], p_hi[g], p_seq[g]
            c0, j = c1, j1
            while c1 < found_at[q + 1] and found_rows[c1] < hi:
                c1 += 1
            while j1 < del_at[q + 1] and deletions[j1] < p_dhi[g]:
                j1 += 1
            if u < due_at[q + 1] and due_groups[u] == g:
                u += 1
            place = spot(table, slots, key, q)
            s = table[place]
            if s < 0:
                if c0 == c1:
                    continue
                s = count
                count += 1
                table[place] = s
                slots[s, KEY], slots[s, QUERY], slots[s, STEP], slots[s, DUE], slots[s, SHOWN] = key, q, 0, NEVER, NULL
                slots[s, NEWEST], slots[s, DEAD], slots[s, AT], slots[s, ROOM], slots[s, LO] = -1, NULL, 0, 0, 0
                slots[s, HI], slots[s, HEAD], slots[s, NEXT] = 0, 0, first[key]
                first[key] = s
            if slots[s, HI] + (c1 - c0) > slots[s, ROOM]:
                ps, pq, pt, pd, end = make_room(slots, s, c1 - c0, ps, pq, pt, pd, end)
            at = slots[s, AT]
            begin, head, a = at + slots[s, LO], at + slots[s, HEAD], at + slots[s, HI]
            base, m = begin, a
            for c in range(c0, c1):
                ps[m], pq[m] = found_scores[c], seq0 + (found_rows[c] - lo)
                if micros < UNBOUNDED:
                    pt[m] = tm[found_rows[c]]
                if deletes:
                    pd[m] = NEVER
                m += 1
            live += c1 - c0
            if cap < m - base:
                cap = 2 * (m - base)
                wa, wi = np.empty(cap, np.float64), np.empty(cap, np.int64)
            heap = Heap(wa, wi)
            while True:
                while deletes and head < a and pd[head] < NEVER:
                    head += 1
                if r + 8 > len(os):
                    oi, os = grown_rows(oi, 2 * len(os)), grown(os, 2 * len(os))
                row, e, by_count = hi, np.int64(NEVER), False
                if a < m:
                    row = lo + (pq[a] - seq0)
                if head < a:
                    if micros < UNBOUNDED:
                        e = pt[head] + micros
                    c = lo + (pq[head] + n - seq0)
                    if c <= row and c < hi:
                        row, by_count = c, True
                deleted = j < j1 and dpos[deletions[j]] <= row
                now = dtime[deletions[j]] if deleted else (tm[row] if row < hi else until)
                by_time = e <= now if (deleted or row < hi) else e < until
                if by_time:
                    now = e
                elif row == hi and not deleted:
                    if every > 0 and slots[s, DUE] < until:
                        now = until
                    else:
                        break
                if every > 0 and slots[s, DUE] < now:
                    if r + 2 * (m - base) + 8 > len(os):
                        oi, os = grown_rows(oi, 2 * (len(os) + m - base)), grown(os, 2 * (len(os) + m - base))
                    newest = seq0 + (lower_bound(tm, lo, hi, slots[s, DUE] + 1) - lo) - 1
                    r = at_boundary(oi, os, r, slots, s, n, micros, base, head, a, newest, ps, pq, pt, pd, wa, wi)
                    base = max(base, min(head, a))
                    continue
                left, cause, came = head, EXPIRY, False
                if by_time:
                    while head < a and pt[head] + micros <= e:
                        head += 1
                elif deleted:
                    cause = DELETE
                    d = deletions[j]
                    j += 1
                    x = lower_bound(pq, base, a, dtarget[d])
                    if x < a and pq[x] == dtarget[d] and pd[x] == NEVER:
                        pd[x] = dtime[d]
                        slots[s, DEAD] = dtime[d]
                        if x < head:  # it has left already; only the cause at the boundary is another now
                            continue
                        if every == 0:
                            if r + 8 > len(os):
                                oi, os = grown_rows(oi, 2 * len(os)), grown(os, 2 * len(os))
                            slots[s, STEP] += 1
                            r = put(ChangeRows(oi, os), r, Event(q, key, now, slots[s, STEP]), 0, -1, DELETE, pq[x], ps[x])
                        elif slots[s, DUE] == NEVER:
                            slots[s, DUE] = -((-now) // every) * every
                    continue
                else:
                    if by_count:
                        head += 1
                    if a < m and lo + (pq[a] - seq0) == row:
                        came = True
                        a += 1
                if every > 0:
                    if slots[s, DUE] == NEVER:
                        slots[s, DUE] = -((-now) // every) * every
                    continue
                w = 0
                stop = head
                for x in range(left, stop):
                    if not deletes or pd[x] == NEVER:
                        w = heap_push(heap, w, ps[x], x)
                heap_to_order(heap, w)
                if r + w + 8 > len(os):
                    oi, os = grown_rows(oi, 2 * len(os) + w), grown(os, 2 * len(os) + w)
                slots[s, STEP] += 1
                for x in range(w):
                    r = put(ChangeRows(oi, os), r, Event(q, key, now, slots[s, STEP]), x, -1, cause, pq[wi[x]], wa[x])
                if came:
                    r = put(ChangeRows(oi, os), r, Event(q, key, now, slots[s, STEP]), w, 1, ARRIVAL, pq[a - 1], ps[a - 1])
            if every == 0:
                base = head
            else:
                while base < head and not was_shown(base, pq, pt, pd, slots[s, SHOWN], slots[s, NEWEST], n, micros):
                    base += 1
            slots[s, LO], slots[s, HEAD], slots[s, HI] = base - at, head - at, m - at
            live -= base - begin
            wake, leave = next_change(slots, s, n, micros, pq, pt)
            k_wake[key], k_leave[key] = min(k_wake[key], wake), min(k_leave[key], leave)
    return oi, os, r, ps, pq, pt, pd, end, live, count
