"""Where a bucket's windows live: one arena of columns, a contiguous region per key, so that kernels stream through one key's objects.

Row ``k`` of the key table ``km`` (int64) describes key k; its columns are the constants below. Object ``seq`` of a key is at position
``OFF + seq - BASE``. Regions grow by moving to the arena's end; when that is full the arena is rebuilt without its garbage.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit

OFF, CAP, BASE, NEXT, LO, SOFF, SCAP, SLEN, KM_WIDTH = range(9)
"""Region start and capacity; first seq held; next seq; first seq alive in the largest window; the skyband's region and length."""


@jit
def first_after(times: AnyArray, lo: int, hi: int, x: int) -> int:
    """First position in [lo, hi) whose (non-decreasing) time is > x, or hi. O(log(hi - lo))."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if times[mid] > x:
            hi = mid
        else:
            lo = mid + 1
    return lo


@jit
def alive_from(km: AnyArray, key: int, times: AnyArray, upto: int, instant: int, count: int, micros: int) -> int:
    """First seq alive at ``instant`` in a window, once the objects before seq ``upto`` have arrived."""
    shift = km[key, OFF] - km[key, BASE]
    lo = max(int(km[key, BASE]), upto - count)
    if lo < upto:
        lo = first_after(times, lo + shift, upto + shift, instant - micros) - int(shift)
    return lo


@jit
def move_rows(src: AnyArray, dst: AnyArray, a: int, z: int, to: int) -> None:
    """Copy columns a..z of ``src`` to ``dst`` from ``to`` on; ``dst`` may be ``src`` if ``to`` <= a."""
    for row in range(src.shape[0]):
        x, y = src[row], dst[row]
        for i in range(z - a):
            y[to + i] = x[a + i]


@jit
def relocate(
    km: AnyArray, key: int, to: int, cap: int,
    fcols: AnyArray, icols: AnyArray, times: AnyArray, fnew: AnyArray, inew: AnyArray, tnew: AnyArray,
) -> None:  # fmt: skip
    """Move a key's alive objects to a region of ``cap`` at ``to``."""
    a = km[key, OFF] + km[key, LO] - km[key, BASE]
    z = km[key, OFF] + km[key, NEXT] - km[key, BASE]
    move_rows(fcols, fnew, a, z, to)
    move_rows(icols, inew, a, z, to)
    for i in range(z - a):
        tnew[to + i] = times[a + i]
    km[key, OFF], km[key, CAP], km[key, BASE] = to, cap, km[key, LO]


@jit
def room(live: int, more: int) -> int:
    """Capacity of a new region: an alive object is moved about once per turnover of the window."""
    return live + more + max(16, live) if live + more > 0 else 0


@jit
def append(
    km: AnyArray, keys: AnyArray, start: AnyArray, stop: AnyArray, fin: AnyArray, iin: AnyArray, tin: AnyArray,
    fcols: AnyArray, icols: AnyArray, times: AnyArray, end: int, instant: int, count: int, micros: int,
) -> tuple[AnyArray, AnyArray, AnyArray, int]:  # fmt: skip
    """Append rows start[g]..stop[g] of the incoming matrices to key keys[g]; returns the (perhaps new) arena and its end.

    Amortised O(rows). ``instant`` is the last one already processed: what was dead then is dropped when the arena is rebuilt.
    """
    extra = 0
    for g in range(len(keys)):
        key, more = keys[g], stop[g] - start[g]
        if km[key, NEXT] - km[key, BASE] + more <= km[key, CAP]:
            continue
        live = km[key, NEXT] - km[key, LO]
        spare = km[key, CAP] - live - more
        if spare < 0 or (spare < live // 2 and more < live // 2):
            extra += room(live, more)
    if end + extra > len(times):
        total = 0
        arriving = np.zeros(len(km), np.int64)
        for g in range(len(keys)):
            arriving[keys[g]] = stop[g] - start[g]
        for key in range(len(km)):
            km[key, LO] = max(km[key, LO], alive_from(km, key, times, km[key, NEXT], instant, count, micros))
            total += room(km[key, NEXT] - km[key, LO], arriving[key])
        size = total + total // 4 + 64
        fnew = np.empty((fcols.shape[0], size), np.float64)
        inew = np.empty((icols.shape[0], size), np.int64)
        tnew = np.empty(size, np.int64)
        end = 0
        for key in range(len(km)):
            cap = room(km[key, NEXT] - km[key, LO], arriving[key])
            relocate(km, key, end, cap, fcols, icols, times, fnew, inew, tnew)
            end += cap
        fcols, icols, times = fnew, inew, tnew
    for g in range(len(keys)):
        key, more = keys[g], stop[g] - start[g]
        if km[key, NEXT] - km[key, BASE] + more > km[key, CAP]:
            live = km[key, NEXT] - km[key, LO]
            spare = km[key, CAP] - live - more
            if spare < 0 or (spare < live // 2 and more < live // 2):
                cap = room(live, more)
                relocate(km, key, end, cap, fcols, icols, times, fcols, icols, times)
                end += cap
            else:
                relocate(km, key, km[key, OFF], km[key, CAP], fcols, icols, times, fcols, icols, times)
        to = km[key, OFF] + km[key, NEXT] - km[key, BASE]
        move_rows(fin, fcols, start[g], stop[g], to)
        move_rows(iin, icols, start[g], stop[g], to)
        for i in range(more):
            times[to + i] = tin[start[g] + i]
        km[key, NEXT] += more
    return fcols, icols, times, end
