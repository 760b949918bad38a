"""The tables of a replay of one query over one key's part of a block."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner
from skyband.operators.single_rows.kernels.net_change import AppliedEvent
from skyband.operators.single_rows.kernels.ranked_list import RankedList


class Query(NamedTuple):
    """One query: its number, ``k``, window (``count`` and ``micros``, each ``UNBOUNDED`` for none), boundaries ``every`` so many
    microseconds (0: after every event), and the first of its ``k`` columns in ``Records`` if it has boundaries."""

    number: int
    k: int
    count: int  # type: ignore[assignment]  # a window's count, not the tuple's method
    micros: int
    every: int
    column: int


class Span(NamedTuple):
    """One key's part of a block: rows [``begin``, ``end``), the first with seq ``first_seq``; deletions before ``deletions_end``.

    The replay applies events at instants before ``until``. Without ``timed`` (no time window, no boundaries, no deletions of this key)
    the list has no times, and a change's ``at`` is the number of its row, which ``stamp`` replaces.
    """

    key: int
    begin: int
    end: int
    first_seq: int
    deletions_end: int
    until: int
    timed: bool


class Candidates(NamedTuple):
    """Room for the rows of a block that reach a query's cutoff, in order; how many there are is counted by its user.

    ``row`` int64 (room,), ``score`` float64 (room,).
    """

    row: I64
    score: F64


class Records(NamedTuple):
    """What every query has reported of every key, kept between blocks besides the lists.

    int64 (queries, keys): ``step`` the number of changes so far, ``wake`` the next instant something happens without an arrival, ``due``
    the next boundary with changes to report (both ``NEVER`` if none), ``shown`` how many members the last boundary showed.

    (keys, columns of the queries with boundaries): ``shown_score`` float64; ``shown_seq``, ``shown_time``, ``shown_deleted`` int64,
    as in ``Shown``.
    """

    step: I64
    wake: I64
    due: I64
    shown: I64
    shown_score: F64
    shown_seq: I64
    shown_time: I64
    shown_deleted: I64


class Progress(NamedTuple):
    """The progress of a replay, and the state of its list; kernels write both in place.

    ``places`` int64 (``PLACES``,), see the constants below; ``cutoff`` float64 (2,): the cutoff's score, and a score that a replay of
    its own may keep there.
    """

    places: I64
    cutoff: F64


class Moment(NamedTuple):
    """The next event: the first ``row`` of the block that is not before it, its instant, and its ``kind``."""

    row: int
    at: int
    kind: int


# Places of ``Progress.places``.
ROW, DELETION, NEXT, OUT = range(4)
"""The next row of the block, the next deletion, the next candidate, the next change to write."""

SIZE, LIMIT, BASE, CUT, FULL, VISITS = range(4, 10)
"""The list's members, how many it is filled with, the least it is filled with, the seq of its cutoff, 1 if it holds all there is, and the
events visited since it was filled."""

PENDING, SEEN, AT, BEFORE, LEFT, PLACE, CAUSE = range(10, 17)
"""1 if an event was stopped in its middle; then its row, its instant, how many were shown before it, how many of them left and why
(``CAUSE``), and the arrival's place in the list or -1."""

KNOWN, AHEAD, FOUND, REFILLS = range(17, 21)
"""For drivers that seek candidates piece by piece: the row up to which they are known, how many rows to look at next, how many candidates
are known; and how often a list was filled again."""

PLACES = 21

# Why a replay stopped (``ROOM`` and those after it concern drivers only).
DONE, REFILL, ROWS, ROOM, WIDER, START = range(6)


@inner
def suspend(places: I64, pending: bool, applied: AppliedEvent) -> None:
    """Note the event applied last, and whether it waits for a refill."""
    places[PENDING], places[SEEN], places[AT] = 1 if pending else 0, applied.row, applied.at
    places[BEFORE], places[LEFT], places[CAUSE], places[PLACE] = applied.shown, applied.left, applied.cause, applied.place


@inner
def resume(places: I64) -> AppliedEvent:
    """Return the event that ``suspend`` noted."""
    return AppliedEvent(places[SEEN], places[AT], places[BEFORE], places[LEFT], places[CAUSE], places[PLACE])


@inner
def set_cutoff(progress: Progress, ranked: RankedList, full: bool, floor: float) -> None:
    """Set the cutoff below the list's last member, or as low as ``floor`` if the list holds all there is."""
    places, cutoff = progress.places, progress.cutoff
    last = places[SIZE] - 1
    if full:
        cutoff[0], places[CUT], places[FULL] = floor, -1, 1
    else:
        cutoff[0], places[CUT], places[FULL] = ranked.score[last], ranked.seq[last], 0


@inner
def next_list_size(size: int, most: int, visits: int, cost: int) -> int:
    """Return the next list size, when a refill costs as much as ``cost`` list visits and ``visits`` were made since the last one: longer
    lists, fewer refills."""
    return max(size, min(2 * size, most)) if cost > visits else size
