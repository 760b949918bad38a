"""Replaying a sub-batch for one query: which events change its list of the best k pairs, and the change rows they write.

Only arrivals with a candidate that reaches the list, expiries of list members and boundaries are visited: nothing else can change it.
Rows go to ``oi`` (int64, 9 per change: query, key, at, step, pos, sign, cause, older, newer with flag) and ``os`` (internal score).
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DISPLACED, EXPIRY, NEVER, PROMOTED, AnyArray
from skyband.operators.jit import jit
from skyband.operators.topk_pairs.kernels.arena import BASE, OFF, alive_from, first_after


@jit
def ranks_before(s: float, o: int, n: int, s2: float, o2: int, n2: int) -> bool:
    """Rank order: score, larger older, larger newer."""
    return s < s2 or (s == s2 and (o > o2 or (o == o2 and n > n2)))


@jit
def enter(ls: AnyArray, lo: AnyArray, ln: AnyArray, m: int, k: int, s: float, o: int, n: int) -> int:
    """Insert a pair into the list of the best ``k`` (it may fall out again); returns the list's length. O(k)."""
    i = m
    if m == k:
        i = m - 1
        if not ranks_before(s, o, n, ls[i], lo[i], ln[i]):
            return m
    while i > 0 and ranks_before(s, o, n, ls[i - 1], lo[i - 1], ln[i - 1]):
        ls[i], lo[i], ln[i] = ls[i - 1], lo[i - 1], ln[i - 1]
        i -= 1
    ls[i], lo[i], ln[i] = s, o, n
    return min(k, m + 1)


@jit
def select(
    k: int, worst: float, first: int, t0: int, upto: int, intra: AnyArray, flags: AnyArray,
    c_s: AnyArray, c_o: AnyArray, c_i: AnyArray, c_m: int,
    ks: AnyArray, ko: AnyArray, kn: AnyArray, k_lo: int, k_hi: int, ls: AnyArray, lo: AnyArray, ln: AnyArray,
) -> int:  # fmt: skip
    """The best ``k`` of skyband and candidates of the first ``upto`` arrivals with older seq >= ``first`` and score <= ``worst``."""
    m = 0
    for i in range(k_lo, k_hi):
        if ko[i] < first:
            break
        if ks[i] <= worst:
            m = enter(ls, lo, ln, m, k, ks[i], ko[i], kn[i])
            if m == k:
                worst = ls[k - 1]
    for i in range(upto):
        for j in range(max(first - t0, 0), i):
            if intra[i, j] <= worst:
                m = enter(ls, lo, ln, m, k, intra[i, j], t0 + j, 2 * (t0 + i) + flags[i])
                if m == k:
                    worst = ls[k - 1]
    for c in range(c_m):
        if c_s[c] <= worst and c_i[c] < upto and c_o[c] >= first:
            m = enter(ls, lo, ln, m, k, c_s[c], c_o[c], 2 * (t0 + c_i[c]) + flags[c_i[c]])
            if m == k:
                worst = ls[k - 1]
    return m


@jit
def arrive(
    k: int, worst: float, first: int, t0: int, i: int, intra: AnyArray, flags: AnyArray,
    c_s: AnyArray, c_o: AnyArray, c_i: AnyArray, c_m: int, ls: AnyArray, lo: AnyArray, ln: AnyArray, m: int,
) -> int:  # fmt: skip
    """Enter the candidates of arrival i into a list that holds all the others that belong there."""
    newer = 2 * (t0 + i) + flags[i]
    for j in range(max(first - t0, 0), i):
        if intra[i, j] <= worst:
            m = enter(ls, lo, ln, m, k, intra[i, j], t0 + j, newer)
    for c in range(c_m):
        if c_i[c] == i and c_s[c] <= worst and c_o[c] >= first:
            m = enter(ls, lo, ln, m, k, c_s[c], c_o[c], newer)
    return m


@jit
def put(
    oi: AnyArray, os: AnyArray, r: int, q: int, key: int, at: int, step: int, pos: int, sign: int, cause: int, s: float, o: int, n: int
) -> None:
    """Write change ``r``."""
    row = oi[r]
    row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8] = q, key, at, step, pos, sign, cause, o, n
    os[r] = s


@jit
def difference(
    oi: AnyArray, os: AnyArray, r: int, q: int, key: int, at: int, step: int, first: int, arriving: int, boundary: bool,
    xs: AnyArray, xo: AnyArray, xn: AnyArray, xm: int, ys: AnyArray, yo: AnyArray, yn: AnyArray, ym: int,
) -> int:  # fmt: skip
    """Write the net difference from list x to list y, both in rank order; returns the next free row. O(xm + ym)."""
    pos, j = 0, 0
    for i in range(xm):
        while j < ym and ranks_before(ys[j], yo[j], yn[j], xs[i], xo[i], xn[i]):
            j += 1
        if j < ym and yo[j] == xo[i] and yn[j] == xn[i]:
            continue
        put(oi, os, r, q, key, at, step, pos, -1, EXPIRY if xo[i] < first else DISPLACED, xs[i], xo[i], xn[i])
        pos += 1
        r += 1
    j = 0
    for i in range(ym):
        while j < xm and ranks_before(xs[j], xo[j], xn[j], ys[i], yo[i], yn[i]):
            j += 1
        if j < xm and xo[j] == yo[i] and xn[j] == yn[i]:
            continue
        cause = BOUNDARY if boundary else (ARRIVAL if (yn[i] >> 1) == arriving else PROMOTED)
        put(oi, os, r, q, key, at, step, pos, 1, cause, ys[i], yo[i], yn[i])
        pos += 1
        r += 1
    return r


