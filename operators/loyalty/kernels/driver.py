"""Advance every key that has events or crossings, one stretch of time after the other.

A stretch is swept through the bends of the watched objects of a query, and the crossings between them."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, inner_inlined, jit, maker
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
    ECHO,
    ECHO_END,
    EMITTED,
    EVENTS,
    FAR,
    HEAD,
    HORIZON,
    IN,
    INSTANTS,
    LOG,
    LOG_END,
    LOW,
    MEMBERS,
    MOVING,
    NEXT,
    OBJECTS,
    OWN,
    PLACE,
    ROW,
    ROW_END,
    SEEN,
    SINCE,
    SPAN,
    STALE,
    STALE_END,
    WATCHED,
    Bends,
    Clock,
    Feed,
    Job,
    Marks,
    Objects,
    Progress,
    Tables,
    loyalty,
    slope,
    turned_word,
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
def load_watched(border: Border, watch: Watch, bends: Bends, bend_count: int, objects: Objects, following: I64, time: Stretch) -> int:
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
    for index in range(bend_count - 1, -1, -1):
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
def apply_bends(border: Border, watch: Watch, bends: Bends, bend_count: int, first: int, at: int) -> int:
    """Apply the bends of one instant from place ``first`` on; return the place after them."""
    index = first
    while index < bend_count and bends.time[index] == at:
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
    bends, bend_count = feed.bends, feed.cursors[BENDS]
    if lacks_capacity(output, 0, bend_count):
        output = ensure_capacity(output, 0, bend_count)
    if trace_all:
        for index in range(bend_count):
            emit_point(output, objects, query, key, bends.time[index], bends.object[index], bends.after[index])
    count = load_watched(border, watch, bends, bend_count, objects, tables.marks.next[query], time)
    fill_heaps(border, watch, count, since - 1)
    due = next_boundary(since, every) if watch.pending[0] > 0 and every > 0 else NEVER
    crossing = next_crossing(border.k, watch) if time.moved == 0 else since
    taken = 0
    while True:
        while taken < bend_count and border.where[bends.object[taken]] == 0:
            taken += 1
        at = min(crossing, bends.time[taken]) if taken < bend_count else crossing
        first = taken
        boundary = due < min(at, until)
        if boundary:
            at = due
        elif at >= until:
            break
        else:
            if taken < bend_count and bends.time[taken] == at:
                taken = apply_bends(border, watch, bends, bend_count, taken, at)
            if border.k == 0:
                cross_threshold(border, watch, at)
            else:
                exchange_members(border, watch, at)
            boundary = every > 0 and at % every == 0
            crossing = next_crossing(border.k, watch)
        if watch.pending[0] > 0 and (boundary or every == 0):
            if lacks_capacity(output, watch.pending[0], watch.pending[0] + bend_count):
                output = ensure_capacity(output, watch.pending[0], watch.pending[0] + bend_count)
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


# The driver: stretches of time of every key that has events or crossings, one after the other.


# Find the objects of a key that can meet the border of a query within some time: only these are swept.
#
# Loyalty moves by at most 1 a microsecond. Let w be the worst loyalty of the members, b the best of the others. For a span S from now on,
# others below w - 2S stay below all members, and members above b + 2S above all others: neither changes sides, whatever happens.


@inner
def span_of_next_list(progress: Progress, query: int, key: int, window: int, at: int) -> int:
    """Return how long the next watch list should hold: long enough that its making costs little beside the events meanwhile."""
    state = progress.queries[query, key]
    events = progress.keys[key, SEEN] - state[EVENTS]
    span = window // 32
    if state[SPAN] > 0:
        wanted = progress.keys[key, OBJECTS] // 2 + 32
        span = (at - state[SINCE]) * wanted // events if events > 0 else 4 * state[SPAN]
        span = max(state[SPAN] // 4, min(4 * state[SPAN], span))
    return int(max(1, min(window, span)))


@inner
def extremes(objects: Objects, where: I64, head: int, alone: int, at: int) -> tuple[int, int]:
    """Return the worst loyalty of the members of a key, and the best of its other objects, or 0."""
    worst, best = FAR, 0
    for obj in range(alone):
        now = loyalty(objects.word[obj], at)
        inside = where[obj] & IN
        worst = min(worst, now if inside else FAR)
        best = max(best, 0 if inside else now)
    obj = head if alone == 0 else -1
    while obj >= 0:
        now = loyalty(objects.word[obj], at)
        if where[obj] & IN:
            worst = min(worst, now)
        else:
            best = max(best, now)
        obj = objects.next[obj]
    return worst, best


@inner
def rebuild_watch_list(tables: Tables, query: int, key: int, clock: Clock, at: int) -> None:
    """Make the list of watched objects of one query and key, as of the instant ``at``. O(objects of the key)."""
    objects, progress = tables.objects, tables.progress
    state = progress.queries[query, key]
    where, following = tables.marks.where[query], tables.marks.next[query]
    k, theta = tables.queries.k[query], tables.queries.at_least[query]
    low, high = -FAR, FAR
    span = 0
    if progress.keys[key, OBJECTS] > clock.few:
        span = span_of_next_list(progress, query, key, clock.window, at)
        low, high = theta - span, theta + span
        if k > 0:
            worst, best = extremes(objects, where, progress.keys[key, HEAD], clock.alone, at)
            low, high = worst - 2 * span if state[MEMBERS] >= k else -FAR, best + 2 * span
    state[HORIZON] = at + span + 1 if span > 0 else NEVER
    state[SPAN], state[LOW] = span, low
    state[SINCE], state[EVENTS] = at, progress.keys[key, SEEN]
    last = -1
    for obj in range(clock.alone):
        now = loyalty(objects.word[obj], at)
        mark = where[obj] & (IN | EMITTED)
        where[obj] = mark
        # One side is enough for a bound too: a line may have crossed it since the last rebuild.
        if (now <= high if mark & IN else now >= low) or mark in (IN, EMITTED):
            where[obj] = mark | (1 << PLACE)
            following[obj] = last
            last = obj
    obj = progress.keys[key, HEAD] if clock.alone == 0 else -1
    while obj >= 0:
        mark = where[obj] & (IN | EMITTED)
        now = loyalty(objects.word[obj], at)
        if (now <= high if mark & IN else now >= low) or mark in (IN, EMITTED):
            mark |= 1 << PLACE
            following[obj] = last
            last = obj
        where[obj] = mark
        obj = objects.next[obj]
    state[WATCHED] = last


# Turn reports, echoes and stale reports of one key into bends of lines, instant by instant.


@inner_inlined
def next_event(feed: Feed, clock: Clock) -> int:
    """Return the instant of the key's next event, or ``NEVER``."""
    cursors, rows = feed.cursors, feed.rows
    first = NEVER
    if cursors[ROW] < cursors[ROW_END]:
        first = rows.time[cursors[ROW]]
    if cursors[ECHO] < cursors[ECHO_END]:
        first = min(first, feed.echoes.time[cursors[ECHO]] + clock.window)
    if cursors[LOG] < cursors[LOG_END]:
        first = min(first, feed.log.time[cursors[LOG]] + clock.window)
    if clock.stale_after > 0:
        if cursors[STALE] < cursors[STALE_END]:
            first = min(first, feed.stale.time[cursors[STALE]] + clock.stale_after)
        while cursors[OWN] < cursors[ROW] and rows.on[cursors[OWN]] != 1:
            cursors[OWN] += 1
        if cursors[OWN] < cursors[ROW]:
            first = min(first, rows.time[cursors[OWN]] + clock.stale_after)
    return first


