"""Seven heaps of watched objects: six by slope, of those in the result (worst first) and those out of it (best first), one by instant.

An object is a row of eight int64, and all heaps are one array: kernels pass few arguments to each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner

OUT, TIMED, HEAPS = 3, 6, 7
"""Heaps 0, 1, 2: in the result, by slope + 1; 3, 4, 5: out of it; 6: by the instant at which the bound is crossed."""
NONE = -1

OBJECT, WORD, RANK, FIRST, HEAP, AT, ENTERED, NOTED = range(8)
"""``Watch.cells``: the object's place, its word as of now, its rank by name; its key in its heap, the smallest on top; which heap, or
``NONE``, and where in it; when it was last told to be in; whether it is among those pending."""
CELL = 8
LEAST, MOST = FIRST, AT
"""Of an object in no heap: the least and the most of its loyalty in a stretch of time."""


class Watch(NamedTuple):
    """The watched objects of one query and key: int64 (room, ``CELL``) ``cells``; (``HEAPS``, 1 + room) ``heaps``, each after its size;
    (1 + room,) ``pending``: objects that may have changed sides, after their number."""

    cells: I64
    heaps: I64
    pending: I64


def watch_room(room: int) -> Watch:
    """Room for ``room`` objects."""
    return Watch(np.empty((room, CELL), np.int64), np.zeros((HEAPS, 1 + room), np.int64), np.zeros(1 + room, np.int64))


@inner
def above(w: Watch, h: int, a: int, b: int) -> bool:
    """Whether a comes before b in heap h. Of equal keys the last by name is the worst, and the first the best."""
    cells = w.cells
    if cells[a, FIRST] != cells[b, FIRST]:
        return bool(cells[a, FIRST] < cells[b, FIRST])
    return bool((cells[a, RANK] < cells[b, RANK]) == (h >= OUT))


@inner
def rise(w: Watch, h: int, place: int, x: int) -> None:
    """Put x at ``place`` or above."""
    i = place
    while i > 1:
        y = w.heaps[h, i >> 1]
        if not above(w, h, x, y):
            break
        w.heaps[h, i], w.cells[y, AT] = y, i
        i >>= 1
    w.heaps[h, i], w.cells[x, AT] = x, i


@inner
def sink(w: Watch, h: int, place: int, x: int) -> None:
    """Put x at ``place`` or below."""
    n, i = w.heaps[h, 0], place
    while 2 * i <= n:
        c = 2 * i
        if c < n and above(w, h, w.heaps[h, c + 1], w.heaps[h, c]):
            c += 1
        y = w.heaps[h, c]
        if not above(w, h, y, x):
            break
        w.heaps[h, i], w.cells[y, AT] = y, i
        i = c
    w.heaps[h, i], w.cells[x, AT] = x, i


@inner
def push(w: Watch, h: int, x: int, first: int) -> None:
    """Add x, which is in no heap."""
    w.cells[x, FIRST], w.cells[x, HEAP] = first, h
    w.heaps[h, 0] += 1
    rise(w, h, w.heaps[h, 0], x)


@inner
def remove(w: Watch, x: int) -> None:
    """Take x out of its heap, if it is in one."""
    h, i = w.cells[x, HEAP], w.cells[x, AT]
    if h == NONE:
        return
    w.cells[x, HEAP] = NONE
    n = w.heaps[h, 0]
    y = w.heaps[h, n]
    w.heaps[h, 0] = n - 1
    if i == n:
        return
    if i > 1 and above(w, h, y, w.heaps[h, i >> 1]):
        rise(w, h, i, y)
    else:
        sink(w, h, i, y)


@inner
def top(w: Watch, h: int) -> int:
    """The first of heap h, or ``NONE``."""
    return int(w.heaps[h, 1]) if w.heaps[h, 0] > 0 else NONE
