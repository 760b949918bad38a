"""Advance every key that has events or crossings, one stretch of time after the other."""

from __future__ import annotations

from skyband.operators.base import NEVER
from skyband.operators.jit import inner, jit
from skyband.operators.loyalty.kernels.emit import Output
from skyband.operators.loyalty.kernels.events import next_event, run_events
from skyband.operators.loyalty.kernels.heaps import Watch
from skyband.operators.loyalty.kernels.sweep import Stretch, sweep
from skyband.operators.loyalty.kernels.tables import (
    ECHO,
    ECHO_END,
    HEAD,
    HORIZON,
    LOG,
    LOG_END,
    LOW,
    MOVING,
    NEXT,
    OBJECTS,
    OWN,
    PLACE,
    ROW,
    ROW_END,
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
)
from skyband.operators.loyalty.kernels.watch import rebuild_watch_list

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