@inner_inlined
def add_bend(feed: Feed, objects: Objects, obj: int, on: int, old: int, time: int, first: int) -> None:
    """Record that ``obj`` is ``on`` from ``time`` on and was ``old`` T ago. ``first``: the first bend of this instant."""
    bends, count = feed.bends, feed.cursors[BENDS]
    place = objects.bend[obj]
    word = objects.word[obj]
    new_word = turned_word(word, on, old, time)
    if not (first <= place < count and bends.object[place] == obj):
        place = count
        objects.bend[obj] = count
        bends.time[count], bends.object[count] = time, obj
        bends.before[count] = word
        feed.cursors[BENDS] = count + 1
    bends.after[place] = new_word
    objects.word[obj] = new_word


@inner_inlined
def apply_echo(feed: Feed, objects: Objects, obj: int, time: int, first: int) -> None:
    """Apply one switch of T ago to ``obj``."""
    word = objects.word[obj]
    add_bend(feed, objects, obj, word & 1, 1 - ((word >> 1) & 1), time, first)


@inner_inlined
def apply_echoes(feed: Feed, objects: Objects, clock: Clock, time: int, first: int) -> bool:
    """Apply the switches of T ago; return True if there was one."""
    cursors = feed.cursors
    was = time - clock.window
    begin = cursors[ECHO] + cursors[LOG]
    while cursors[ECHO] < cursors[ECHO_END] and feed.echoes.time[cursors[ECHO]] == was:
        apply_echo(feed, objects, feed.echoes.object[cursors[ECHO]], time, first)
        cursors[ECHO] += 1
    while cursors[LOG] < cursors[LOG_END] and feed.log.time[cursors[LOG]] == was:
        apply_echo(feed, objects, feed.log.object[cursors[LOG]], time, first)
        cursors[LOG] += 1
    return bool(cursors[ECHO] + cursors[LOG] > begin)


