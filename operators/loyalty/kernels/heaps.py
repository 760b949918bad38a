"""Seven heaps of watched objects: three by slope of those in the result (worst first), three of those out of it, one by instant.

An object is a row of eight int64, and all heaps are one array, so that kernels pass few arguments to each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner

OUT, TIMED, HEAPS = 3, 6, 7
"""Heaps 0, 1, 2: in the result, by slope + 1; 3, 4, 5: out of it; 6: by the instant at which a bound is crossed."""
NONE = -1

OBJECT, WORD, RANK, FIRST, HEAP, AT, ENTERED, STATUS = range(8)
"""``Watch.cells``: the object's place, its word as of now, its rank by name; its key in its heap, the smallest on top; which heap, or
``NONE``, and where in it; when it last entered an emitted result; whether it is among those pending."""
CELL = 8
LEAST, MOST = FIRST, AT
"""Of an object in no heap: the least and the most of its loyalty in a stretch of time."""


class Watch(NamedTuple):
    """The watched objects of one query and key: int64 (room, ``CELL``) ``cells``; (``HEAPS``, 1 + room) ``heaps``, each after its size;
    (1 + room,) ``pending``: the objects that may have changed sides, after their number."""

    cells: I64
    heaps: I64
    pending: I64


def new_watch(room: int) -> Watch:
    """Return arrays for ``room`` objects."""
    return Watch(np.empty((room, CELL), np.int64), np.zeros((HEAPS, 1 + room), np.int64), np.zeros(1 + room, np.int64))


@inner
def above(watch: Watch, heap: int, first: int, second: int) -> bool:
    """Return True if ``first`` comes before ``second`` in a heap. Of equal keys the last by name is the worst, and the first the best."""
    cells = watch.cells
    if cells[first, FIRST] != cells[second, FIRST]:
        return bool(cells[first, FIRST] < cells[second, FIRST])
    return bool((cells[first, RANK] < cells[second, RANK]) == (heap >= OUT))


@inner
def rise(watch: Watch, heap: int, place: int, cell: int) -> None:
    """Put ``cell`` at ``place`` or above."""
    index = place
    while index > 1:
        parent = watch.heaps[heap, index >> 1]
        if not above(watch, heap, cell, parent):
            break
        watch.heaps[heap, index], watch.cells[parent, AT] = parent, index
        index >>= 1
    watch.heaps[heap, index], watch.cells[cell, AT] = cell, index


@inner
def sink(watch: Watch, heap: int, place: int, cell: int) -> None:
    """Put ``cell`` at ``place`` or below."""
    size, index = watch.heaps[heap, 0], place
    while 2 * index <= size:
        child = 2 * index
        if child < size and above(watch, heap, watch.heaps[heap, child + 1], watch.heaps[heap, child]):
            child += 1
        smaller = watch.heaps[heap, child]
        if not above(watch, heap, smaller, cell):
            break
        watch.heaps[heap, index], watch.cells[smaller, AT] = smaller, index
        index = child
    watch.heaps[heap, index], watch.cells[cell, AT] = cell, index


@inner
def push(watch: Watch, heap: int, cell: int, first: int) -> None:
    """Add ``cell``, which is in no heap."""
    watch.cells[cell, FIRST], watch.cells[cell, HEAP] = first, heap
    watch.heaps[heap, 0] += 1
    rise(watch, heap, watch.heaps[heap, 0], cell)


@inner
def remove(watch: Watch, cell: int) -> None:
    """Take ``cell`` out of its heap, if it is in one."""
    heap, index = watch.cells[cell, HEAP], watch.cells[cell, AT]
    if heap == NONE:
        return
    watch.cells[cell, HEAP] = NONE
    size = watch.heaps[heap, 0]
    last = watch.heaps[heap, size]
    watch.heaps[heap, 0] = size - 1
    if index == size:
        return
    if index > 1 and above(watch, heap, last, watch.heaps[heap, index >> 1]):
        rise(watch, heap, index, last)
    else:
        sink(watch, heap, index, last)


@inner
def top(watch: Watch, heap: int) -> int:
    """Return the first object of a heap, or ``NONE``."""
    return int(watch.heaps[heap, 1]) if watch.heaps[heap, 0] > 0 else NONE
