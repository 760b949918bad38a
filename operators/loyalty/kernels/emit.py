"""Emit changes of results and points of trajectories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, CROSSING, DISPLACED, EXPIRY, I64, PROMOTED
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.loyalty.kernels.heaps import ENTERED, OBJECT, RANK, STATUS, WORD, Watch
from skyband.operators.loyalty.kernels.tables import EMITTED, IN, ROW_END, STEP, Feed, Objects, Progress, loyalty, slope

CHANGE_COLUMNS = 10
"""Query, key, at, step, pos, sign, cause, number, loyalty, slope."""
POINT_COLUMNS = 7
"""Query, key, at, number, loyalty, slope, rank."""

GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)
"""Shell sort's, by Ciura."""


class Output(NamedTuple):
    """The ``changes`` and ``points`` emitted so far, int64 (room, columns), and how many of each: ``counts`` (2,)."""

    changes: I64
    points: I64
    counts: I64


class Emission(NamedTuple):
    """The result that changes, and when. ``updated``: something of the key was updated then; ``boundary``: it is a boundary."""

    query: int
    key: int
    at: int
    updated: bool
    boundary: bool


@maker
def enlarged(rows: I64, count: int, extra: int) -> I64:
    """Return an array with the first ``count`` rows and room for ``extra`` more: ``rows`` itself if that has room."""
    if count + extra <= len(rows):
        return rows
    larger = np.empty((2 * (len(rows) + extra), rows.shape[1]), np.int64)
    for row in range(count):
        for column in range(rows.shape[1]):
            larger[row, column] = rows[row, column]
    return larger


@maker
def ensure_capacity(output: Output, changes: int, points: int) -> Output:
    """Return the output with room for so many more changes and points."""
    return Output(enlarged(output.changes, output.counts[0], changes), enlarged(output.points, output.counts[1], points), output.counts)


@inner
def emit_point(output: Output, objects: Objects, query: int, key: int, at: int, obj: int, word: int) -> None:
    """Write a point of object ``obj``, whose line is ``word``; there must be room. Points of one instant are sorted by name."""
    points, rank = output.points, objects.rank[obj]
    row = output.counts[1]
    output.counts[1] = row + 1
    while row > 0 and points[row - 1, 6] > rank and points[row - 1, 2] == at and points[row - 1, 1] == key and points[row - 1, 0] == query:
        for column in range(POINT_COLUMNS):
            points[row, column] = points[row - 1, column]
        row -= 1
    point = points[row]
    point[0], point[1] = query, key
    point[2], point[3] = at, objects.number[obj]
    point[4], point[5] = loyalty(word, at), slope(word)
    point[6] = rank


@inner
def precedes(cells: I64, first: int, second: int, at: int) -> bool:
    """Return True if a watched object comes before another in the rank order at an instant."""
    first_loyalty, second_loyalty = loyalty(cells[first, WORD], at), loyalty(cells[second, WORD], at)
    if first_loyalty != second_loyalty:
        return first_loyalty > second_loyalty
    first_slope, second_slope = slope(cells[first, WORD]), slope(cells[second, WORD])
    if first_slope != second_slope:
        return first_slope > second_slope
    return bool(cells[first, RANK] < cells[second, RANK])


@inner
def emitted_before(cells: I64, where: I64, first: int, second: int, at: int) -> bool:
    """Return True if the change of ``first`` is emitted before that of ``second``: objects that leave come first, then by rank."""
    first_mark, second_mark = where[cells[first, OBJECT]], where[cells[second, OBJECT]]
    return bool(second_mark & IN) if (first_mark ^ second_mark) & IN else precedes(cells, first, second, at)


@inner
def sort_pending(watch: Watch, where: I64, count: int, at: int) -> None:
    """Sort the first ``count`` pending objects into the order in which they are emitted."""
    pending = watch.pending
    for gap in GAPS:
        if gap >= count:
            continue
        for i in range(gap + 1, count + 1):
            cell = pending[i]
            j = i
            while j > gap and emitted_before(watch.cells, where, cell, pending[j - gap], at):
                pending[j] = pending[j - gap]
                j -= gap
            pending[j] = cell