@jit
def room_for(oi: AnyArray, os: AnyArray, r: int, more: int) -> tuple[AnyArray, AnyArray]:
    """The change rows with room for ``more``."""
    if r + more <= len(os):
        return oi, os
    size = 2 * len(os) + more
    wi, ws = np.empty((size, oi.shape[1]), np.int64), np.empty(size, np.float64)
    wi[:r], ws[:r] = oi[:r], os[:r]
    return wi, ws


@jit
def drop_expired(ls: AnyArray, lo: AnyArray, ln: AnyArray, m: int, first: int) -> int:
    """Drop pairs whose older seq is < ``first``; returns how many stay."""
    w = 0
    for i in range(m):
        if lo[i] >= first:
            ls[w], lo[w], ln[w] = ls[i], lo[i], ln[i]
            w += 1
    return w


@jit
def oldest(lo: AnyArray, m: int) -> int:
    """The smallest older seq, or ``NEVER`` in an empty list."""
    best = NEVER
    for i in range(m):
        best = min(best, int(lo[i]))
    return best


@jit
def replay(
    q: int, key: int, k: int, count: int, micros: int, every: int, worst: float, timed: bool, limit: int, last: bool,
    km: AnyArray, times: AnyArray, t0: int, b: int, intra: AnyArray, flags: AnyArray, least: AnyArray,
    c_s: AnyArray, c_o: AnyArray, c_i: AnyArray, c_m: int, ks: AnyArray, ko: AnyArray, kn: AnyArray, k_lo: int, k_hi: int,
    ls: AnyArray, lo: AnyArray, ln: AnyArray, m: int, xs: AnyArray, xo: AnyArray, xn: AnyArray,
    es: AnyArray, eo: AnyArray, en: AnyArray, em: AnyArray, step: AnyArray, due: AnyArray,
    oi: AnyArray, os: AnyArray, r: int, work: AnyArray,
) -> tuple[AnyArray, AnyArray, int, int]:  # fmt: skip
    """Take every event of the sub-batch; returns change rows, their number, list length.

    Expiries and boundaries: those before ``limit`` if this is the ``last`` sub-batch; else expiries up to and boundaries before ``limit``,
    the time of the sub-batch's last arrival.

    The list is (ls, lo, ln)[:m], a copy goes to (xs, xo, xn). For ``every`` > 0, (es, eo, en) with length em[q, key] is what was last shown
    and due[q, key] the boundary at which the list has to be looked at, or ``NEVER``. Visited events cost O(k), refills O(skyband).
    """
    shift = km[key, OFF] - km[key, BASE]
    i = 0
    while True:
        first_out = oldest(lo, m)
        bar = ls[k - 1] if m == k else worst
        h = i
        while h < b and not (least[h] <= bar or (m > 0 and t0 + h + 1 - count > first_out)):
            h += 1
        at = times[t0 + h + shift] if h < b else limit
        out = np.int64(NEVER)
        if timed and m > 0:
            out = times[first_out + shift] + micros
        expiry = out < at or (out == at and (h < b or not last))
        if expiry:
            at = out
        if every > 0 and due[q, key] < at:
            edge = due[q, key]
            due[q, key] = NEVER
            newest = first_after(times, km[key, OFF], t0 + b + shift, edge) - shift
            first = alive_from(km, key, times, newest, edge, count, micros)
            oi, os = room_for(oi, os, r, 2 * k)
            had = em[q, key]
            z = difference(oi, os, r, q, key, edge, step[q, key] + 1, first, -1, True, es, eo, en, had, ls, lo, ln, m)
            if z > r:
                step[q, key] += 1
                r = z
            es[:m], eo[:m], en[:m] = ls[:m], lo[:m], ln[:m]
            em[q, key] = m
            continue
        if h == b and not expiry:
            break
        if expiry:
            i = max(i, first_after(times, t0 + i + shift, t0 + b + shift, at - 1) - shift - t0)
            arriving, newest = -1, t0 + i
        else:
            i = h + 1
            arriving, newest = t0 + h, t0 + h + 1
        first = alive_from(km, key, times, newest, at, count, micros)
        was = m
        xs[:m], xo[:m], xn[:m] = ls[:m], lo[:m], ln[:m]
        m = drop_expired(ls, lo, ln, m, first)
        if m < was and was == k:
            work[2] += 1
            m = select(k, worst, first, t0, i, intra, flags, c_s, c_o, c_i, c_m, ks, ko, kn, k_lo, k_hi, ls, lo, ln)
        elif arriving >= 0:
            m = arrive(k, worst, first, t0, h, intra, flags, c_s, c_o, c_i, c_m, ls, lo, ln, m)
        oi, os = room_for(oi, os, r, 2 * k)
        z = difference(oi, os, r, q, key, at, step[q, key] + 1, first, arriving, False, xs, xo, xn, was, ls, lo, ln, m)
        if z > r:
            if every > 0:
                if due[q, key] == NEVER:
                    due[q, key] = -((-at) // every) * every
            else:
                step[q, key] += 1
                r = z
    return oi, os, r, m
