"""The sweep of one query and key: its watched objects through the bends of a stretch of time, crossings at their own instants."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.loyalty.kernels.heaps import (
    ENTERED,
    FIRST,
    HEAP,
    HEAPS,
    LEAST,
    MOST,
    NONE,
    NOTED,
    OBJECT,
    OUT,
    RANK,
    TIMED,
    WORD,
    Watch,
    push,
    remove,
    top,
)
from skyband.operators.loyalty.kernels.tables import (
    BENDS,
    FAR,
    HORIZON,
    IN,
    INSTANTS,
    MEMBERS,
    MOVING,
    NEXT,
    PLACE,
    TOLD,
    WATCHED,
    Bends,
    Feed,
    Marks,
    Objects,
    Progress,
    Queries,
    loyalty,
    slope,
)
from skyband.operators.loyalty.kernels.tell import Moment, Told, first_at, lacks_room, precedes, roomier, tell, tell_point


class Border(NamedTuple):
    """One query and key at work: its numbers, ``k`` or ``theta`` (0: not this one), and its part of ``Marks`` and ``Progress``."""

    query: int
    key: int
    k: int
    theta: int
    where: I64
    progress: I64


BENT = 2
"""``NOTED`` of an object that has a bend in the stretch, until it is lined up."""


class Stretch(NamedTuple):
    """The instants from ``since`` up to ``until``; ``row``: the key's first row; ``end``: up to when it is looked for crossings."""

    since: int
    until: int
    row: int
    end: int


@inner
def toggle(b: Border, w: Watch, x: int) -> None:
    """x changes sides."""
    o = w.cells[x, OBJECT]
    b.where[o] ^= IN
    b.progress[MEMBERS] += 1 if b.where[o] & IN else -1
    note(w, x)


@inner
def note(w: Watch, x: int) -> None:
    """x may have to be told."""
    if w.cells[x, NOTED] == 0:
        w.cells[x, NOTED] = 1
        w.pending[0] += 1
        w.pending[w.pending[0]] = x


@inner
def stand(b: Border, w: Watch, x: int, at: int) -> None:
    """Put x, which is in no heap, into the heap where it belongs; it leaves the result if it has to."""
    word = w.cells[x, WORD]
    s, now = slope(word), loyalty(word, at)
    inside = b.where[w.cells[x, OBJECT]] & IN
    if b.k == 0:
        beyond = now > b.theta or (now == b.theta and s >= 0)
        if beyond != bool(inside):
            toggle(b, w, x)
        if s != 0 and beyond == (s < 0):
            push(w, TIMED, x, at + abs(now - b.theta))
    elif now > 0 or s > 0:
        if inside:
            push(w, s + 1, x, word >> 2)
        else:
            push(w, s + 1 + OUT, x, -(word >> 2))
    elif inside:
        toggle(b, w, x)


@inner_inlined
def gather(b: Border, w: Watch, bends: Bends, made: int, objects: Objects, following: I64, time: Stretch) -> int:
    """Take up the watched objects as they were before the ``made`` bends of a stretch, with the least and the most of their loyalty in it.

    O(watched + bends); returns how many they are.
    """
    n, cells = 0, w.cells
    o = b.progress[WATCHED]
    while o >= 0:
        word = objects.word[o]
        cells[n, OBJECT], cells[n, WORD], cells[n, RANK] = o, word, objects.rank[o]
        cells[n, LEAST] = cells[n, MOST] = loyalty(word, time.end - 1)
        cells[n, HEAP], cells[n, ENTERED], cells[n, NOTED] = NONE, -NEVER, 0
        n += 1
        b.where[o] = (b.where[o] & (IN | TOLD)) | (n << PLACE)
        o = following[o]
    for i in range(made - 1, -1, -1):
        x = (b.where[bends.object[i]] >> PLACE) - 1
        if x >= 0:
            now = loyalty(bends.before[i], bends.time[i])
            cells[x, WORD], cells[x, NOTED] = bends.before[i], BENT
            cells[x, LEAST], cells[x, MOST] = min(cells[x, LEAST], now), max(cells[x, MOST], now)
    w.pending[0] = 0
    for h in range(HEAPS):
        w.heaps[h, 0] = 0
    return n


