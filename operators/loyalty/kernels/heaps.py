"""Seven heaps of watched objects: six by slope, of those in the result (worst first) and those out of it (best first), one by instant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner

OUT, TIMED, HEAPS = 3, 6, 7
"""Heaps 0, 1, 2: in the result, by slope + 1; 3, 4, 5: out of it; 6: by the instant at which the threshold is crossed."""
NONE = -1


class Watch(NamedTuple):
    """The watched objects of one query and key, int64 (room,) each, and room for their heaps.

    ``object``: its place; ``word`` as of now; ``first`` and ``second``: its key in its heap, the smallest on top; ``heap``: which, or
    ``NONE``; ``at``: where in it; ``entered``: when it was last told to be in; ``pending``: objects that may have changed sides, ``noted``
    whether one is among them. ``heaps`` (``HEAPS``, room), ``size`` (``HEAPS``,); ``counts`` (2,): those watched, those pending.
    """

    object: I64
    word: I64
    first: I64
    second: I64
    heap: I64
    at: I64
    entered: I64
    pending: I64
    noted: I64
    heaps: I64
    size: I64
    counts: I64


def watch_room(room: int) -> Watch:
    """Room for ``room`` objects."""
    a = np.empty((9, room), np.int64)
    return Watch(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], np.empty((HEAPS, room), np.int64), np.zeros(HEAPS, np.int64),
        np.zeros(2, np.int64),
    )  # fmt: skip


@inner
def above(w: Watch, a: int, b: int) -> bool:
    """Whether a comes before b in their heap."""
    return bool(w.first[a] < w.first[b] or (w.first[a] == w.first[b] and w.second[a] < w.second[b]))


@inner
def put(w: Watch, h: int, i: int, x: int) -> None:
    """Put x at i."""
    w.heaps[h, i] = x
    w.at[x] = i


@inner
def rise(w: Watch, h: int, i: int, x: int) -> None:
    """Put x at i or above."""
    while i > 0:
        p = (i - 1) >> 1
        y = w.heaps[h, p]
        if not above(w, x, y):
            break
        put(w, h, i, y)
        i = p
    put(w, h, i, x)


@inner
def sink(w: Watch, h: int, i: int, x: int) -> None:
    """Put x at i or below."""
    n = w.size[h]
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        if c + 1 < n and above(w, w.heaps[h, c + 1], w.heaps[h, c]):
            c += 1
        y = w.heaps[h, c]
        if not above(w, y, x):
            break
        put(w, h, i, y)
        i = c
    put(w, h, i, x)


@inner
def push(w: Watch, h: int, x: int, first: int, second: int) -> None:
    """Add x, which is in no heap."""
    w.first[x], w.second[x], w.heap[x] = first, second, h
    n = w.size[h]
    w.size[h] = n + 1
    rise(w, h, n, x)


@inner
def remove(w: Watch, x: int) -> None:
    """Take x out of its heap, if it is in one."""
    h = w.heap[x]
    if h == NONE:
        return
    w.heap[x] = NONE
    n = w.size[h] - 1
    w.size[h] = n
    i, y = w.at[x], w.heaps[h, n]
    if i == n:
        return
    if i > 0 and above(w, y, w.heaps[h, (i - 1) >> 1]):
        rise(w, h, i, y)
    else:
        sink(w, h, i, y)
