"""Sorted candidate lists: the building blocks of the top-k kernels.

Rank order: larger score first, then larger seq. Scores are internal: larger is better (a ``min`` score comes negated), NaN is
"no candidate". Every loop has a NumPy twin with equal results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, inner, jit
from skyband.operators.single_rows.kernels.arrays import shift
from skyband.operators.windows import UNBOUNDED


class RankedList(NamedTuple):
    """Room for a query's list in rank order, and for those that leave it; how many places are in use is counted by its user.

    ``score`` float64 (room,), ``seq`` int64 (room,), ``time`` int64 (room,): the members. ``left_score`` float64, ``left_seq`` int64
    (at least k,): members of the first k that one event takes away, in rank order.
    """

    score: F64
    seq: I64
    time: I64
    left_score: F64
    left_seq: I64


@inner
def place_of(scores: AnyArray, size: int, score: float) -> int:
    """Return where an arrival (newest of all) of ``score`` goes in a list of ``size``: before the first score <= it. O(log size)."""
    lo, hi = 0, size
    while lo < hi:
        mid = (lo + hi) >> 1
        if scores[mid] > score:
            lo = mid + 1
        else:
            hi = mid
    return lo


def _oldest_np(seqs: AnyArray, size: int) -> int:
    return int(np.argmin(seqs[:size])) if size else -1


@inner
def _oldest_nb(seqs: AnyArray, size: int) -> int:
    if size == 0:
        return -1
    least: Any = np.int64(NEVER)
    for i in range(size):
        least = min(least, seqs[i])
    place: Any = np.int64(0)
    for i in range(size):
        place += np.int64(i) * np.int64(seqs[i] == least)
    return int(place)


oldest = _oldest_nb if HAVE_NUMBA else _oldest_np
"""Place of the smallest seq (no two are equal) of the first ``size``, or -1 in an empty list. O(size), without a branch."""


# Insert members into a query's list, and remove them. ``timed``: whether the list's times are kept (see ``Span``).


ALWAYS = -(2**63)
"""A time nothing is older than."""

FAR_PAST = -(2**62)
FAR_FUTURE = 2**62


@jit
def alive_from(instant: int, micros: int) -> int:
    """Return the smallest time of an object alive at ``instant`` in a time window of ``micros`` (``UNBOUNDED``: no time window)."""
    if micros >= UNBOUNDED or instant < FAR_PAST + micros:
        return ALWAYS
    return instant - micros + 1


SHORT = 256
"""Lists up to this size are counted through instead of searched."""


class Alive(NamedTuple):
    """The bounds of the alive members: seq >= ``seq`` and, in a list with times, of time >= ``time``."""

    seq: int
    time: int


class Departure(NamedTuple):
    """The result of removing members: the list's ``size``, how many of the first k ``left``, and the place of the ``oldest`` of the
    first k now (-1: none)."""

    size: int
    left: int
    oldest: int


@inner
def purge(ranked: RankedList, size: int, k: int, alive: Alive) -> tuple[int, int]:
    """Remove expired members; those of the first ``k`` go to the ``left`` columns. Return the new size and how many were. O(size).

    Without times in the list ``alive.time`` must be ``ALWAYS``.
    """
    score, seq, time = ranked.score, ranked.seq, ranked.time
    kept, left = 0, 0
    for i in range(size):
        if seq[i] < alive.seq or time[i] < alive.time:
            if i < k:
                ranked.left_score[left], ranked.left_seq[left] = score[i], seq[i]
                left += 1
        else:
            if kept < i:
                score[kept], seq[kept], time[kept] = score[i], seq[i], time[i]
            kept += 1
    return kept, left


@inner
def place_for(ranked: RankedList, size: int, score: float) -> int:
    """Return ``place_of``, in a short list by counting: a mispredicted branch costs as much as thirty compares."""
    scores = ranked.score
    if size > SHORT:
        return int(place_of(scores, size, score))
    place: Any = np.int64(0)
    for i in range(size):
        place += np.int64(scores[i] > score)
    return int(place)


@inner
def remove(ranked: RankedList, size: int, begin: int, end: int, timed: bool) -> int:
    """Close places [begin, end) of a list of ``size``; returns what is left."""
    if end > begin:
        shift(ranked.score, end, size, begin - end)
        shift(ranked.seq, end, size, begin - end)
        if timed:
            shift(ranked.time, end, size, begin - end)
    return size - (end - begin)


@inner
def insert(ranked: RankedList, size: int, place: int, score: float, seq: int, time: int, timed: bool) -> None:
    """Open a place of a list of ``size`` and put (score, seq, time) there."""
    shift(ranked.score, place, size, 1)
    shift(ranked.seq, place, size, 1)
    ranked.score[place], ranked.seq[place] = score, seq
    if timed:
        shift(ranked.time, place, size, 1)
        ranked.time[place] = time


@inner
def without_dead(ranked: RankedList, size: int, place: int, alive: Alive, timed: bool) -> int:
    """Remove the expired members in a row from ``place`` on; return the new size."""
    end = place
    while end < size and (ranked.seq[end] < alive.seq or (timed and ranked.time[end] < alive.time)):
        end += 1
    return int(remove(ranked, size, place, end, timed))


@inner
def expire(ranked: RankedList, size: int, k: int, first: int, alive: Alive, timed: bool) -> Departure:
    """Remove the expired members of the first ``k``, the oldest of which is at ``first``, and expired members that would follow them."""
    seqs = ranked.seq
    score, seq = ranked.score[first], seqs[first]
    time = ranked.time[first] if timed else 0
    kept = min(k, size) - 1
    size = remove(ranked, size, first, first + 1, timed)
    next_oldest = oldest(seqs, kept)
    if next_oldest >= 0 and (seqs[next_oldest] < alive.seq or (timed and ranked.time[next_oldest] < alive.time)):
        insert(ranked, size, first, score, seq, time, timed)  # several expire at once: the general way
        size, left = purge(ranked, size + 1, k, alive)
        return Departure(size, left, int(oldest(seqs, min(k, size))))
    ranked.left_score[0], ranked.left_seq[0] = score, seq
    size = without_dead(ranked, size, kept, alive, timed)
    if kept < size and (next_oldest < 0 or seqs[kept] < seqs[next_oldest]):
        next_oldest = kept
    return Departure(size, 1, next_oldest)


@inner
def delete(ranked: RankedList, size: int, k: int, first: int, seq: int, alive: Alive, timed: bool) -> Departure:
    """Remove the member of ``seq``, if there is one, and expired members that would move up into the first ``k``. ``first``: as in
    ``expire``. O(size)."""
    place = 0
    while place < size and ranked.seq[place] != seq:
        place += 1
    if place == size:
        return Departure(size, 0, first)
    shown = min(k, size)
    left = 0
    if place < k:
        ranked.left_score[0], ranked.left_seq[0] = ranked.score[place], seq
        left = 1
    size = remove(ranked, size, place, place + 1, timed)
    if place < k:
        size = without_dead(ranked, size, shown - 1, alive, timed)
        first = int(oldest(ranked.seq, min(k, size)))
    return Departure(size, left, first)
