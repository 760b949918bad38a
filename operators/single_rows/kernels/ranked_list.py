"""Sorted candidate lists and selections: the building blocks of the top-k kernels.

A candidate list is three parallel arrays (score, seq, time) in rank order: larger score first, then larger seq. Scores are internal:
larger is better (a ``min`` score comes negated), NaN is "no candidate". Every loop over rows has a NumPy twin with equal results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit, prepare_numba

BLOCK = 64


def _lower_bound_np(a: AnyArray, lo: int, hi: int, x: int) -> int:
    return lo + int(np.searchsorted(a[lo:hi], x)) if lo < hi else lo


@jit
def _lower_bound_nb(a: AnyArray, lo: int, hi: int, x: int) -> int:
    while lo < hi:
        mid = (lo + hi) >> 1
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    return lo


lower_bound = _lower_bound_nb if HAVE_NUMBA else _lower_bound_np
"""First position in the ascending a[lo:hi] with value >= x."""


def _shift_np(a: AnyArray, p: int, m: int, by: int) -> None:
    a[p + by : m + by] = a[p:m].copy()


def _memmove_shift() -> Any:
    """``shift`` as one memmove: Numba's own loop over overlapping places is not vectorised."""
    prepare_numba()
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    raw_memmove: Any = cgutils.raw_memmove

    def move(typing: Any, a: Any, p: Any, m: Any, by: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = signature.args[0]
            view = context.make_array(array)(context, builder, args[0])
            begin, end, by = (
                context.cast(builder, v, t, types.intp) for v, t in zip(args[1:], signature.args[1:], strict=True)
            )  # fmt: skip
            size = context.get_abi_sizeof(context.get_data_type(array.dtype))
            source = builder.gep(view.data, [begin])
            raw_memmove(builder, builder.gep(view.data, [builder.add(begin, by)]), source, builder.sub(end, begin), size)
            return context.get_dummy_value()

        return types.void(a, p, m, by), code

    memmove: Any = intrinsic(move)

    @jit
    def shift(a: AnyArray, p: int, m: int, by: int) -> None:
        if m > p:
            memmove(a, p, m, by)

    return shift


shift = _memmove_shift() if HAVE_NUMBA else _shift_np
"""Move a[p:m] by ``by`` places in place."""


@jit
def place_of(hs: AnyArray, m: int, s: float) -> int:
    """Where an arrival (newest of all) of score ``s`` goes: before the first score <= s. O(log m)."""
    lo, hi = 0, m
    while lo < hi:
        mid = (lo + hi) >> 1
        if hs[mid] > s:
            lo = mid + 1
        else:
            hi = mid
    return lo


def _oldest_np(hq: AnyArray, m: int) -> int:
    return int(np.argmin(hq[:m])) if m else -1


@jit
def _oldest_nb(hq: AnyArray, m: int) -> int:
    if m == 0:
        return -1
    least: Any = np.int64(NEVER)
    for i in range(m):
        least = min(least, hq[i])
    place: Any = np.int64(0)
    for i in range(m):
        place += np.int64(i) * np.int64(hq[i] == least)
    return int(place)


oldest = _oldest_nb if HAVE_NUMBA else _oldest_np
"""Place of the smallest seq (no two are equal), or -1 in an empty list. O(m), without a branch."""


@jit
def _sift_down(wa: AnyArray, wi: AnyArray, c: int, s: float, src: int) -> None:
    """Put (s, src) at the root of a heap of ``c`` whose worst (smallest score, then smallest src) is on top."""
    i = 0
    while True:
        j = 2 * i + 1
        if j >= c:
            break
        if j + 1 < c and (wa[j + 1] < wa[j] or (wa[j + 1] == wa[j] and wi[j + 1] < wi[j])):
            j += 1
        if s < wa[j] or (s == wa[j] and src < wi[j]):
            break
        wa[i], wi[i] = wa[j], wi[j]
        i = j
    wa[i], wi[i] = s, src


@jit
def _sift_up(wa: AnyArray, wi: AnyArray, i: int, s: float, src: int) -> None:
    while i > 0:
        p = (i - 1) >> 1
        if wa[p] < s or (wa[p] == s and wi[p] < src):
            break
        wa[i], wi[i] = wa[p], wi[p]
        i = p
    wa[i], wi[i] = s, src


@jit
def heap_push(wa: AnyArray, wi: AnyArray, c: int, s: float, src: int) -> int:
    """Add (s, src) to a heap of ``c`` and return c + 1. O(log c)."""
    _sift_up(wa, wi, c, s, src)
    return c + 1


@jit
def heap_to_order(wa: AnyArray, wi: AnyArray, c: int) -> None:
    """Turn a heap into rank order, best first. O(c log c)."""
    for e in range(c - 1, 0, -1):
        s, src = wa[0], wi[0]
        _sift_down(wa, wi, e, wa[e], wi[e])
        wa[e], wi[e] = s, src


@jit
def _any_above(sc: AnyArray, lo: int, hi: int, x: float) -> bool:
    b = sc[lo:hi]
    c: Any = np.int64(0)
    for j in range(hi - lo):
        c += np.int64(b[j] > x)
    return bool(c > 0)


@jit
def _select_nb(
    sc: AnyArray, dead: AnyArray, deletes: bool, now: int, lo: int, hi: int, base: int, thr: float, cut: int, floor: float,
    wa: AnyArray, wi: AnyArray, c: int, need: int,
) -> int:  # fmt: skip
    e = hi
    while e > lo:
        b = max(lo, e - BLOCK)
        if c == need and not _any_above(sc, b, e, wa[0]):
            e = b
            continue
        for i in range(e - 1, b - 1, -1):
            s = sc[i]
            if not s >= floor or s > thr or (s == thr and i >= cut):
                continue
            if c == need and not s > wa[0]:
                continue
            if deletes and dead[i] < now:
                continue
            if c < need:
                _sift_up(wa, wi, c, s, base + i)
                c += 1
            else:
                _sift_down(wa, wi, c, s, base + i)
        e = b
    return c


def _select_np(
    sc: AnyArray, dead: AnyArray, deletes: bool, now: int, lo: int, hi: int, base: int, thr: float, cut: int, floor: float,
    wa: AnyArray, wi: AnyArray, c: int, need: int,
) -> int:  # fmt: skip
    s = sc[lo:hi]
    i = np.arange(lo, hi)
    keep = (s >= floor) & ((s < thr) | ((s == thr) & (i < cut)))
    if deletes:
        keep &= dead[lo:hi] >= now
    a = np.concatenate([wa[:c], s[keep]])
    w = np.concatenate([wi[:c], base + i[keep]])
    best = np.lexsort((w, a))[::-1][:need]
    c = len(best)
    wa[:c], wi[:c] = a[best], w[best]
    return c


select = _select_nb if HAVE_NUMBA else _select_np
"""Gather the ``need`` best rows of [lo, hi) that rank after (thr, row ``cut``) and have score >= floor into the heap (wa, wi).

Call for newer rows first. ``wi`` holds ``base`` + row; a row with ``dead[row] < now`` is skipped if ``deletes``. Returns the heap's size.
O(rows) compares plus O(log need) for the few that enter.
"""


def _sorted_np(wa: AnyArray, wi: AnyArray, c: int) -> None:
    return None  # the NumPy selection is in rank order already


into_rank_order = heap_to_order if HAVE_NUMBA else _sorted_np
"""Turn the heap of a selection into rank order, best first. O(c log c)."""
