"""Threshold queries: replay of the objects that pass, first in first out (a result set has no k, so there is nothing to refill).

``items`` of a key are the kept objects of earlier blocks and the passing ones of this block, in seq order. A query takes those whose
internal score lies in its interval; each enters when it arrives and leaves at its expiry or deletion.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, EXPIRY, NEVER, NULL, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, change_rows, more_rows, put
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.windows import UNBOUNDED


@jit
def was_shown(t: int, seq: int, dead: int, b: int, newest: int, n: int, micros: int) -> bool:
    """Whether an object was in the result as of boundary ``b`` (NULL: nothing was shown yet), when ``newest`` was the last seq."""
    return b != NULL and t <= b and seq > newest - n and (micros >= UNBOUNDED or t > b - micros) and dead > b


@jit
def run(
    q_low: AnyArray, q_high: AnyArray, q_n: AnyArray, q_micros: AnyArray, q_every: AnyArray,
    procs: AnyArray, p_lo: AnyArray, p_hi: AnyArray, p_dlo: AnyArray, p_dhi: AnyArray, p_seq: AnyArray,
    tm: AnyArray, dpos: AnyArray, dtime: AnyArray, dtarget: AnyArray,
    moff: AnyArray, ms: AnyArray, mq: AnyArray, mt: AnyArray, md: AnyArray,
    step: AnyArray, wake: AnyArray, due: AnyArray, shown_at: AnyArray, shown_seq: AnyArray, prev_until: int, until: int,
) -> tuple[ChangeRows, int]:  # fmt: skip
    """Change rows (query, key, at, step, pos, sign, cause, seq; internal score) and their number. O(items) per query plus O(log) per group.

    Rows, deletions and keys as in ``topk_single.run``; items of ``procs[g]`` at moff[g]..moff[g+1]: score, seq, time, instant of deletion.
    """
    changes, r = change_rows(1024), 0
    cap = 1024
    f, gone = np.empty(cap, np.int64), np.empty(cap, np.int8)
    heap = Heap(np.empty(cap, np.float64), np.empty(cap, np.int64))
    for q in range(len(q_low)):
        low, high, n, micros, every = q_low[q], q_high[q], q_n[q], q_micros[q], q_every[q]
        for g in range(len(procs)):
            key = procs[g]
            lo, hi, j, d_hi, seq0 = p_lo[g], p_hi[g], p_dlo[g], p_dhi[g], p_seq[g]
            if lo == hi and j == d_hi and wake[q, key] >= until:
                continue
            if cap < moff[g + 1] - moff[g]:
                cap = 2 * (moff[g + 1] - moff[g])
                f, gone = np.empty(cap, np.int64), np.empty(cap, np.int8)
                heap = Heap(np.empty(cap, np.float64), np.empty(cap, np.int64))
            m, a = 0, 0
            b_at, b_seq = shown_at[q, key], shown_seq[q, key]
            for i in range(moff[g], moff[g + 1]):
                if low <= ms[i] <= high:
                    if mq[i] < seq0:
                        alive = mq[i] >= seq0 - n and (micros >= UNBOUNDED or mt[i] + micros >= prev_until) and md[i] >= prev_until
                        if not alive and not (every > 0 and was_shown(mt[i], mq[i], md[i], b_at, b_seq, n, micros)):
                            continue
                        gone[m] = 0 if alive else 1
                        a = m + 1
                    else:
                        gone[m] = 0
                    f[m] = i
                    m += 1
            head = 0
            while True:
                while head < a and gone[head] != 0:
                    head += 1
                if r + 8 > len(changes.score):
                    changes = more_rows(changes, 2 * len(changes.score))
                row, e, by_count = hi, np.int64(NEVER), False
                if a < m:
                    row = lo + (mq[f[a]] - seq0)
                if head < a:
                    if micros < UNBOUNDED:
                        e = mt[f[head]] + micros
                    c = lo + (mq[f[head]] + n - seq0)
                    if c <= row and c < hi:
                        row, by_count = c, True
                deleted = j < d_hi and dpos[j] <= row
                at = dtime[j] if deleted else (tm[row] if row < hi else until)
                by_time = e <= at if (deleted or row < hi) else e < until
                if by_time:
                    at = e
                elif row == hi and not deleted:
                    if every > 0 and due[q, key] < until:
                        at = until
                    else:
                        break
                if every > 0 and due[q, key] < at:
                    b = due[q, key]
                    due[q, key] = NEVER
                    if r + 2 * m + 8 > len(changes.score):
                        changes = more_rows(changes, 2 * len(changes.score) + 2 * m)
                    pos = 0
                    for sign in (-1, 1):
                        w = 0
                        for x in range(a):
                            i = f[x]
                            was = was_shown(mt[i], mq[i], md[i], b_at, b_seq, n, micros)
                            if (sign < 0 and was and gone[x] != 0) or (sign > 0 and not was and gone[x] == 0):
                                w = heap_push(heap, w, ms[i], i)
                        heap_to_order(heap, w)
                        for x in range(w):
                            cause = BOUNDARY if sign > 0 else (DELETE if md[heap.place[x]] <= b else EXPIRY)
                            r = put(changes, r, Event(q, key, b, step[q, key] + 1), pos, sign, cause, mq[heap.place[x]], heap.score[x])
                            pos += 1
                    step[q, key] += 1 if pos > 0 else 0
                    b_at, b_seq = b, seq0 + (lower_bound(tm, lo, hi, b + 1) - lo) - 1
                    continue
                w = 0
                cause = EXPIRY
                pi = -1
                if by_time:
                    x = head
                    while x < a and mt[f[x]] + micros <= e:
                        if gone[x] == 0:
                            w = heap_push(heap, w, ms[f[x]], f[x])
                            gone[x] = 1
                        x += 1
                elif deleted:
                    cause = DELETE
                    x, top = head, a
                    while x < top:
                        mid = (x + top) >> 1
                        if mq[f[mid]] < dtarget[j]:
                            x = mid + 1
                        else:
                            top = mid
                    if x < a and mq[f[x]] == dtarget[j] and gone[x] == 0:
                        w = heap_push(heap, w, ms[f[x]], f[x])
                        gone[x] = 1
                    j += 1
                else:
                    if by_count:
                        w = heap_push(heap, w, ms[f[head]], f[head])
                        gone[head] = 1
                    if a < m and lo + (mq[f[a]] - seq0) == row:
                        pi = f[a]
                        a += 1
                if w == 0 and pi < 0:
                    continue
                if every > 0:
                    if due[q, key] == NEVER:
                        due[q, key] = -((-at) // every) * every
                    continue
                if r + w + 8 > len(changes.score):
                    changes = more_rows(changes, 2 * len(changes.score) + w)
                step[q, key] += 1
                heap_to_order(heap, w)
                for x in range(w):
                    r = put(changes, r, Event(q, key, at, step[q, key]), x, -1, cause, mq[heap.place[x]], heap.score[x])
                if pi >= 0:
                    r = put(changes, r, Event(q, key, at, step[q, key]), w, 1, ARRIVAL, mq[pi], ms[pi])
            shown_at[q, key], shown_seq[q, key] = b_at, b_seq
            w_at = np.int64(NEVER)
            if micros < UNBOUNDED and head < a:
                w_at = mt[f[head]] + micros
            wake[q, key] = min(w_at, due[q, key])
    return changes, r