@inner_inlined
def line_up(b: Border, w: Watch, n: int, at: int) -> None:
    """Put the n objects taken up into their heaps, as of the instant ``at``.

    Left out are those that stay on their side of the border all through the stretch: members above the most of all others, others below the
    least of all members, or as high, level, and behind by name if all members as low as that are level too.
    """
    cells = w.cells
    worst, best, last = FAR, 0, NEVER
    for x in range(n):
        now = loyalty(cells[x, WORD], at)
        least, most = min(cells[x, LEAST], now), max(cells[x, MOST], now)
        cells[x, LEAST], cells[x, MOST] = least, most
        if b.where[cells[x, OBJECT]] & IN == 0:
            best = max(best, most)
        elif least <= worst:
            behind = cells[x, RANK] if cells[x, NOTED] != BENT and least == most else NEVER
            last = behind if least < worst else max(last, behind)
            worst = least
    if b.k == 0:
        worst, best, last = b.theta, b.theta, NEVER
    elif b.progress[MEMBERS] < b.k:
        worst = -FAR
    for x in range(n):
        o, level = cells[x, OBJECT], cells[x, NOTED] != BENT and cells[x, LEAST] == cells[x, MOST]
        cells[x, NOTED] = 0
        mark = b.where[o] & (IN | TOLD)
        if mark in (IN, TOLD):
            note(w, x)
        elif mark:
            if cells[x, LEAST] > best:
                b.where[o] = mark
                continue
        elif cells[x, MOST] < worst or (cells[x, MOST] == worst and level and cells[x, RANK] > last):
            b.where[o] = mark
            continue
        stand(b, w, x, at)


@inner
def first_of(w: Watch, low: int, at: int, worst: bool) -> int:
    """Of the heaps low, low + 1, low + 2 the object that is worst, or best, at an instant; or ``NONE``."""
    found = NONE
    for h in range(low, low + 3):
        x = top(w, h)
        if x != NONE and (found == NONE or worst == precedes(w.cells, found, x, at)):
            found = x
    return found


@inner
def move(b: Border, w: Watch, x: int, at: int) -> None:
    """x goes to the other side."""
    remove(w, x)
    toggle(b, w, x)
    stand(b, w, x, at)


@inner_inlined
def put_in_order(b: Border, w: Watch, at: int) -> None:
    """Fill the result up to k, and exchange until the best of those out do not precede the worst of those in."""
    while True:
        out = first_of(w, OUT, at, False)
        if out == NONE:
            return
        if b.progress[MEMBERS] >= b.k:
            worst = first_of(w, 0, at, True)
            if worst == NONE or not precedes(w.cells, out, worst, at):
                return
            move(b, w, worst, at)
        move(b, w, out, at)


@inner_inlined
def cross_threshold(b: Border, w: Watch, at: int) -> None:
    """Those whose line meets the bound now change sides."""
    while True:
        x = top(w, TIMED)
        if x == NONE or w.cells[x, FIRST] > at:
            return
        remove(w, x)
        toggle(b, w, x)


@inner
def next_crossing(k: int, w: Watch) -> int:
    """The first instant at which a watched object changes sides without a bend, or ``NEVER``."""
    first = NEVER
    if k == 0:
        x = top(w, TIMED)
        return first if x == NONE else int(w.cells[x, FIRST])
    falling, level, flat, rising = top(w, 0), top(w, 1), top(w, OUT + 1), top(w, OUT + 2)
    # the sum of two keys is the gap between the lines at instant 0: c of the one less that of the other
    if NONE not in (rising, level):
        first = min(first, w.cells[level, FIRST] + w.cells[rising, FIRST])
    if NONE not in (flat, falling):
        first = min(first, w.cells[falling, FIRST] + w.cells[flat, FIRST])
    if NONE not in (rising, falling):
        first = min(first, (w.cells[falling, FIRST] + w.cells[rising, FIRST] + 1) >> 1)
    return int(first)


