"""Events of one key and query: who leaves and who enters the result when a window's head moves or an object arrives.

Membership is pure sequence arithmetic. With ``head`` the first seq alive in the query's window and ``crit`` the seq of the object's
(K - newer dominators)-th newest older dominator (-1 if there are fewer, ``GONE`` once K newer ones arrived), an object is in the K-skyband
iff ``crit < head <= seq`` (docs/algorithms.md D4, interval theorem). So an event compares ``crit`` before (``old``) and after (``new``).

A key's retained objects sit in *slots* (rows of ``obj``: seq, time, newer dominators, K older dominators newest first, keys);
``slot[p]`` for lo <= p < hi lists them in seq order, -1 where one was removed.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DISPLACED, EXPIRY, NEVER, PROMOTED, AnyArray
from skyband.operators.jit import jit

SEQ, TIME, NEWER, PRED = 0, 1, 2, 3
"""Columns of an object row; ``PRED`` .. ``PRED + K - 1`` the older dominators, then the keys."""

COUNT, MICROS, EVERY, HEAD, POS, FRONT, DUE, STEP = range(8)
"""Fields of a query: its window (MANY and 0 for none), boundary length (0: none), first seq alive, first position alive and the seq there
(or NEVER), next boundary (NEVER if nothing changed since the last), steps so far."""

GONE: int = 2**62


@jit
def put(out: AnyArray, n: int, w: int, key: int, at: int, step: int, pos: int, sign: int, cause: int, seq: int) -> None:
    """Write one change."""
    r = out[n]
    r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7] = w, key, at, step, pos, sign, cause, seq


@jit
def refront(q: AnyArray, obj: AnyArray, slot: AnyArray, hi: int) -> None:
    """Skip removed objects at the query's first position."""
    p = q[POS]
    while p < hi and slot[p] < 0:
        p += 1
    q[POS] = p
    q[FRONT] = obj[slot[p], SEQ] if p < hi else NEVER


@jit(inline="always")
def link(x: int, parent: int, child: AnyArray, after: AnyArray, before: AnyArray) -> None:
    """Put slot x first in its parent's list (-1: in none). O(1)."""
    before[x] = -1
    after[x] = -1
    if parent >= 0:
        y = child[parent]
        after[x] = y
        if y >= 0:
            before[y] = x
        child[parent] = x


@jit(inline="always")
def unlink(x: int, parent: int, child: AnyArray, after: AnyArray, before: AnyArray) -> None:
    """Take slot x out of its list; ``parent`` is -1 if it has left already. O(1)."""
    y, z = before[x], after[x]
    if y >= 0:
        after[y] = z
    elif parent >= 0:
        child[parent] = z
    if z >= 0:
        before[z] = y


