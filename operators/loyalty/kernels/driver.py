"""Advance every key that has events or crossings, one stretch of time after the other."""

from __future__ import annotations

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, inner_inlined, jit
from skyband.operators.loyalty.kernels.emit import Output
from skyband.operators.loyalty.kernels.heaps import Watch
from skyband.operators.loyalty.kernels.sweep import Stretch, sweep
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


MOST = 8192
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
            until = run_events(feed, tables.objects, tables.progress, clock, key, until, MOST)
            end = until if until < clock.until else max(until, min(valid, until + clock.window))
            time = Stretch(at, until, job.row[index], end, clock.moved if at == clock.since else 0)
            for query in range(len(tables.queries.k)):
                output = sweep(output, tables, query, key, watch, feed, time)
            at = until
    return output