@inner_inlined
def take_bends(b: Border, w: Watch, bends: Bends, made: int, first: int, at: int) -> int:
    """The bends of one instant from place ``first`` on; returns the place after them."""
    e = first
    while e < made and bends.time[e] == at:
        x = (b.where[bends.object[e]] >> PLACE) - 1
        if x >= 0:
            remove(w, x)
            w.cells[x, WORD] = bends.after[e]
            stand(b, w, x, at)
        e += 1
    return e


@inner_inlined
def trace_bends(told: Told, b: Border, w: Watch, bends: Bends, objects: Objects, first: int, end: int) -> None:
    """Points of the members among these bends, but of those that have just entered: their points are told."""
    for e in range(first, end):
        o = bends.object[e]
        if b.where[o] & TOLD:
            x = (b.where[o] >> PLACE) - 1
            if x < 0 or w.cells[x, ENTERED] != bends.time[e]:
                tell_point(told, objects, b.query, b.key, bends.time[e], o, bends.after[e])


@inner
def after(at: int, every: int) -> int:
    """The first boundary at ``at`` or later."""
    return -(-at // every) * every


@inner_inlined
def updated_at(feed: Feed, at: int) -> bool:
    """Whether something of the key was updated at an instant of this stretch."""
    i = first_at(feed.instants.time, 0, feed.at[INSTANTS], at)
    return bool(i < feed.at[INSTANTS] and feed.instants.time[i] == at)


@maker
def sweep(
    told: Told, queries: Queries, q: int, key: int, w: Watch, feed: Feed, objects: Objects, marks: Marks, progress: Progress, time: Stretch
) -> Told:
    """Take query q of a key through a stretch of time, whose bends ``feed`` holds."""
    since, until, row = time.since, time.until, time.row
    b = Border(q, key, queries.k[q], queries.at_least[q], marks.where[q], progress.queries[q, key])
    every, everyone = queries.every[q], queries.trace_all[q] != 0
    bends, m = feed.bends, feed.at[BENDS]
    if lacks_room(told, 0, m):
        told = roomier(told, 0, m)
    if everyone:
        for i in range(m):
            tell_point(told, objects, q, key, bends.time[i], bends.object[i], bends.after[i])
    n = gather(b, w, bends, m, objects, marks.next[q], time)
    line_up(b, w, n, since - 1)
    due = after(since, every) if w.pending[0] > 0 and every > 0 else NEVER
    crossing = next_crossing(b.k, w)
    e = 0
    while True:
        while e < m and b.where[bends.object[e]] == 0:
            e += 1
        at = min(crossing, bends.time[e]) if e < m else crossing
        first = e
        boundary = due < min(at, until)
        if boundary:
            at = due
        elif at >= until:
            break
        else:
            if e < m and bends.time[e] == at:
                e = take_bends(b, w, bends, m, e, at)
            if b.k == 0:
                cross_threshold(b, w, at)
            else:
                put_in_order(b, w, at)
            boundary = every > 0 and at % every == 0
            crossing = next_crossing(b.k, w)
        if w.pending[0] > 0 and (boundary or every == 0):
            if lacks_room(told, w.pending[0], w.pending[0] + m):
                told = roomier(told, w.pending[0], w.pending[0] + m)
            updated = every == 0 and updated_at(feed, at)
            tell(told, w, objects, b.where, progress, feed, Moment(q, key, at, updated, boundary), row, not everyone)
            due = NEVER
        elif w.pending[0] > 0:
            due = min(due, after(at, every))
        if not everyone:
            trace_bends(told, b, w, bends, objects, first, e)
    if every > 0 and crossing < NEVER:
        crossing = after(crossing, every)
    if progress.keys[key, MOVING] > 0:
        crossing = min(crossing, b.progress[HORIZON], time.end)
    b.progress[NEXT] = min(crossing, due)
    return told
