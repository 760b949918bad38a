"""One call: every key that has events or crossings, stretch by stretch."""

from __future__ import annotations

from skyband.operators.base import NEVER
from skyband.operators.jit import inner, jit
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
    Queries,
)
from skyband.operators.loyalty.kernels.tell import Told
from skyband.operators.loyalty.kernels.watch import watch_anew

MOST = 8192
"""Bends of a stretch, about."""


@jit
def enlist(objects: Objects, marks: Marks, progress: Progress, first: int, end: int) -> None:
    """Add the objects [first, end) to the lists of their keys; they are watched where a newcomer is."""
    for o in range(first, end):
        key = objects.key[o]
        objects.next[o] = progress.keys[key, HEAD]
        progress.keys[key, HEAD] = o
        progress.keys[key, OBJECTS] += 1
        for q in range(len(marks.where)):
            p = progress.queries[q, key]
            if p[LOW] <= 0:
                marks.where[q, o] |= 1 << PLACE
                marks.next[q, o] = p[WATCHED]
                p[WATCHED] = o


@inner
def begin(feed: Feed, job: Job, g: int) -> None:
    """Set the places of ``feed`` to the g-th key of the job."""
    at = feed.at
    at[ROW], at[ROW_END] = job.row[g], job.row_end[g]
    at[ECHO], at[ECHO_END] = job.echo[g], job.echo_end[g]
    at[STALE], at[STALE_END] = job.stale[g], job.stale_end[g]
    at[OWN], at[LOG] = at[ROW], at[LOG_END]


@inner
def horizon(queries: Queries, objects: Objects, marks: Marks, progress: Progress, clock: Clock, key: int, at: int) -> int:
    """Until when the lists of all queries hold, having made anew those that do not hold at the instant ``at``."""
    first = NEVER
    for q in range(len(queries.k)):
        p = progress.queries[q, key]
        if p[HORIZON] <= at or (p[HORIZON] == NEVER and progress.keys[key, OBJECTS] > clock.few):
            watch_anew(queries, objects, marks, progress, q, key, clock, at)
        first = min(first, p[HORIZON])
    return int(first)


@inner
def still(queries: Queries, progress: Progress, key: int, until: int) -> bool:
    """Whether nothing is told of a key before ``until`` if no line of it moves."""
    first = NEVER
    for q in range(len(queries.k)):
        first = min(first, progress.queries[q, key, NEXT])
    return bool(first >= until)


@jit
def drive(
    queries: Queries, objects: Objects, marks: Marks, progress: Progress, job: Job, feed: Feed, clock: Clock, watch: Watch, told: Told
) -> Told:
    """Take the keys of ``job`` through the instants of ``clock``; what is told comes back, the rest is in the tables."""
    feed.at[LOG_END] = 0
    for g in range(len(job.key)):
        key = job.key[g]
        begin(feed, job, g)
        at = clock.since
        while at < clock.until:
            event = min(next_event(feed, clock), clock.until)
            if progress.keys[key, MOVING] == 0 and at < event and still(queries, progress, key, event):
                at = event
                continue
            valid = horizon(queries, objects, marks, progress, clock, key, at)
            until = min(clock.until, valid)
            until = run_events(feed, objects, progress, clock, key, until, MOST)
            time = Stretch(at, until, job.row[g], until if until < clock.until else max(until, min(valid, until + clock.window)))
            for q in range(len(queries.k)):
                told = sweep(told, queries, q, key, watch, feed, objects, marks, progress, time)
            at = until
    return told
