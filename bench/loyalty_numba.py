"""A sweep that keeps the order of all objects, in Numba: what one would write first. For users without the C++ peers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.jit import jit


class Sweep(NamedTuple):
    """Per object: line ``c``, ``s``, whether ``on`` now and ``old`` T ago, ``place`` in the ``order``. ``when``, ``who``: switches so far.

    ``heap`` (room, 3): crossings of neighbours (instant, upper, lower), those that came to nothing too. ``count``: switches, echoes,
    crossings in the heap, swaps.
    """

    c: Any
    s: Any
    on: Any
    old: Any
    place: Any
    order: Any
    when: Any
    who: Any
    heap: Any
    count: Any


def start(objects: int, rows: int) -> Sweep:
    """All off."""
    return Sweep(
        *(np.zeros(objects, np.int64) for _ in range(4)), np.arange(objects), np.arange(objects), np.zeros(rows, np.int64),
        np.zeros(rows, np.int64), np.zeros((4_000_000, 3), np.int64), np.zeros(4, np.int64),
    )  # fmt: skip


@jit
def before(x: Sweep, a: int, b: int, t: int) -> bool:
    """Whether a ranks before b just after t."""
    u, v = x.c[a] + x.s[a] * t, x.c[b] + x.s[b] * t
    return bool(u > v or (u == v and (x.s[a] > x.s[b] or (x.s[a] == x.s[b] and a < b))))


@jit
def expect(x: Sweep, i: int, t: int) -> None:
    """Note when the objects at places i and i + 1 meet."""
    if i < 0 or i + 1 >= len(x.order):
        return
    u, v = x.order[i], x.order[i + 1]
    if x.s[v] <= x.s[u]:
        return
    d, gap = x.s[v] - x.s[u], x.c[u] - x.c[v]
    at = max(t, -(-gap // d))
    h, j = x.heap, x.count[2]
    x.count[2] += 1
    while j > 0 and h[(j - 1) // 2, 0] > at:
        h[j, 0], h[j, 1], h[j, 2] = h[(j - 1) // 2, 0], h[(j - 1) // 2, 1], h[(j - 1) // 2, 2]
        j = (j - 1) // 2
    h[j, 0], h[j, 1], h[j, 2] = at, u, v


@jit
def clean(x: Sweep) -> None:
    """Drop crossings of objects that are neighbours no more, if half the room is used."""
    h, n = x.heap, 0
    if 2 * x.count[2] < len(h):
        return
    for i in range(x.count[2]):
        if x.place[h[i, 2]] == x.place[h[i, 1]] + 1:
            h[n, 0], h[n, 1], h[n, 2] = h[i, 0], h[i, 1], h[i, 2]
            n += 1
    sorted_ = h[:n][np.argsort(h[:n, 0])]
    h[:n] = sorted_
    x.count[2] = n


@jit
def pop(x: Sweep) -> None:
    """Drop the first crossing."""
    h = x.heap
    x.count[2] -= 1
    n, i = x.count[2], 0
    while True:
        j = 2 * i + 1
        if j >= n:
            break
        if j + 1 < n and h[j + 1, 0] < h[j, 0]:
            j += 1
        if h[j, 0] >= h[n, 0]:
            break
        h[i, 0], h[i, 1], h[i, 2] = h[j, 0], h[j, 1], h[j, 2]
        i = j
    h[i, 0], h[i, 1], h[i, 2] = h[n, 0], h[n, 1], h[n, 2]


@jit
def swap(x: Sweep, i: int) -> None:
    """Exchange the objects at places i and i + 1."""
    u, v = x.order[i], x.order[i + 1]
    x.order[i], x.order[i + 1], x.place[u], x.place[v] = v, u, i + 1, i
    x.count[3] += 1


@jit
def bend(x: Sweep, o: int, t: int) -> None:
    """A new line for object o, which has switched, now or T ago."""
    s = x.on[o] - x.old[o]
    x.c[o] += (x.s[o] - s) * t
    x.s[o] = s


@jit
def turn(x: Sweep, o: int, t: int) -> None:
    """Object o has switched, now or T ago: a new line, and a new place."""
    bend(x, o, t)
    i = x.place[o]
    first = i
    while i > 0 and before(x, o, x.order[i - 1], t):
        i -= 1
        swap(x, i)
    while i + 1 < len(x.order) and before(x, x.order[i + 1], o, t):
        swap(x, i)
        i += 1
    expect(x, i - 1, t)
    expect(x, i, t)
    if i != first:
        expect(x, first - 1, t)
        expect(x, first, t)


@jit
def fold(x: Sweep, rows: Any, end: int, window: int) -> None:
    """The rows before ``end``, which begins an instant, and the echoes before it, without an order."""
    for i in range(end + 1):
        t = rows[i, 0]
        while x.count[1] < x.count[0] and x.when[x.count[1]] + window < t:
            o = x.who[x.count[1]]
            x.old[o] = 1 - x.old[o]
            bend(x, o, x.when[x.count[1]] + window)
            x.count[1] += 1
        o = rows[i, 1]
        if i < end and x.on[o] != rows[i, 2]:
            x.on[o] = rows[i, 2]
            x.when[x.count[0]], x.who[x.count[0]] = t, o
            x.count[0] += 1
            bend(x, o, t)


def warm(x: Sweep, rows: Any, end: int, window: int) -> None:
    """The rows before ``end``, then the order as of that instant."""
    fold(x, rows, end, window)
    t = int(rows[end, 0])
    x.order[:] = np.lexsort((np.arange(len(x.c)), -x.s, -(x.c + x.s * t)))
    x.place[x.order] = np.arange(len(x.c))
    for i in range(len(x.c) - 1):
        expect(x, i, t)


@jit
def advance(x: Sweep, rows: Any, lo: int, hi: int, window: int) -> None:
    """Rows lo..hi, with the echoes and crossings up to the last of them."""
    i = lo
    while i < hi:
        clean(x)
        t = rows[i, 0]
        echo = x.when[x.count[1]] + window if x.count[1] < x.count[0] else t
        t = min(t, echo)
        if x.count[2] > 0 and x.heap[0, 0] < t:
            at, u, v = x.heap[0, 0], x.heap[0, 1], x.heap[0, 2]
            pop(x)
            if x.place[v] == x.place[u] + 1 and before(x, v, u, at):
                p = x.place[u]
                swap(x, p)
                expect(x, p - 1, at)
                expect(x, p + 1, at)
        elif x.count[1] < x.count[0] and echo == t:
            o = x.who[x.count[1]]
            x.count[1] += 1
            x.old[o] = 1 - x.old[o]
            turn(x, o, t)
        else:
            o = rows[i, 1]
            if x.on[o] != rows[i, 2]:
                x.on[o] = rows[i, 2]
                x.when[x.count[0]], x.who[x.count[0]] = t, o
                x.count[0] += 1
                turn(x, o, t)
            i += 1
