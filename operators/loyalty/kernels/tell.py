"""Telling changes and points of trajectories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, CROSSING, DISPLACED, EXPIRY, I64, PROMOTED
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.loyalty.kernels.heaps import ENTERED, NOTED, OBJECT, RANK, WORD, Watch
from skyband.operators.loyalty.kernels.tables import IN, ROW_END, STEP, TOLD, Feed, Objects, Progress, loyalty, slope

CHANGE_COLUMNS = 10
"""Query, key, at, step, pos, sign, cause, number, loyalty, slope."""
POINT_COLUMNS = 7
"""Query, key, at, number, loyalty, slope, rank."""

GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)
"""Shell sort's, by Ciura."""


class Told(NamedTuple):
    """``changes`` and ``points`` so far, int64 (room, columns); ``counts`` (2,) how many."""

    changes: I64
    points: I64
    counts: I64


class Moment(NamedTuple):
    """Whose result is told and when: query, key, instant; whether something of the key was ``updated`` then; whether at a ``boundary``."""

    query: int
    key: int
    at: int
    updated: bool
    boundary: bool


@maker
def roomier(told: Told, changes: int, points: int) -> Told:
    """The same with room for so many more of each."""
    c, p = told.changes, told.points
    if told.counts[0] + changes > len(c):
        more = np.empty((2 * (len(c) + changes), c.shape[1]), np.int64)
        for i in range(told.counts[0]):
            for j in range(c.shape[1]):
                more[i, j] = c[i, j]
        c = more
    if told.counts[1] + points > len(p):
        more = np.empty((2 * (len(p) + points), p.shape[1]), np.int64)
        for i in range(told.counts[1]):
            for j in range(p.shape[1]):
                more[i, j] = p[i, j]
        p = more
    return Told(c, p, told.counts)


@inner
def tell_point(told: Told, objects: Objects, query: int, key: int, at: int, o: int, word: int) -> None:
    """A point of object ``o``, whose line is ``word``; there is room. Those of one instant stand by name."""
    points, n, rank = told.points, told.counts[1], objects.rank[o]
    told.counts[1] = n + 1
    while n > 0 and points[n - 1, 6] > rank and points[n - 1, 2] == at and points[n - 1, 1] == key and points[n - 1, 0] == query:
        for c in range(POINT_COLUMNS):
            points[n, c] = points[n - 1, c]
        n -= 1
    points[n, 0], points[n, 1], points[n, 2], points[n, 3] = query, key, at, objects.number[o]
    points[n, 4], points[n, 5], points[n, 6] = loyalty(word, at), slope(word), rank


@inner
def precedes(cells: I64, a: int, b: int, at: int) -> bool:
    """Whether a watched object comes before another in the rank order at an instant."""
    la, lb = loyalty(cells[a, WORD], at), loyalty(cells[b, WORD], at)
    if la != lb:
        return la > lb
    sa, sb = slope(cells[a, WORD]), slope(cells[b, WORD])
    if sa != sb:
        return sa > sb
    return bool(cells[a, RANK] < cells[b, RANK])


@inner
def earlier(cells: I64, where: I64, x: int, y: int, at: int) -> bool:
    """Whether the change of x is told before that of y: first those that leave, then by rank."""
    a, b = where[cells[x, OBJECT]], where[cells[y, OBJECT]]
    return bool(b & IN) if (a ^ b) & IN else precedes(cells, x, y, at)


@inner
def sort_pending(w: Watch, where: I64, n: int, at: int) -> None:
    """Bring the first n pending objects into the order in which they are told."""
    pending = w.pending
    for gap in GAPS:
        if gap >= n:
            continue
        for i in range(gap + 1, n + 1):
            x = pending[i]
            j = i
            while j > gap and earlier(w.cells, where, x, pending[j - gap], at):
                pending[j] = pending[j - gap]
                j -= gap
            pending[j] = x


@inner
def first_at(time: I64, lo: int, hi: int, at: int) -> int:
    """The first place in the ascending time[lo:hi] that is ``at`` or later. O(log)."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if time[mid] < at:
            lo = mid + 1
        else:
            hi = mid
    return lo


@inner
def mark_reports(feed: Feed, objects: Objects, row: int, at: int, mark: int) -> None:
    """Write ``mark`` into ``Objects.bend`` of all that report at an instant; ``row``: the key's first row."""
    i = first_at(feed.rows.time, row, feed.at[ROW_END], at)
    while i < feed.at[ROW_END] and feed.rows.time[i] == at:
        objects.bend[feed.rows.object[i]] = mark
        i += 1


REPORTED = -2


@inner
def cause_of(objects: Objects, moment: Moment, sign: int, o: int, word: int) -> int:
    """Why o enters or leaves; its ``bend`` is ``REPORTED`` if it has reported at this instant."""
    if sign < 0:
        if loyalty(word, moment.at) <= 0 and slope(word) <= 0:
            return EXPIRY
        return DISPLACED if moment.updated or moment.boundary else CROSSING
    if moment.boundary:
        return BOUNDARY
    if objects.bend[o] == REPORTED:
        return ARRIVAL
    return PROMOTED if moment.updated else CROSSING


@inner_inlined
def write_changes(told: Told, w: Watch, objects: Objects, where: I64, progress: Progress, moment: Moment, n: int, trace: bool) -> None:
    """Tell the first n pending objects, which have changed sides and are in order; points of those that enter if ``trace``."""
    step = progress.queries[moment.query, moment.key, STEP] + 1
    progress.queries[moment.query, moment.key, STEP] = step
    for i in range(n):
        x = w.pending[i + 1]
        o, word = w.cells[x, OBJECT], w.cells[x, WORD]
        sign = 1 if where[o] & IN else -1
        row = told.changes[told.counts[0]]
        row[0], row[1], row[2], row[3], row[4], row[5] = moment.query, moment.key, moment.at, step, i, sign
        row[6], row[7] = cause_of(objects, moment, sign, o, word), objects.number[o]
        row[8], row[9] = loyalty(word, moment.at), slope(word)
        told.counts[0] += 1
        where[o] ^= TOLD
        if sign > 0:
            w.cells[x, ENTERED] = moment.at
            if trace:
                tell_point(told, objects, moment.query, moment.key, moment.at, o, word)


@inner_inlined
def tell(told: Told, w: Watch, objects: Objects, where: I64, progress: Progress, feed: Feed, moment: Moment, row: int, trace: bool) -> None:
    """Tell what differs from what was told last; there is room. O(pending log pending)."""
    n, plus = 0, 0
    for i in range(1, w.pending[0] + 1):
        x = w.pending[i]
        w.cells[x, NOTED] = 0
        mark = where[w.cells[x, OBJECT]]
        if ((mark >> 1) ^ mark) & 1:
            n += 1
            w.pending[n] = x
            plus += mark & 1
    w.pending[0] = 0
    if n == 0:
        return
    if n > 1:
        sort_pending(w, where, n, moment.at)
    ask = plus > 0 and not moment.boundary
    if ask:
        mark_reports(feed, objects, row, moment.at, REPORTED)
    write_changes(told, w, objects, where, progress, moment, n, trace)
    if ask:
        mark_reports(feed, objects, row, moment.at, -1)


@inner
def lacks_room(told: Told, changes: int, points: int) -> bool:
    """Whether there is no room for so many more."""
    return bool(told.counts[0] + changes > len(told.changes) or told.counts[1] + points > len(told.points))
