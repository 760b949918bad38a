"""Writing result changes of a top-k list: net change of one event, net change of one boundary.

Rows go to ``oi`` (int64, one row of 8 per change: query, key, at, step, pos, sign, cause, seq) and ``os`` (internal score).
"""

from __future__ import annotations

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, PROMOTED, AnyArray
from skyband.operators.jit import jit


@jit
def put(
    oi: AnyArray, os: AnyArray, r: int, q: int, key: int, at: int, step: int, pos: int, sign: int, cause: int, seq: int, s: float
) -> int:
    """Write change ``r`` and return r + 1."""
    oi[r, 0], oi[r, 1], oi[r, 2], oi[r, 3], oi[r, 4], oi[r, 5], oi[r, 6], oi[r, 7] = q, key, at, step, pos, sign, cause, seq
    os[r] = s
    return r + 1


@jit
def changed(k: int, m0: int, x: int, m: int, pi: int) -> bool:
    """Whether an event changed the first k: ``m0`` were shown, ``x`` of them left, now the list has ``m`` with the arrival at ``pi``
    (or -1)."""
    left = m0 - x
    m1 = min(k, m)
    if x > 0 or (0 <= pi <= left and pi < m1):
        return True
    return m1 > left + (1 if 0 <= pi <= left else 0)


@jit
def event(
    oi: AnyArray, os: AnyArray, r: int, q: int, key: int, at: int, step: int, k: int, m0: int, x: int, gone_s: AnyArray, gone_q: AnyArray,
    cause: int, hs: AnyArray, hq: AnyArray, m: int, pi: int,
) -> int:  # fmt: skip
    """Write the net change of one event: ``gone`` left (x of them, rank order, ``cause``), the rest as in ``changed``. O(changes)."""
    left = m0 - x
    m1 = min(k, m)
    ins = 1 if 0 <= pi <= left else 0
    pos = 0
    for i in range(x):
        r = put(oi, os, r, q, key, at, step, pos, -1, cause, gone_q[i], gone_s[i])
        pos += 1
    if ins == 1 and left + 1 > k and pi < k:
        r = put(oi, os, r, q, key, at, step, pos, -1, DISPLACED, hq[k], hs[k])
        pos += 1
    if ins == 1 and pi < m1 and pi < left:
        r = put(oi, os, r, q, key, at, step, pos, 1, ARRIVAL, hq[pi], hs[pi])
        pos += 1
    for i in range(left + (1 if ins == 1 and pi < left else 0), m1):
        r = put(oi, os, r, q, key, at, step, pos, 1, ARRIVAL if i == pi else PROMOTED, hq[i], hs[i])
        pos += 1
    return r


@jit
def boundary(
    oi: AnyArray, os: AnyArray, r: int, q: int, key: int, at: int, step: int, k: int, hs: AnyArray, hq: AnyArray, ht: AnyArray, m: int,
    rs: AnyArray, rq: AnyArray, rt: AnyArray, rd: AnyArray, rm: int, min_seq: int, min_time: int,
) -> int:  # fmt: skip
    """Write the net change between the shown list (rs, rq, ...; rm items) and the first k of the list, then show the latter. O(k).

    A shown item that is gone was deleted (``rd``), has expired (seq < min_seq or time < min_time), or was displaced.
    """
    m1 = min(k, m)
    pos = 0
    j = 0
    for i in range(rm):
        while j < m1 and (hs[j] > rs[i] or (hs[j] == rs[i] and hq[j] > rq[i])):
            j += 1
        if j < m1 and hq[j] == rq[i]:
            continue
        cause = DELETE if rd[i] else (EXPIRY if rq[i] < min_seq or rt[i] < min_time else DISPLACED)
        r = put(oi, os, r, q, key, at, step, pos, -1, cause, rq[i], rs[i])
        pos += 1
    j = 0
    for i in range(m1):
        while j < rm and (rs[j] > hs[i] or (rs[j] == hs[i] and rq[j] > hq[i])):
            j += 1
        if j < rm and rq[j] == hq[i]:
            continue
        r = put(oi, os, r, q, key, at, step, pos, 1, BOUNDARY, hq[i], hs[i])
        pos += 1
    for i in range(m1):
        rs[i], rq[i], rt[i], rd[i] = hs[i], hq[i], ht[i], 0
    return r
