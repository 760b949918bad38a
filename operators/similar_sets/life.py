"""When a pair is in a query's result: from its newer object's arrival until the older one leaves the query's window.

Both instants are known from the pair alone, but for a count window's end, which is an arrival still to come. So the changes of a stretch
of time are read off a table of pairs, without replaying anything. With boundaries, both instants move up to the next one (docs/semantics
3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.pair_rows.windows import Windows
from skyband.operators.windows import UNBOUNDED

NOT_IN: int = -(2**62)
"""The end of a pair's time in a query that it is never in."""


class Alive(NamedTuple):
    """Pairs that are in a result or will have to leave one. All of shape (pairs,), but for ``end``."""

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
    """int64 (pairs, queries): when the pair leaves the query's window; ``NEVER`` while that is not known, ``NOT_IN`` if it never is in."""


class Lives(NamedTuple):
    """The queries, as arrays (queries,). The last one stands for the state itself: the largest window, and nothing is told."""

    window_count: I64
    """int64: objects of the window, or ``UNBOUNDED``."""
    window_micros: I64
    """int64: microseconds of the window, or ``UNBOUNDED``."""
    worst: F64
    """float64: the largest internal score."""
    every: I64
    """int64: microseconds between boundaries, or 0."""


def no_pairs(queries: int) -> Alive:
    """None."""
    none = np.empty(0, np.int64)
    return Alive(none, none, none, np.empty(0), none, none, np.empty((0, queries), np.int64))


def born(key: I64, older: I64, newer: I64, score: F64, windows: Windows, lives: Lives) -> Alive:
    """Pairs just found, with what is known of their ends."""
    newer_time, older_time = windows.times(key, newer >> 1), windows.times(key, older)
    end = np.empty((len(key), len(lives.window_count)), np.int64)
    for q, (count, micros, worst) in enumerate(
        zip(lives.window_count.tolist(), lives.window_micros.tolist(), lives.worst.tolist(), strict=True)
    ):
        by_time = older_time + micros if micros < UNBOUNDED else np.full(len(key), NEVER)
        good = (score <= worst) & ((newer >> 1) - older < count) & (newer_time < by_time)
        end[:, q] = np.where(good, by_time, NOT_IN)
    return Alive(key, older, newer, score, newer_time, older_time, end)


def push_out(pairs: Alive, keys: I64, first_new: I64, windows: Windows, lives: Lives, next_seq: I64) -> None:
    """Note the ends by count that the arrivals of ``keys``, from seq ``first_new`` on, have brought; ``next_seq`` of all keys."""
    since = np.full(len(next_seq), NEVER)
    since[keys] = first_new
    for q in np.flatnonzero(lives.window_count < UNBOUNDED).tolist():
        pusher = pairs.older + lives.window_count[q]
        out = np.flatnonzero((pusher >= since[pairs.key]) & (pusher < next_seq[pairs.key]) & (pairs.end[:, q] != NOT_IN))
        pairs.end[out, q] = np.minimum(pairs.end[out, q], windows.times(pairs.key[out], pusher[out]))


def boundary(instant: I64, every: int) -> I64:
    """The first boundary at ``instant`` or later; of ``NEVER`` and ``NOT_IN``, themselves."""
    fixed = (instant == NEVER) | (instant == NOT_IN)
    rounded: I64 = np.where(fixed, instant, -(-np.where(fixed, 0, instant) // every) * every)
    return rounded


def told(pairs: Alive, lives: Lives, q: int) -> tuple[I64, I64, AnyArray]:
    """When query q tells of every pair's coming and of its going, and whether it does at all (pairs,)."""
    came, end = pairs.newer_time, pairs.end[:, q]
    shows: AnyArray = end != NOT_IN  # it may come and go within one instant
    if lives.every[q] > 0:
        came, end = boundary(came, int(lives.every[q])), boundary(end, int(lives.every[q]))
        shows = came < end
    return came, end, shows


def left(pairs: Alive, lives: Lives, until: int) -> AnyArray:
    """Which pairs (pairs,) something is still to be told of at ``until`` or later, or are in the state's window."""
    keep = np.zeros(len(pairs.key), bool)
    for q in range(len(lives.window_count)):
        _, end, shows = told(pairs, lives, q)
        keep |= shows & (end >= until)
    return keep


def wake(pairs: Alive, lives: Lives, until: int) -> int:
    """The next instant from ``until`` on at which something is told without an arrival, or ``NEVER``."""
    least = NEVER
    for q in range(len(lives.window_count) - 1):
        came, end, shows = told(pairs, lives, q)
        for instant in (came, end):
            later = instant[shows & (instant >= until)]
            least = min(least, int(later.min(initial=NEVER)))
    return least
