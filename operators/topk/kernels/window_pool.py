"""The window of many keys in one pool of columns: every key owns a slab, appends at its end and drops at its head.

``x`` is float64 (d, capacity), ``tm`` int64 times; ``flags`` (predicate bits) and ``dead`` (see ``NEVER``) are empty when not needed.
Per key:
``slab``/``room`` (begin and length of the slab), ``head``/``tail`` (its rows). The row at ``tail - 1`` has seq ``next_seq - 1``.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit
from skyband.operators.single_rows.kernels.arrays import lower_bound, shift
from skyband.operators.single_rows.kernels.expiry import alive_from
from skyband.operators.windows import UNBOUNDED

CHUNK = 1024
LEAF = 128


@jit
def plan(
    procs: AnyArray, new: AnyArray, next_seq: AnyArray, n: int, micros: int, until: int, tm: AnyArray,
    slab: AnyArray, room: AnyArray, head: AnyArray, tail: AnyArray, end: int, target: AnyArray,
) -> int:  # fmt: skip
    """Drop expired heads and choose where each key's rows go (``target[g]``: new slab begin, or -1 to stay). Returns the pool's new end."""
    for g in range(len(procs)):
        key = procs[g]
        h = max(head[key], tail[key] - n)
        if micros < UNBOUNDED:
            h = lower_bound(tm, h, tail[key], alive_from(until - 1, micros))
        head[key] = h
        need = tail[key] - h + new[g]
        if tail[key] + new[g] <= slab[key] + room[key]:
            target[g] = -1
        elif 4 * need <= 3 * room[key]:
            target[g] = slab[key]
        else:
            target[g] = end
            room[key] = 3 * need
            end += room[key]
    return end


@jit
def append(
    procs: AnyArray, p_lo: AnyArray, p_hi: AnyArray, target: AnyArray, slab: AnyArray, head: AnyArray, tail: AnyArray,
    x: AnyArray, tm: AnyArray, flags: AnyArray, dead: AnyArray, cols: tuple[AnyArray, ...], time: AnyArray, new_flags: AnyArray,
    leaf_at: AnyArray,
) -> None:  # fmt: skip
    """Move slabs as planned and append rows [p_lo, p_hi) of the new columns. Leaf summaries of moved slabs become void."""
    for g in range(len(procs)):
        key, t = procs[g], target[g]
        if t >= 0:
            a, b = head[key], tail[key]
            for i in range(len(x)):
                shift(x[i], a, b, t - a)
            if len(tm):
                shift(tm, a, b, t - a)
            if len(flags):
                shift(flags, a, b, t - a)
            if len(dead):
                shift(dead, a, b, t - a)
            slab[key], head[key], tail[key] = t, t, t + b - a
            leaf_at[key] = t
        lo, hi, e = p_lo[g], p_hi[g], tail[key]
        for i in range(len(x)):
            x[i, e : e + hi - lo] = cols[i][lo:hi]
        if len(tm):
            tm[e : e + hi - lo] = time[lo:hi]
        if len(flags):
            flags[e : e + hi - lo] = new_flags[lo:hi]
        if len(dead):
            dead[e : e + hi - lo] = NEVER
        tail[key] = e + hi - lo


@jit
def _score_nb(
    w: AnyArray,
    x: AnyArray,
    a: int,
    b: int,
    box: bool,
    low: AnyArray,
    high: AnyArray,
    where: int,
    flags: AnyArray,
    ceiling: float,
    out: AnyArray,
) -> None:
    o = out[: b - a]
    c = x[0, a:b]
    for i in range(b - a):
        o[i] = w[0] * c[i]
    for t in range(1, len(w)):
        c = x[t, a:b]
        for i in range(b - a):
            o[i] = o[i] + w[t] * c[i]
    for i in range(b - a):
        o[i] = o[i] + 0.0
    if ceiling < np.inf:
        for i in range(b - a):
            if o[i] > ceiling:
                o[i] = np.nan
    if box:
        for t in range(len(w)):
            c = x[t, a:b]
            lo, hi = low[t], high[t]
            for i in range(b - a):
                if not lo <= c[i] <= hi:
                    o[i] = np.nan
    if where >= 0:
        f = flags[a:b]
        for i in range(b - a):
            if (f[i] >> where) & 1 == 0:
                o[i] = np.nan


def _score_np(
    w: AnyArray,
    x: AnyArray,
    a: int,
    b: int,
    box: bool,
    low: AnyArray,
    high: AnyArray,
    where: int,
    flags: AnyArray,
    ceiling: float,
    out: AnyArray,
) -> None:
    o = out[: b - a]
    with np.errstate(all="ignore"):
        np.multiply(x[0, a:b], w[0], out=o)
        for t in range(1, len(w)):
            o += w[t] * x[t, a:b]
        o += 0.0
        o[o > ceiling] = np.nan
        if box:
            for t in range(len(w)):
                c = x[t, a:b]
                o[~((low[t] <= c) & (c <= high[t]))] = np.nan
        if where >= 0:
            o[(flags[a:b] >> where) & 1 == 0] = np.nan


score_rows = _score_nb if HAVE_NUMBA else _score_np
"""out[: b - a] = internal scores of pool rows [a, b) for one query; NaN outside its box, its predicate or above its ceiling."""


@jit
def leaf_bounds(x: AnyArray, a: int, zlo: AnyArray, zhi: AnyArray, leaf: int) -> None:
    """Corners of the LEAF pool rows from ``a`` (NaN left out; an attribute that is always NaN gets (inf, -inf))."""
    for t in range(len(x)):
        c = x[t, a : a + LEAF]
        lo, hi = np.inf, -np.inf
        for i in range(LEAF):
            v = c[i]
            lo = v if v < lo else lo
            hi = v if v > hi else hi
        zlo[t, leaf], zhi[t, leaf] = lo, hi


@jit
def leaf_bound(w: AnyArray, zlo: AnyArray, zhi: AnyArray, leaf: int) -> float:
    """No score in the leaf is larger (same order of operations as the score, each of them monotone, so rounding keeps it true)."""
    s: float = w[0] * zhi[0, leaf] if w[0] >= 0.0 else w[0] * zlo[0, leaf]
    for t in range(1, len(w)):
        s = s + (w[t] * zhi[t, leaf] if w[t] >= 0.0 else w[t] * zlo[t, leaf])
    return s