@inner_inlined
def apply_rows(feed: Feed, objects: Objects, time: int, first: int) -> None:
    """Apply the reports of this instant, in turn."""
    cursors, rows = feed.cursors, feed.rows
    while cursors[ROW] < cursors[ROW_END] and rows.time[cursors[ROW]] == time:
        obj, on = rows.object[cursors[ROW]], rows.on[cursors[ROW]] & 1
        word = objects.word[obj]
        objects.report[obj] = time
        if on != (word & 1):
            add_bend(feed, objects, obj, on, (word >> 1) & 1, time, first)
        cursors[ROW] += 1


@inner_inlined
def switch_off(feed: Feed, objects: Objects, obj: int, reported: int, time: int, first: int) -> None:
    """Switch ``obj`` off if it is on by a report of the instant ``reported``."""
    word = objects.word[obj]
    if objects.report[obj] == reported and word & 1:
        add_bend(feed, objects, obj, 0, (word >> 1) & 1, time, first)


@inner_inlined
def apply_stale(feed: Feed, objects: Objects, clock: Clock, time: int, first: int) -> None:
    """Switch off the objects whose last report is stale now. A report of this instant came first, and counts."""
    cursors, rows = feed.cursors, feed.rows
    was = time - clock.stale_after
    while cursors[STALE] < cursors[STALE_END] and feed.stale.time[cursors[STALE]] == was:
        switch_off(feed, objects, feed.stale.object[cursors[STALE]], was, time, first)
        cursors[STALE] += 1
    while cursors[OWN] < cursors[ROW] and rows.time[cursors[OWN]] == was:
        switch_off(feed, objects, rows.object[cursors[OWN]], was, time, first)
        cursors[OWN] += 1


@inner_inlined
def record_net_changes(feed: Feed, progress: Progress, key: int, time: int, first: int, updated: bool, held: int) -> None:
    """Reduce an instant to its net: switches go to the log, and only bends that change a slope stay. Updates count unless ``held``."""
    cursors, bends = feed.cursors, feed.bends
    count = first
    for index in range(first, cursors[BENDS]):
        obj = bends.object[index]
        word_before, word_after = bends.before[index], bends.after[index]
        if (word_before ^ word_after) & 1:
            updated = True
            feed.log.time[cursors[LOG_END]], feed.log.object[cursors[LOG_END]] = time, obj
            cursors[LOG_END] += 1
        if word_before != word_after and slope(word_before) != slope(word_after):
            progress.keys[key, MOVING] += abs(slope(word_after)) - abs(slope(word_before))
            bends.time[count], bends.object[count] = time, obj
            bends.before[count], bends.after[count] = word_before, word_after
            count += 1
    progress.keys[key, SEEN] += count - first
    cursors[BENDS] = count
    if updated and held == 0:
        feed.instants.time[cursors[INSTANTS]] = time
        cursors[INSTANTS] += 1