@jit
def move(
    q: AnyArray, w: int, key: int, at: int, head: int, fresh: int, hit: AnyArray, hits: int, obj: AnyArray, slot: AnyArray, hi: int,
    old: AnyArray, new: AnyArray, child: AnyArray, after: AnyArray, lift: AnyArray, out: AnyArray, n: int,
) -> int:  # fmt: skip
    """One event of query ``q``: its head moves to ``head``, slot ``fresh`` arrives (-1: none) and dominates slots ``hit``, newest first.

    Writes the net change in rank order and returns the number of change rows. The objects whose ``crit`` is slot s form the list
    ``child[s]``, ``after[...]``: who may be promoted when s leaves. O(hits + leaving + their children), or O(retained) for many children.
    """
    first, was = n, q[HEAD]
    step = q[STEP] + 1
    for j in range(hits):
        s = hit[j]
        if obj[s, SEQ] >= head and old[s] < was and new[s] >= head:
            put(out, n, w, key, at, step, n - first, -1, DISPLACED, obj[s, SEQ])
            n += 1
    p0 = q[POS]
    p1 = p0
    orphans = 0
    while p1 < hi and (slot[p1] < 0 or obj[slot[p1], SEQ] < head):
        if slot[p1] >= 0:
            x = child[slot[p1]]
            while x >= 0:
                if orphans < len(lift):
                    # newest first
                    i = orphans
                    while i > 0 and obj[lift[i - 1], SEQ] < obj[x, SEQ]:
                        lift[i] = lift[i - 1]
                        i -= 1
                    lift[i] = x
                orphans += 1
                x = after[x]
        p1 += 1
    for p in range(p1 - 1, p0 - 1, -1):
        s = slot[p]
        if s >= 0 and old[s] < was:
            put(out, n, w, key, at, step, n - first, -1, EXPIRY, obj[s, SEQ])
            n += 1
    if fresh >= 0 and new[fresh] < head:
        put(out, n, w, key, at, step, n - first, 1, ARRIVAL, obj[fresh, SEQ])
        n += 1
    if orphans <= len(lift):
        for i in range(orphans):
            s = lift[i]
            if obj[s, SEQ] >= head and was <= old[s] < head and new[s] < head:
                put(out, n, w, key, at, step, n - first, 1, PROMOTED, obj[s, SEQ])
                n += 1
    else:
        for p in range(hi - 1, p1 - 1, -1):
            s = slot[p]
            if s >= 0 and was <= old[s] < head and new[s] < head:
                put(out, n, w, key, at, step, n - first, 1, PROMOTED, obj[s, SEQ])
                n += 1
    q[HEAD] = head
    if p1 > p0 or q[FRONT] < head:
        q[POS] = p1
        refront(q, obj, slot, hi)
    if n > first:
        if q[EVERY] > 0:
            n = first
            q[DUE] = min(q[DUE], -((-at) // q[EVERY]) * q[EVERY])
        else:
            q[STEP] = step
    return n


@jit
def boundary(
    q: AnyArray, w: int, key: int, at: int, last: int, obj: AnyArray, slot: AnyArray, hi: int, old: AnyArray,
    shown: AnyArray, scratch: AnyArray, out: AnyArray, n: int,
) -> int:  # fmt: skip
    """Net change of an ``every`` query since its last boundary; ``shown`` holds [0, 0] = length, then (seq, time), newest first.

    O(retained).
    """
    first = n
    m = 0
    for p in range(hi - 1, q[POS] - 1, -1):
        s = slot[p]
        if s >= 0 and old[s] < q[HEAD]:
            m += 1
            scratch[m, 0] = obj[s, SEQ]
            scratch[m, 1] = obj[s, TIME]
    had = shown[0, 0]
    j = 1
    for i in range(1, had + 1):
        while j <= m and scratch[j, 0] > shown[i, 0]:
            j += 1
        if j <= m and scratch[j, 0] == shown[i, 0]:
            continue
        dead = shown[i, 0] <= last - q[COUNT] or (q[MICROS] > 0 and shown[i, 1] + q[MICROS] <= at)
        put(out, n, w, key, at, q[STEP] + 1, n - first, -1, EXPIRY if dead else DISPLACED, shown[i, 0])
        n += 1
    j = 1
    for i in range(1, m + 1):
        while j <= had and shown[j, 0] > scratch[i, 0]:
            j += 1
        if j <= had and shown[j, 0] == scratch[i, 0]:
            continue
        put(out, n, w, key, at, q[STEP] + 1, n - first, 1, BOUNDARY, scratch[i, 0])
        n += 1
    for i in range(1, m + 1):
        shown[i, 0] = scratch[i, 0]
        shown[i, 1] = scratch[i, 1]
    shown[0, 0] = m
    q[DUE] = NEVER
    if n > first:
        q[STEP] += 1
    return n


@jit
def leave_at(q: AnyArray, obj: AnyArray, slot: AnyArray, hi: int) -> int:
    """When the query's oldest retained object leaves by time, or NEVER. O(1)."""
    if q[MICROS] == 0 or q[POS] >= hi:
        return NEVER
    refront(q, obj, slot, hi)
    return NEVER if q[POS] >= hi else obj[slot[q[POS]], TIME] + q[MICROS]


@jit
def room(out: AnyArray, n: int, need: int) -> AnyArray:
    """``out`` with space for ``need`` more rows."""
    if n + need <= out.shape[0]:
        return out
    bigger = np.empty((2 * (n + need), out.shape[1]), np.int64)
    bigger[:n] = out[:n]
    return bigger


@jit
def elapse(
    q: AnyArray, w: int, key: int, before: int, boundaries_before: int, last: int, hit: AnyArray, obj: AnyArray, slot: AnyArray, hi: int,
    old: AnyArray, child: AnyArray, after: AnyArray, lift: AnyArray, shown: AnyArray, scratch: AnyArray, out: AnyArray, n: int,
) -> tuple[AnyArray, int, int]:  # fmt: skip
    """Take the query's expiries at instants < ``before`` and its boundaries < ``boundaries_before``, in order.

    All that expires at an instant leaves in one event; a boundary comes after the expiries at its instant.
    Returns (out, rows, next instant).
    """
    while True:
        e = leave_at(q, obj, slot, hi)
        b = q[DUE]
        if e <= b:
            if e >= before:
                break
            head = q[HEAD]
            for p in range(q[POS], hi):
                s = slot[p]
                if s >= 0:
                    if obj[s, TIME] + q[MICROS] > e:
                        break
                    head = obj[s, SEQ] + 1
            out = room(out, n, hi - q[POS] + 1)
            n = move(q, w, key, e, head, -1, hit, 0, obj, slot, hi, old, old, child, after, lift, out, n)
        else:
            if b >= boundaries_before:
                break
            out = room(out, n, hi - q[POS] + shown[0, 0] + 1)
            n = boundary(q, w, key, b, last, obj, slot, hi, old, shown, scratch, out, n)
    return out, n, min(e, b)
