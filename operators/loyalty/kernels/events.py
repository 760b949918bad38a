"""Reports, echoes and stale reports of one key to bends of lines, instant by instant."""

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
    bent,
    slope,
)


@inner_inlined
def next_event(feed: Feed, clock: Clock) -> int:
    """The instant of the key's next event, or ``NEVER``."""
    at, rows = feed.at, feed.rows
    first = NEVER
    if at[ROW] < at[ROW_END]:
        first = rows.time[at[ROW]]
    if at[ECHO] < at[ECHO_END]:
        first = min(first, feed.echoes.time[at[ECHO]] + clock.window)
    if at[LOG] < at[LOG_END]:
        first = min(first, feed.log.time[at[LOG]] + clock.window)
    if clock.stale_after > 0:
        if at[STALE] < at[STALE_END]:
            first = min(first, feed.stale.time[at[STALE]] + clock.stale_after)
        while at[OWN] < at[ROW] and rows.on[at[OWN]] == 0:
            at[OWN] += 1
        if at[OWN] < at[ROW]:
            first = min(first, rows.time[at[OWN]] + clock.stale_after)
    return first


@inner_inlined
def bend(feed: Feed, objects: Objects, o: int, on: int, old: int, time: int, first: int) -> None:
    """Object ``o`` is ``on`` now and was ``old`` T ago, from ``time`` on. ``first``: the first bend of this instant."""
    bends, m = feed.bends, feed.at[BENDS]
    place = objects.bend[o]
    word = objects.word[o]
    after = bent(word, on, old, time)
    if not (first <= place < m and bends.object[place] == o):
        place = m
        objects.bend[o] = m
        bends.time[m], bends.object[m], bends.before[m] = time, o, word
        feed.at[BENDS] = m + 1
    bends.after[place] = after
    objects.word[o] = after


@inner_inlined
def take_echoes(feed: Feed, objects: Objects, clock: Clock, time: int, first: int) -> bool:
    """Switches of T ago come back; whether there was one."""
    at = feed.at
    was = time - clock.window
    begin = at[ECHO] + at[LOG]
    while at[ECHO] < at[ECHO_END] and feed.echoes.time[at[ECHO]] == was:
        o = feed.echoes.object[at[ECHO]]
        word = objects.word[o]
        bend(feed, objects, o, word & 1, 1 - ((word >> 1) & 1), time, first)
        at[ECHO] += 1
    while at[LOG] < at[LOG_END] and feed.log.time[at[LOG]] == was:
        o = feed.log.object[at[LOG]]
        word = objects.word[o]
        bend(feed, objects, o, word & 1, 1 - ((word >> 1) & 1), time, first)
        at[LOG] += 1
    return bool(at[ECHO] + at[LOG] > begin)


@inner_inlined
def take_rows(feed: Feed, objects: Objects, time: int, first: int) -> None:
    """The reports of this instant, in turn."""
    at, rows = feed.at, feed.rows
    while at[ROW] < at[ROW_END] and rows.time[at[ROW]] == time:
        o, on = rows.object[at[ROW]], rows.on[at[ROW]]
        word = objects.word[o]
        objects.report[o] = time
        if on != (word & 1):
            bend(feed, objects, o, on, (word >> 1) & 1, time, first)
        at[ROW] += 1


@inner_inlined
def take_stale(feed: Feed, objects: Objects, clock: Clock, time: int, first: int) -> None:
    """Objects whose last report is stale now are off. A report of this instant came first, and counts."""
    at, rows = feed.at, feed.rows
    was = time - clock.stale_after
    while at[STALE] < at[STALE_END] and feed.stale.time[at[STALE]] == was:
        o = feed.stale.object[at[STALE]]
        word = objects.word[o]
        if objects.report[o] == was and word & 1:
            bend(feed, objects, o, 0, (word >> 1) & 1, time, first)
        at[STALE] += 1
    while at[OWN] < at[ROW] and rows.time[at[OWN]] == was:
        o = rows.object[at[OWN]]
        word = objects.word[o]
        if objects.report[o] == was and word & 1:
            bend(feed, objects, o, 0, (word >> 1) & 1, time, first)
        at[OWN] += 1


@inner_inlined
def settle(feed: Feed, progress: Progress, key: int, time: int, first: int, updated: bool) -> None:
    """The net of an instant: switches to the log, and of the bends since ``first`` those that change a slope."""
    at, bends = feed.at, feed.bends
    m = first
    for i in range(first, at[BENDS]):
        o, before, after = bends.object[i], bends.before[i], bends.after[i]
        if (before ^ after) & 1:
            updated = True
            feed.log.time[at[LOG_END]], feed.log.object[at[LOG_END]] = time, o
            at[LOG_END] += 1
        if before != after and slope(before) != slope(after):
            progress.keys[key, MOVING] += abs(slope(after)) - abs(slope(before))
            bends.time[m], bends.object[m], bends.before[m], bends.after[m] = time, o, before, after
            m += 1
    progress.keys[key, SEEN] += m - first
    at[BENDS] = m
    if updated:
        feed.instants.time[at[INSTANTS]] = time
        at[INSTANTS] += 1


@inner
def run_events(feed: Feed, objects: Objects, progress: Progress, clock: Clock, key: int, until: int, most: int) -> int:
    """All events before ``until``, or those of the first instants with more than ``most`` bends; returns up to when it got."""
    at = feed.at
    at[BENDS] = at[INSTANTS] = 0
    while True:
        time = next_event(feed, clock)
        if time >= until:
            return until
        if at[BENDS] > most:
            return int(time)
        first = at[BENDS]
        updated = take_echoes(feed, objects, clock, time, first)
        take_rows(feed, objects, time, first)
        if clock.stale_after > 0:
            take_stale(feed, objects, clock, time, first)
        settle(feed, progress, key, time, first, updated)
