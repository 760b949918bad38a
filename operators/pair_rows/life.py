"""When a pair is in a query's result: from its newer object's arrival until the older one leaves the query's window.

Both instants are known from the pair alone, except the end in a count window, which is a later arrival. So the changes of a time range are
read from a table of pairs, without a replay. With boundaries, both instants move up to the next boundary (docs/semantics 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.pair_rows.deletions import Deletions
from skyband.operators.pair_rows.windows import Windows
from skyband.operators.windows import UNBOUNDED

NOT_IN: int = -(2**62)
"""The end of a pair in a query whose result never contains it."""


class Alive(NamedTuple):
    """Pairs that are in a result or still have to leave one. All of shape (pairs,), except ``end``."""

    key: I64
    """int64."""
    older: I64
    """int64: seq."""
    newer: I64
    """int64: twice the newer seq, plus 1 if that one is the pair's ``a``."""
    score: F64
    """float64: internal."""
    newer_time: I64
    """int64: time of the newer object."""
    older_time: I64
    """int64: time of the older object."""
    end: I64
    """int64 (pairs, queries): when the pair leaves the query's window, or is deleted; ``NEVER`` while unknown, ``NOT_IN`` if never in the
    result."""
    deleted: I64
    """int64 (pairs, 1): when one of its objects was deleted, or ``NEVER``; (pairs, 0) if nothing can be deleted."""


class Lives(NamedTuple):
    """The queries as arrays (queries,). The last one is the state itself: the largest window, without changes."""

    window_count: I64
    """int64: objects of the window, or ``UNBOUNDED``."""
    window_micros: I64
    """int64: microseconds of the window, or ``UNBOUNDED``."""
    worst: F64
    """float64: the largest internal score."""
    every: I64
    """int64: microseconds between boundaries, or 0."""


def no_pairs(queries: int, deletes: bool) -> Alive:
    """Return a table without pairs."""
    none = np.empty(0, np.int64)
    return Alive(none, none, none, np.empty(0), none, none, np.empty((0, queries), np.int64), np.empty((0, int(deletes)), np.int64))


def new_pairs(key: I64, older: I64, newer: I64, score: F64, windows: Windows, lives: Lives) -> Alive:
    """Return a table of pairs just found, with the ends that are known. Deletions are not known yet."""
    newer_time, older_time = windows.times(key, newer >> 1), windows.times(key, older)
    end = np.empty((len(key), len(lives.window_count)), np.int64)
    for q, (count, micros, worst) in enumerate(
        zip(lives.window_count.tolist(), lives.window_micros.tolist(), lives.worst.tolist(), strict=True)
    ):
        by_time = older_time + micros if micros < UNBOUNDED else np.full(len(key), NEVER)
        good = (score <= worst) & ((newer >> 1) - older < count) & (newer_time < by_time)
        end[:, q] = np.where(good, by_time, NOT_IN)
    deleted = np.full((len(key), int(windows.until_row >= 0)), NEVER)
    return Alive(key, older, newer, score, newer_time, older_time, end, deleted)


def set_count_ends(pairs: Alive, keys: I64, first_new: I64, windows: Windows, lives: Lives, next_seq: I64) -> None:
    """Set the ends in count windows caused by the arrivals of ``keys`` from seq ``first_new`` on; ``next_seq`` is of all keys."""
    since = np.full(len(next_seq), NEVER)
    since[keys] = first_new
    for q in np.flatnonzero(lives.window_count < UNBOUNDED).tolist():
        pusher = pairs.older + lives.window_count[q]
        out = np.flatnonzero((pusher >= since[pairs.key]) & (pusher < next_seq[pairs.key]) & (pairs.end[:, q] != NOT_IN))
        pairs.end[out, q] = np.minimum(pairs.end[out, q], windows.times(pairs.key[out], pusher[out]))


def set_deleted(pairs: Alive, number: I64, deletions: Deletions) -> None:
    """Note for every pair the one of ``deletions`` that ends it, ``number`` (pairs,), or ``NEVER`` (``deletions.ending``)."""
    which = np.flatnonzero((number < NEVER) & (pairs.deleted[:, 0] == NEVER))
    at = deletions.time[number[which]]
    pairs.deleted[which, 0] = at
    ends = pairs.end[which]
    pairs.end[which] = np.where(ends == NOT_IN, NOT_IN, np.minimum(ends, at[:, None]))


def boundary(instant: I64, every: int) -> I64:
    """Return the first boundary at ``instant`` or later; ``NEVER`` and ``NOT_IN`` stay."""
    fixed = (instant == NEVER) | (instant == NOT_IN)
    rounded: I64 = np.where(fixed, instant, -(-np.where(fixed, 0, instant) // every) * every)
    return rounded


def shown_span(pairs: Alive, lives: Lives, q: int) -> tuple[I64, I64, AnyArray]:
    """Return when every pair enters and leaves the result of query q, and whether it is ever shown; (pairs,) each."""
    entry, end = pairs.newer_time, pairs.end[:, q]
    shown: AnyArray = end != NOT_IN  # it may enter and leave within one instant
    if lives.every[q] > 0:
        entry, end = boundary(entry, int(lives.every[q])), boundary(end, int(lives.every[q]))
        shown = entry < end
    return entry, end, shown


def still_needed(pairs: Alive, lives: Lives, until: int) -> AnyArray:
    """Return a mask of the pairs in the state's window or with a change at ``until`` or later."""
    keep = np.zeros(len(pairs.key), bool)
    for q in range(len(lives.window_count)):
        _, end, shown = shown_span(pairs, lives, q)
        keep |= shown & (end >= until)
    return keep


def wake(pairs: Alive, lives: Lives, until: int) -> int:
    """Return the next instant from ``until`` on with a change that needs no arrival, or ``NEVER``."""
    least = NEVER
    for q in range(len(lives.window_count) - 1):
        entry, end, shown = shown_span(pairs, lives, q)
        for instant in (entry, end):
            later = instant[shown & (instant >= until)]
            least = min(least, int(later.min(initial=NEVER)))
    return least
