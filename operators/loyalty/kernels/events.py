"""Turn reports, echoes and stale reports of one key into bends of lines, instant by instant."""

from __future__ import annotations

from skyband.operators.base import NEVER
from skyband.operators.jit import inner, inner_inlined
from skyband.operators.loyalty.kernels.tables import (
    BENDS,
    ECHO,
    ECHO_END,
    INSTANTS,
    LOG,
    LOG_END,
    MOVING,
    OWN,
    ROW,
    ROW_END,
    SEEN,
    STALE,
    STALE_END,
    Clock,
    Feed,
    Objects,
    Progress,
    slope,
    turned_word,
)


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
