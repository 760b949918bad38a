"""The sweep of one query and key: its watched objects through the bends of a stretch of time, crossings at their own instants."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, maker
from skyband.operators.loyalty.kernels.heaps import NONE, OUT, TIMED, Watch, push, remove
from skyband.operators.loyalty.kernels.tables import (
    BENDS,
    HORIZON,
    IN,
    INSTANTS,
    MEMBERS,
    MOVING,
    NEXT,
    PLACE,
    TOLD,
    WATCHED,
    Feed,
    Marks,
    Objects,
    Progress,
    Queries,
    loyalty,
    slope,
)
from skyband.operators.loyalty.kernels.tell import Moment, Told, precedes, roomier, tell, tell_point


class Border(NamedTuple):
    """One query and key at work: its numbers, ``k`` or ``theta`` (0: not this one), and its part of ``Marks`` and ``Progress``."""

    query: int
    key: int
    k: int
    theta: int
    where: I64
    progress: I64


@inner
def toggle(b: Border, w: Watch, x: int) -> None:
    """x changes sides."""
    b.where[w.object[x]] ^= IN
    b.progress[MEMBERS] += 1 if b.where[w.object[x]] & IN else -1
    if not w.noted[x]:
        w.noted[x] = 1
        w.pending[w.counts[1]] = x
        w.counts[1] += 1


@inner
def stand(b: Border, w: Watch, objects: Objects, x: int, at: int) -> None:
    """Put x, which is in no heap, into the heap where it belongs; it leaves the result if it has to."""
    word = w.word[x]
    s, now = slope(word), loyalty(word, at)
    inside = b.where[w.object[x]] & IN
    rank = objects.rank[w.object[x]]
    if b.k == 0:
        beyond = now > b.theta or (now == b.theta and s >= 0)
        if beyond != bool(inside):
            toggle(b, w, x)
        if s != 0 and beyond == (s < 0):
            push(w, TIMED, x, at + abs(now - b.theta), rank)
    elif now > 0 or s > 0:
        if inside:
            push(w, s + 1, x, word >> 2, -rank)
        else:
            push(w, s + 1 + OUT, x, -(word >> 2), rank)
    elif inside:
        toggle(b, w, x)


@inner
def gather(b: Border, w: Watch, feed: Feed, objects: Objects, marks: Marks, at: int) -> None:
    """Take up the watched objects as they were at the instant ``at``, before the bends of ``feed``. O(watched + bends)."""
    n = 0
    o = b.progress[WATCHED]
    while o >= 0:
        w.object[n], w.word[n], w.heap[n], w.noted[n], w.entered[n] = o, objects.word[o], NONE, 0, -NEVER
        b.where[o] = (b.where[o] & (IN | TOLD)) | ((n + 1) << PLACE)
        n += 1
        o = marks.next[b.query, o]
    bends = feed.bends
    for i in range(feed.at[BENDS] - 1, -1, -1):
        x = (b.where[bends.object[i]] >> PLACE) - 1
        if x >= 0:
            w.word[x] = bends.before[i]
    w.counts[0], w.counts[1] = n, 0
    w.size[:] = 0
    for x in range(n):
        mark = b.where[w.object[x]]
        if ((mark >> 1) ^ mark) & 1:
            w.noted[x] = 1
            w.pending[w.counts[1]] = x
            w.counts[1] += 1
        stand(b, w, objects, x, at)


@inner
def first_of(w: Watch, objects: Objects, low: int, at: int, worst: bool) -> int:
    """Of the heaps low, low + 1, low + 2 the object that is worst, or best, at an instant; or ``NONE``."""
    found = NONE
    for h in range(low, low + 3):
        if w.size[h] > 0:
            x = w.heaps[h, 0]
            if found == NONE or worst == precedes(objects, w.object[found], w.word[found], w.object[x], w.word[x], at):
                found = x
    return found


@inner
def move(b: Border, w: Watch, objects: Objects, x: int, at: int) -> None:
    """x goes to the other side."""
    remove(w, x)
    toggle(b, w, x)
    stand(b, w, objects, x, at)


@inner
def put_in_order(b: Border, w: Watch, objects: Objects, at: int) -> None:
    """Fill the result up to k, and exchange until the best of those out do not precede the worst of those in."""
    while True:
        out = first_of(w, objects, OUT, at, False)
        if out == NONE:
            return
        if b.progress[MEMBERS] >= b.k:
            worst = first_of(w, objects, 0, at, True)
            if worst == NONE or not precedes(objects, w.object[out], w.word[out], w.object[worst], w.word[worst], at):
                return
            move(b, w, objects, worst, at)
        move(b, w, objects, out, at)


@inner
def cross_threshold(b: Border, w: Watch, at: int) -> None:
    """Those whose line meets the threshold now change sides."""
    while w.size[TIMED] > 0 and w.first[w.heaps[TIMED, 0]] <= at:
        x = w.heaps[TIMED, 0]
        remove(w, x)
        toggle(b, w, x)


@inner
def next_crossing(b: Border, w: Watch) -> int:
    """The first instant at which a watched object changes sides without a bend, or ``NEVER``."""
    if b.k == 0:
        return int(w.first[w.heaps[TIMED, 0]]) if w.size[TIMED] > 0 else NEVER
    first = NEVER
    for i in range(2):
        if w.size[i] > 0:
            for j in range(i + 1, 3):
                if w.size[OUT + j] > 0:
                    gap = w.first[w.heaps[i, 0]] + w.first[w.heaps[OUT + j, 0]]  # c of the one less that of the other
                    first = min(first, -(-gap // (j - i)))
    return first


@inner
def take_bends(b: Border, w: Watch, feed: Feed, objects: Objects, first: int, at: int) -> int:
    """The bends of one instant from place ``first`` on; returns the place after them."""
    bends = feed.bends
    e = first
    while e < feed.at[BENDS] and bends.time[e] == at:
        x = (b.where[bends.object[e]] >> PLACE) - 1
        if x >= 0:
            remove(w, x)
            w.word[x] = bends.after[e]
            stand(b, w, objects, x, at)
        e += 1
    return e


@inner
def trace_bends(told: Told, b: Border, w: Watch, feed: Feed, objects: Objects, first: int, end: int) -> None:
    """Points of the members among these bends, but of those that have just entered: their points are told."""
    bends = feed.bends
    for e in range(first, end):
        o = bends.object[e]
        if b.where[o] & TOLD:
            x = (b.where[o] >> PLACE) - 1
            if x < 0 or w.entered[x] != bends.time[e]:
                tell_point(told, objects, b.query, b.key, bends.time[e], o, bends.after[e])


@inner
def after(at: int, every: int) -> int:
    """The first boundary at ``at`` or later."""
    return -(-at // every) * every


@inner
def updated_at(feed: Feed, at: int) -> bool:
    """Whether something of the key was updated at an instant of this stretch."""
    lo, hi = 0, feed.at[INSTANTS]
    while lo < hi:
        mid = (lo + hi) >> 1
        if feed.instants.time[mid] < at:
            lo = mid + 1
        else:
            hi = mid
    return bool(lo < feed.at[INSTANTS] and feed.instants.time[lo] == at)


class Stretch(NamedTuple):
    """The instants from ``since`` up to ``until``; ``row``: the key's first row."""

    since: int
    until: int
    row: int