@inner
def run_events(feed: Feed, objects: Objects, progress: Progress, clock: Clock, key: int, until: int, most: int) -> int:
    """Run all events before ``until``, or stop after the first instants with more than ``most`` bends; return the end."""
    cursors = feed.cursors
    cursors[BENDS] = cursors[INSTANTS] = 0
    while True:
        time = next_event(feed, clock)
        if time >= until:
            return until
        if cursors[BENDS] > most:
            return int(time)
        first = cursors[BENDS]
        updated = apply_echoes(feed, objects, clock, time, first)
        apply_rows(feed, objects, time, first)
        if clock.stale_after > 0:
            apply_stale(feed, objects, clock, time, first)
        record_net_changes(feed, progress, key, time, first, updated, clock.held)


MOST_BENDS = 8192
"""Bends of a stretch, about."""


@jit
def add_objects(objects: Objects, marks: Marks, progress: Progress, first: int, end: int) -> None:
    """Add the objects [first, end) to the lists of their keys, and to the watch lists that hold newcomers."""
    for obj in range(first, end):
        key = objects.key[obj]
        objects.next[obj] = progress.keys[key, HEAD]
        progress.keys[key, HEAD] = obj
        progress.keys[key, OBJECTS] += 1
        for query in range(len(marks.where)):
            state = progress.queries[query, key]
            if state[LOW] <= 0:
                marks.where[query, obj] |= 1 << PLACE
                marks.next[query, obj] = state[WATCHED]
                state[WATCHED] = obj


@inner
def start_key(feed: Feed, job: Job, index: int) -> None:
    """Set the cursors of ``feed`` to the job's key at ``index``."""
    cursors = feed.cursors
    cursors[ROW], cursors[ROW_END] = job.row[index], job.row_end[index]
    cursors[ECHO], cursors[ECHO_END] = job.echo[index], job.echo_end[index]
    cursors[STALE], cursors[STALE_END] = job.stale[index], job.stale_end[index]
    cursors[OWN], cursors[LOG] = cursors[ROW], cursors[LOG_END]


@inner
def valid_until(tables: Tables, clock: Clock, key: int, at: int) -> int:
    """Return until when the watch lists of all queries hold; rebuild those that no longer hold at the instant ``at``."""
    first = NEVER
    for query in range(len(tables.queries.k)):
        state = tables.progress.queries[query, key]
        if state[HORIZON] <= at or (state[HORIZON] == NEVER and tables.progress.keys[key, OBJECTS] > clock.few):
            rebuild_watch_list(tables, query, key, clock, at)
        first = min(first, state[HORIZON])
    return int(first)


@inner
def is_idle(tables: Tables, key: int, until: int) -> bool:
    """Return True if a key emits nothing before ``until`` as long as none of its lines moves."""
    first = NEVER
    for query in range(len(tables.queries.k)):
        first = min(first, tables.progress.queries[query, key, NEXT])
    return bool(first >= until)


@jit
def drive(tables: Tables, job: Job, feed: Feed, clock: Clock, watch: Watch, output: Output) -> Output:
    """Advance the keys of ``job`` through the instants of ``clock``; return the output, and leave the rest in the tables."""
    feed.cursors[LOG_END] = 0
    for index in range(len(job.key)):
        key = job.key[index]
        start_key(feed, job, index)
        at = clock.since
        while at < clock.until:
            event = min(next_event(feed, clock), clock.until)
            if tables.progress.keys[key, MOVING] == 0 and at < event and is_idle(tables, key, event):
                at = event
                continue
            valid = valid_until(tables, clock, key, at)
            until = min(clock.until, valid)
            until = run_events(feed, tables.objects, tables.progress, clock, key, until, MOST_BENDS)
            end = until if until < clock.until else max(until, min(valid, until + clock.window))
            time = Stretch(at, until, job.row[index], end, clock.moved if at == clock.since else 0)
            for query in range(len(tables.queries.k)):
                output = sweep(output, tables, query, key, watch, feed, time)
            at = until
    return output
