"""The arrays of the loyalty kernels: objects, keys, queries, and the events of one call.

The line of an object is L(t) = c + s * t, with s = on now - on T ago. Both and the two states are one int64, its *word*.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import I64, AnyArray
from skyband.operators.jit import inner

IN, EMITTED, PLACE = 1, 2, 2
"""``Marks.where``: bits of an object that is in the result now, and in the one emitted last; the rest, shifted by ``PLACE``, is 1 + its
place among those watched in the current sweep, 0 if it is not watched."""

STEP, NEXT, HORIZON, LOW, SPAN, MEMBERS, WATCHED, SINCE, EVENTS = range(9)
"""``Progress.queries``: the last step; the next instant at which something may change without an event; from when on the list of watched
objects does not hold any more; a newcomer is watched if this is not above 0; how long the list holds when it is made; objects in the
result; the first of the watched objects or -1; when the list was made, and how many events the key had had by then."""
PROGRESS = 9

HEAD, OBJECTS, MOVING, SEEN = range(4)
"""``Progress.keys``: the key's first object or -1; how many it has; how many have a slope other than 0; bends so far."""
KEY_COLUMNS = 4

FAR: int = 2**62
"""Beyond all loyalties and instants."""


class Objects(NamedTuple):
    """Per object (room,), int64: its ``word``; the instant of its last usable ``report``; its ``bend`` in the events of this call, or a
    bend of an earlier one; its ``rank`` by name; the host's ``number``; its ``key`` and the ``next`` object of that key, or -1."""

    word: I64
    report: I64
    bend: I64
    rank: I64
    number: I64
    key: I64
    next: I64


class Marks(NamedTuple):
    """Per query and object, int32 (queries, room): ``where`` it stands, and the ``next`` watched object."""

    where: AnyArray
    next: AnyArray


class Progress(NamedTuple):
    """int64 (keys, ``KEY_COLUMNS``) ``keys`` and (queries, keys, ``PROGRESS``) ``queries``."""

    keys: I64
    queries: AnyArray


class Queries(NamedTuple):
    """Per query, int64: ``k`` or 0, ``at_least`` or 0, ``every`` or 0, ``trace_all``."""

    k: I64
    at_least: I64
    every: I64
    trace_all: I64


class Tables(NamedTuple):
    """The state of a bucket that all kernels of a sweep use."""

    queries: Queries
    objects: Objects
    marks: Marks
    progress: Progress


class Rows(NamedTuple):
    """The usable reports of one call by key and time: ``time``, ``object`` (its place), ``on`` (0 or 1; 2 for the deletion of the valid
    report, which switches the object off)."""

    time: I64
    object: I64
    on: I64


class Past(NamedTuple):
    """The events that come back later, by key and time: switches (echoes after T), or reports (stale after a while)."""

    time: I64
    object: I64


class Bends(NamedTuple):
    """Lines that change, in time order: ``time``, ``object``, its word ``before`` and ``after``."""

    time: I64
    object: I64
    before: I64
    after: I64


class Instants(NamedTuple):
    """``time``: the instants at which an object was switched or a switch came back."""

    time: I64


class Feed(NamedTuple):
    """The events of one call: ``rows``, switches due to come back (``echoes``), reports that may be ``stale``; new switches go to ``log``.

    ``cursors`` int64: the positions below, of the key at work.
    """

    rows: Rows
    echoes: Past
    stale: Past
    log: Past
    bends: Bends
    instants: Instants
    cursors: I64


ROW, ROW_END, ECHO, ECHO_END, LOG, LOG_END, STALE, STALE_END, OWN, BENDS, INSTANTS = range(11)
"""``Feed.cursors``: the next row, echo, new switch to come back, report and row that may be stale, with their ends; then how many bends and
instants there are."""
CURSORS = 11


class Job(NamedTuple):
    """The keys to look at, int64 (keys,) each: ``key``, and the begin and end of its rows, echoes and stale reports."""

    key: I64
    row: I64
    row_end: I64
    echo: I64
    echo_end: I64
    stale: I64
    stale_end: I64


class Clock(NamedTuple):
    """``window`` T, ``stale_after`` or 0, and the instants of this call: from ``since`` up to ``until``. Keys with ``few`` objects at most
    watch all of them, for ever. ``alone``: how many objects there are, if all are of one key, or 0. ``held``: 1 if reports may carry held
    switches, whose instants are not recorded as updates. ``moved``: 1 if lines have just been moved by held switches."""

    window: int
    stale_after: int
    since: int
    until: int
    few: int
    alone: int
    held: int
    moved: int


@inner
def slope(word: int) -> int:
    """Return the slope of a line: -1, 0 or 1."""
    return (word & 1) - ((word >> 1) & 1)


@inner
def loyalty(word: int, at: int) -> int:
    """Return the loyalty L(at) of a line."""
    return (word >> 2) + slope(word) * at


@inner
def turned_word(word: int, on: int, old: int, at: int) -> int:
    """Return the word of the same object at the instant ``at``, on or off now and T ago."""
    return (((word >> 2) + (slope(word) - on + old) * at) << 2) | (old << 1) | on
