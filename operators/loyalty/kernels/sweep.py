"""Sweep the watched objects of one query and key through the bends of a stretch of time, and the crossings between them."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.loyalty.kernels.emit import Emission, Output, emit, emit_point, ensure_capacity, first_at, lacks_capacity, precedes
from skyband.operators.loyalty.kernels.heaps import (
    ENTERED,
    FIRST,
    HEAP,
    HEAPS,
    LEAST,
    MOST,
    NONE,
    OBJECT,
    OUT,
    RANK,
    STATUS,
    TIMED,
    WORD,
    Watch,
    push,
    remove,
    top,
)
from skyband.operators.loyalty.kernels.tables import (
    BENDS,
    EMITTED,
    FAR,
    HORIZON,
    IN,
    INSTANTS,
    MEMBERS,
    MOVING,
    NEXT,
    PLACE,
    WATCHED,
    Bends,
    Feed,
    Objects,
    Tables,
    loyalty,
    slope,
)


class Border(NamedTuple):
    """One query and key at work: its numbers, ``k`` or ``theta`` (0: not this one), and its part of ``Marks`` and ``Progress``."""

    query: int
    key: int
    k: int
    theta: int
    where: I64
    progress: I64


BENT = 2
"""``STATUS`` of an object that has a bend in the stretch, until it is in a heap."""


class Stretch(NamedTuple):
    """The instants from ``since`` up to ``until``; ``row``: the key's first row; ``end``: the end of the search for crossings.

    ``moved``: 1 if lines have just been moved to another loyalty (``held``), so that sides may change at ``since`` without a bend.
    """

    since: int
    until: int
    row: int
    end: int
    moved: int


@inner
def change_side(border: Border, watch: Watch, cell: int) -> None:
    """Move ``cell`` into or out of the result."""
    obj = watch.cells[cell, OBJECT]
    border.where[obj] ^= IN
    border.progress[MEMBERS] += 1 if border.where[obj] & IN else -1
    mark_pending(watch, cell)


@inner
def mark_pending(watch: Watch, cell: int) -> None:
    """Add ``cell`` to the pending objects."""
    if watch.cells[cell, STATUS] == 0:
        watch.cells[cell, STATUS] = 1
        watch.pending[0] += 1
        watch.pending[watch.pending[0]] = cell


@inner
def place_in_heap(border: Border, watch: Watch, cell: int, at: int) -> None:
    """Put ``cell``, which is in no heap, into its heap; it leaves the result if it has to."""
    word = watch.cells[cell, WORD]
    slope_now, now = slope(word), loyalty(word, at)
    inside = border.where[watch.cells[cell, OBJECT]] & IN
    if border.k == 0:
        beyond = now > border.theta or (now == border.theta and slope_now >= 0)
        if beyond != bool(inside):
            change_side(border, watch, cell)
        if slope_now != 0 and beyond == (slope_now < 0):
            push(watch, TIMED, cell, at + abs(now - border.theta))
    elif now > 0 or slope_now > 0:
        if inside:
            push(watch, slope_now + 1, cell, word >> 2)
        else:
            push(watch, slope_now + 1 + OUT, cell, -(word >> 2))
    elif inside:
        change_side(border, watch, cell)


@inner_inlined
def load_watched(border: Border, watch: Watch, bends: Bends, made: int, objects: Objects, following: I64, time: Stretch) -> int:
    """Load the watched objects as before the ``made`` bends of a stretch, with the least and the most of their loyalty in it.

    O(watched + bends). Return how many there are.
    """
    count, cells = 0, watch.cells
    obj = border.progress[WATCHED]
    while obj >= 0:
        word = objects.word[obj]
        cells[count, OBJECT], cells[count, WORD] = obj, word
        cells[count, RANK], cells[count, HEAP] = objects.rank[obj], NONE
        cells[count, LEAST] = cells[count, MOST] = loyalty(word, time.end - 1)
        cells[count, ENTERED], cells[count, STATUS] = -NEVER, 0
        count += 1
        border.where[obj] = (border.where[obj] & (IN | EMITTED)) | (count << PLACE)
        obj = following[obj]
    for index in range(made - 1, -1, -1):
        cell = (border.where[bends.object[index]] >> PLACE) - 1
        if cell >= 0:
            now = loyalty(bends.before[index], bends.time[index])
            cells[cell, WORD], cells[cell, STATUS] = bends.before[index], BENT
            cells[cell, LEAST], cells[cell, MOST] = min(cells[cell, LEAST], now), max(cells[cell, MOST], now)
    watch.pending[0] = 0
    for heap in range(HEAPS):
        watch.heaps[heap, 0] = 0
    return count


@inner_inlined
def fill_heaps(border: Border, watch: Watch, count: int, at: int) -> None:
    """Put the ``count`` loaded objects into their heaps, as of the instant ``at``.

    Leave out objects that stay on their side of the border all through the stretch: members above the most of all others, and others below
    the least of all members. Also leave out others as high as that least, level, and behind by name, if all members as low as that are
    level too.
    """
    cells = watch.cells
    worst, best = FAR, 0
    last = NEVER
    for cell in range(count):
        now = loyalty(cells[cell, WORD], at)
        least, most = min(cells[cell, LEAST], now), max(cells[cell, MOST], now)
        cells[cell, LEAST], cells[cell, MOST] = least, most
        if border.where[cells[cell, OBJECT]] & IN == 0:
            best = max(best, most)
        elif least <= worst:
            behind = cells[cell, RANK] if cells[cell, STATUS] != BENT and least == most else NEVER
            last = behind if least < worst else max(last, behind)
            worst = least
    if border.k == 0:
        worst = best = border.theta
        last = NEVER
    elif border.progress[MEMBERS] < border.k:
        worst = -FAR
    for cell in range(count):
        obj, level = cells[cell, OBJECT], cells[cell, STATUS] != BENT and cells[cell, LEAST] == cells[cell, MOST]
        cells[cell, STATUS] = 0
        mark = border.where[obj] & (IN | EMITTED)
        if mark in (IN, EMITTED):
            mark_pending(watch, cell)
        elif mark:
            if cells[cell, LEAST] > best:
                border.where[obj] = mark
                continue
        elif cells[cell, MOST] < worst or (cells[cell, MOST] == worst and level and cells[cell, RANK] > last):
            border.where[obj] = mark
            continue
        place_in_heap(border, watch, cell, at)


@inner
def first_in_heaps(watch: Watch, low: int, at: int, worst: bool) -> int:
    """Return the worst or best object of the heaps low, low + 1, low + 2 at an instant; or ``NONE``."""
    found = NONE
    for heap in range(low, low + 3):
        cell = top(watch, heap)
        if cell != NONE and (found == NONE or worst == precedes(watch.cells, found, cell, at)):
            found = cell
    return found


@inner
def move_across(border: Border, watch: Watch, cell: int, at: int) -> None:
    """Move ``cell``, which is in a heap, to the other side."""
    remove(watch, cell)
    change_side(border, watch, cell)
    place_in_heap(border, watch, cell, at)


@inner_inlined
def exchange_members(border: Border, watch: Watch, at: int) -> None:
    """Fill the result up to k, and exchange until the best of those out do not precede the worst of those in."""
    while True:
        out = first_in_heaps(watch, OUT, at, False)
        if out == NONE:
            return
        if border.progress[MEMBERS] >= border.k:
            worst = first_in_heaps(watch, 0, at, True)
            if worst == NONE or not precedes(watch.cells, out, worst, at):
                return
            move_across(border, watch, worst, at)
        move_across(border, watch, out, at)


@inner_inlined
def cross_threshold(border: Border, watch: Watch, at: int) -> None:
    """Change the side of those whose line meets the bound now."""
    while True:
        cell = top(watch, TIMED)
        if cell == NONE or watch.cells[cell, FIRST] > at:
            return
        remove(watch, cell)
        change_side(border, watch, cell)


@inner
def next_crossing(k: int, watch: Watch) -> int:
    """Return the first instant at which a watched object changes sides without a bend, or ``NEVER``."""
    first = NEVER
    if k == 0:
        cell = top(watch, TIMED)
        return first if cell == NONE else int(watch.cells[cell, FIRST])
    falling, level = top(watch, 0), top(watch, 1)
    flat, rising = top(watch, OUT + 1), top(watch, OUT + 2)
    # The sum of two keys is the gap between the lines at instant 0: c of the one less that of the other.
    if NONE not in (rising, level):
        first = min(first, watch.cells[level, FIRST] + watch.cells[rising, FIRST])
    if NONE not in (flat, falling):
        first = min(first, watch.cells[falling, FIRST] + watch.cells[flat, FIRST])
    if NONE not in (rising, falling):
        first = min(first, (watch.cells[falling, FIRST] + watch.cells[rising, FIRST] + 1) >> 1)
    return int(first)


@inner_inlined
def apply_bends(border: Border, watch: Watch, bends: Bends, made: int, first: int, at: int) -> int:
    """Apply the bends of one instant from place ``first`` on; return the place after them."""
    index = first
    while index < made and bends.time[index] == at:
        cell = (border.where[bends.object[index]] >> PLACE) - 1
        if cell >= 0:
            remove(watch, cell)
            watch.cells[cell, WORD] = bends.after[index]
            place_in_heap(border, watch, cell, at)
        index += 1
    return index


@inner_inlined
def trace_bends(output: Output, border: Border, watch: Watch, bends: Bends, objects: Objects, first: int, end: int) -> None:
    """Emit points of the members among these bends, except those that have just entered, whose points are emitted already."""
    for index in range(first, end):
        obj = bends.object[index]
        if border.where[obj] & EMITTED:
            cell = (border.where[obj] >> PLACE) - 1
            if cell < 0 or watch.cells[cell, ENTERED] != bends.time[index]:
                emit_point(output, objects, border.query, border.key, bends.time[index], obj, bends.after[index])


@inner
def next_boundary(at: int, every: int) -> int:
    """Return the first boundary at ``at`` or later."""
    return -(-at // every) * every


@inner_inlined
def was_updated(feed: Feed, at: int) -> bool:
    """Return True if something of the key was updated at an instant of this stretch."""
    index = first_at(feed.instants.time, 0, feed.cursors[INSTANTS], at)
    return bool(index < feed.cursors[INSTANTS] and feed.instants.time[index] == at)


@maker
def sweep(output: Output, tables: Tables, query: int, key: int, watch: Watch, feed: Feed, time: Stretch) -> Output:
    """Take a query of a key through a stretch of time, whose bends ``feed`` holds; return the output."""
    queries, objects, progress = tables.queries, tables.objects, tables.progress
    since, until = time.since, time.until
    border = Border(query, key, queries.k[query], queries.at_least[query], tables.marks.where[query], progress.queries[query, key])
    every, trace_all = queries.every[query], queries.trace_all[query] != 0
    bends, made = feed.bends, feed.cursors[BENDS]
    if lacks_capacity(output, 0, made):
        output = ensure_capacity(output, 0, made)
    if trace_all:
        for index in range(made):
            emit_point(output, objects, query, key, bends.time[index], bends.object[index], bends.after[index])
    count = load_watched(border, watch, bends, made, objects, tables.marks.next[query], time)
    fill_heaps(border, watch, count, since - 1)
    due = next_boundary(since, every) if watch.pending[0] > 0 and every > 0 else NEVER
    crossing = next_crossing(border.k, watch) if time.moved == 0 else since
    taken = 0
    while True:
        while taken < made and border.where[bends.object[taken]] == 0:
            taken += 1
        at = min(crossing, bends.time[taken]) if taken < made else crossing
        first = taken
        boundary = due < min(at, until)
        if boundary:
            at = due
        elif at >= until:
            break
        else:
            if taken < made and bends.time[taken] == at:
                taken = apply_bends(border, watch, bends, made, taken, at)
            if border.k == 0:
                cross_threshold(border, watch, at)
            else:
                exchange_members(border, watch, at)
            boundary = every > 0 and at % every == 0
            crossing = next_crossing(border.k, watch)
        if watch.pending[0] > 0 and (boundary or every == 0):
            if lacks_capacity(output, watch.pending[0], watch.pending[0] + made):
                output = ensure_capacity(output, watch.pending[0], watch.pending[0] + made)
            updated = every == 0 and was_updated(feed, at)
            emit(output, watch, objects, border.where, progress, feed, Emission(query, key, at, updated, boundary), time.row, not trace_all)
            due = NEVER
        elif watch.pending[0] > 0:
            due = min(due, next_boundary(at, every))
        if not trace_all:
            trace_bends(output, border, watch, bends, objects, first, taken)
    if every > 0 and crossing < NEVER:
        crossing = next_boundary(crossing, every)
    if progress.keys[key, MOVING] > 0:
        crossing = min(crossing, border.progress[HORIZON], time.end)
    border.progress[NEXT] = min(crossing, due)
    return output