@inner
def first_at(time: I64, low: int, high: int, at: int) -> int:
    """Return the first place in the ascending time[low:high] that is ``at`` or later. O(log)."""
    while low < high:
        middle = (low + high) >> 1
        if time[middle] < at:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def mark_reports(feed: Feed, objects: Objects, row: int, at: int, mark: int) -> None:
    """Write ``mark`` into ``Objects.bend`` of all objects that report at an instant; ``row`` is the key's first row."""
    index = first_at(feed.rows.time, row, feed.cursors[ROW_END], at)
    while index < feed.cursors[ROW_END] and feed.rows.time[index] == at:
        if feed.rows.on[index] < 2:  # a deletion is no report
            objects.bend[feed.rows.object[index]] = mark
        index += 1


REPORTED = -2
"""``Objects.bend`` of an object that has reported at the instant of an emission."""


@inner
def cause_of(objects: Objects, emission: Emission, sign: int, obj: int, word: int) -> int:
    """Return why ``obj`` enters or leaves the result; its ``bend`` is ``REPORTED`` if it has reported at this instant."""
    if sign < 0:
        if loyalty(word, emission.at) <= 0 and slope(word) <= 0:
            return EXPIRY
        return DISPLACED if emission.updated or emission.boundary else CROSSING
    if emission.boundary:
        return BOUNDARY
    if objects.bend[obj] == REPORTED:
        return ARRIVAL
    return PROMOTED if emission.updated else CROSSING


@inner_inlined
def write_changes(
    output: Output, watch: Watch, objects: Objects, where: I64, progress: Progress, emission: Emission, count: int, trace: bool
) -> None:
    """Write the first ``count`` pending objects, which have changed sides and are sorted; with ``trace`` also points of entering ones."""
    step = progress.queries[emission.query, emission.key, STEP] + 1
    progress.queries[emission.query, emission.key, STEP] = step
    for i in range(count):
        cell = watch.pending[i + 1]
        obj, word = watch.cells[cell, OBJECT], watch.cells[cell, WORD]
        sign = 1 if where[obj] & IN else -1
        row = output.changes[output.counts[0]]
        row[0], row[1], row[2] = emission.query, emission.key, emission.at
        row[3], row[4], row[5] = step, i, sign
        row[6], row[7] = cause_of(objects, emission, sign, obj, word), objects.number[obj]
        row[8], row[9] = loyalty(word, emission.at), slope(word)
        output.counts[0] += 1
        where[obj] ^= EMITTED
        if sign > 0:
            watch.cells[cell, ENTERED] = emission.at
            if trace:
                emit_point(output, objects, emission.query, emission.key, emission.at, obj, word)


@inner_inlined
def emit(
    output: Output, watch: Watch, objects: Objects, where: I64, progress: Progress, feed: Feed, emission: Emission, row: int, trace: bool
) -> None:
    """Emit the differences from the result emitted last; there must be room. O(pending log pending)."""
    count, entering = 0, 0
    for i in range(1, watch.pending[0] + 1):
        cell = watch.pending[i]
        watch.cells[cell, STATUS] = 0
        mark = where[watch.cells[cell, OBJECT]]
        if ((mark >> 1) ^ mark) & 1:
            count += 1
            watch.pending[count] = cell
            entering += mark & 1
    watch.pending[0] = 0
    if count == 0:
        return
    if count > 1:
        sort_pending(watch, where, count, emission.at)
    reports_matter = entering > 0 and not emission.boundary
    if reports_matter:
        mark_reports(feed, objects, row, emission.at, REPORTED)
    write_changes(output, watch, objects, where, progress, emission, count, trace)
    if reports_matter:
        mark_reports(feed, objects, row, emission.at, -1)


@inner
def lacks_capacity(output: Output, changes: int, points: int) -> bool:
    """Return True if there is no room for so many more changes and points."""
    return bool(output.counts[0] + changes > len(output.changes) or output.counts[1] + points > len(output.points))