@maker
def sweep(
    told: Told, queries: Queries, q: int, key: int, w: Watch, feed: Feed, objects: Objects, marks: Marks, progress: Progress, time: Stretch
) -> Told:
    """Take query q of a key through a stretch of time, whose bends ``feed`` holds."""
    since, until, row = time
    b = Border(q, key, queries.k[q], queries.at_least[q], marks.where[q], progress.queries[q, key])
    every, everyone = queries.every[q], queries.trace_all[q] != 0
    bends, m = feed.bends, feed.at[BENDS]
    told = roomier(told, 0, m)
    if everyone:
        for i in range(m):
            tell_point(told, objects, q, key, bends.time[i], bends.object[i], bends.after[i])
    gather(b, w, feed, objects, marks, since - 1)
    due = after(since, every) if w.counts[1] > 0 and every > 0 else NEVER
    crossing = next_crossing(b, w)
    e = 0
    while True:
        while e < m and b.where[bends.object[e]] == 0:
            e += 1
        at = min(crossing, bends.time[e]) if e < m else crossing
        if due < min(at, until):
            told = tell(told, w, objects, marks, progress, feed, Moment(q, key, due, False, True), row, not everyone)
            due = NEVER
            continue
        if at >= until:
            break
        first = e
        if e < m and bends.time[e] == at:
            e = take_bends(b, w, feed, objects, e, at)
        if b.k == 0:
            cross_threshold(b, w, at)
        else:
            put_in_order(b, w, objects, at)
        if w.counts[1] > 0:
            if every == 0:
                told = tell(told, w, objects, marks, progress, feed, Moment(q, key, at, updated_at(feed, at), False), row, not everyone)
            elif at % every == 0:
                told = tell(told, w, objects, marks, progress, feed, Moment(q, key, at, False, True), row, not everyone)
                due = NEVER
            else:
                due = min(due, after(at, every))
        if first < e and not everyone:
            told = roomier(told, 0, e - first)
            trace_bends(told, b, w, feed, objects, first, e)
        crossing = next_crossing(b, w)
    if every > 0 and crossing < NEVER:
        crossing = after(crossing, every)
    if progress.keys[key, MOVING] > 0:
        crossing = min(crossing, b.progress[HORIZON])
    b.progress[NEXT] = min(crossing, due)
    return told
