"""Top-k pairs where objects can be deleted: a reserve of the best alive pairs for every different window, the kernels and the logic.

The driver processes all events of an ``advance`` in their order, for every key and reserve: expiries, arrivals, deletions, boundaries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, NEVER, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions.compile import bound_type, count_type, score_type
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.deletions import UNTIL
from skyband.operators.pair_rows.kernels.arena import alive_from, copy_attributes, side_of
from skyband.operators.pair_rows.kernels.boundaries import mark_shown, note_due, note_wake, write_shown
from skyband.operators.pair_rows.kernels.changes import Event, difference, ensure_capacity
from skyband.operators.pair_rows.kernels.lists import copy_pairs, enter, oldest, ranks_before
from skyband.operators.pair_rows.kernels.partners import PartnerQueries
from skyband.operators.pair_rows.kernels.skyband import store
from skyband.operators.pair_rows.kernels.sub_batch import ChangeBuffer, no_changes
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_STORED,
    FOUND,
    IS_A,
    IS_B,
    IS_NEITHER,
    KEY_COLUMNS,
    NEXT_SEQ,
    REFILLS,
    REGION_START,
    SCORED,
    SKYBAND_LENGTH,
    SKYBAND_START,
    Advance,
    Bucket,
    ChangeRows,
    DeletionRows,
    History,
    Objects,
    Pairs,
    Progress,
    Queries,
    Scoring,
    Settings,
    Skyband,
    Task,
    history_of,
    new_pairs,
    part,
)
from skyband.operators.pair_rows.logic import PairRowsLogic, deletion_rows, lay_out, no_task, places_of, starts
from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch
from skyband.operators.pair_rows.search import Pairs as FoundPairs
from skyband.operators.pair_rows.search import PartnerQuery
from skyband.operators.pair_rows.windows import Marks, Windows
from skyband.operators.topk_pairs.configuration import MOST, SPARE, TopKPairsConfiguration
from skyband.operators.windows import UNBOUNDED, check_window

# The tables of reserves: the best alive pairs of a window, up to a floor, and what is known of the pairs behind it.
#
# A reserve belongs to one key and one window. It holds *every* alive pair that ranks at its floor or before. Of the other pairs each object
# knows a bound: no pair behind the floor of which it is the newer object ranks before the bound.

LENGTH, OLDEST, FIRST, FLOOR_OLDER, FLOOR_NEWER, TOUCHED, DEPTH, SHORT, FIELDS = range(9)
"""Fields of a reserve, int64 (FIELDS,): its pairs; the oldest object in them, or ``NEVER``; the first object alive in its window; the
floor's older and newer object; the first place that the present event has changed, or ``NEVER``; how many pairs its queries looked at; 1
if a query found fewer than it asks for."""


class Layout(NamedTuple):
    """What is fixed over a state's life. All int64."""

    target: int
    """The least number of pairs in a reserve that was filled again, if there are as many."""
    most: int
    """A reserve holds at most ``most`` times ``target`` pairs. When it is full, the better half stays. At least 2."""
    max_per_object: int
    """The most pairs of a result that an object may be in; 0: any number."""
    partners: int
    """The largest number of best older partners that are found for an arrival."""
    float_row: int
    """The row of ``Objects.floats`` with the score of an object's bound in the first reserve's window; the others' follow."""
    integer_row: int
    """The row of ``Objects.integers`` with the older object of a bound, or -1 if there are no more pairs; the others' follow, and then the
    number of the deletion of the object: -1 of one that was processed in a former call, ``NEVER`` without one."""
    reserves: int
    """The number of different windows."""


class Found(NamedTuple):
    """The best older partners of the arrivals, by key, arrival, reserve and rank. (n,), ``start`` (keys of the advance + 1,)."""

    start: I64
    reserve: I64
    older: I64
    newer: I64
    score: F64


class Reserves(NamedTuple):
    """All reserves: that of window w of key k is number k * windows + w.

    Their pairs are in an arena like that of skybands, each reserve in rank order; ``stair`` is not used.
    """

    regions: I64
    """int64 (reserves, KEY_COLUMNS): of the columns only those of a skyband's region are used."""
    floor_score: F64
    """float64 (reserves,): the floor's score, inf if all pairs are there."""
    floor_pair: I64
    """int64 (reserves, 2): the floor's older and newer object, -1 if all pairs are there."""
    of_query: I64
    """int64 (queries,): the window's number."""


class Reserve(NamedTuple):
    """The reserve at hand."""

    pairs: Pairs
    """Its pairs in rank order, and room."""
    fields: I64
    """int64 (FIELDS,)."""
    floor: F64
    """float64 (1,): the floor's score."""


class Rescan(NamedTuple):
    """Buffers of ``rescan``."""

    scores: F64
    """float64 (RANGE,)."""
    floats: F64
    """float64 (float attributes of the score,)."""
    integers: I64
    """int64 (its other attributes,)."""


RANGE = 1024
"""Objects that are scored together."""


@maker
def new_reserve(size: int) -> Reserve:
    """Return a reserve without pairs, with room for ``size``."""
    return Reserve(new_pairs(size), np.zeros(FIELDS, np.int64), np.empty(1, np.float64))


@maker
def with_room(reserve: Reserve, size: int) -> Reserve:
    """Return the reserve with room for ``size`` pairs."""
    old, length = reserve.pairs, reserve.fields[LENGTH]
    if size <= len(old.score):
        return reserve
    pairs = new_pairs(2 * size)
    pairs.score[:length], pairs.older[:length], pairs.newer[:length] = old.score[:length], old.older[:length], old.newer[:length]
    return Reserve(pairs, reserve.fields, reserve.floor)


# The results of the queries of one reserve, and the changes from one to the next.


class Results(NamedTuple):
    """The results of all queries for the key at hand."""

    now: Pairs
    """Side by side (``Queries.list_start``)."""
    before: Pairs
    """Those before the present event."""
    length: I64
    """int64 (queries,): pairs of each result."""
    length_before: I64
    """int64 (queries,), likewise."""
    gone: I64
    """int64 (keys, shown pairs): the ``marks`` of ``boundaries``."""


class Scene(NamedTuple):
    """The tables that the events of one key and reserve read and change."""

    scoring: Scoring
    settings: Settings
    layout: Layout
    queries: Queries
    of_query: I64
    """int64 (queries,): the reserve of each query."""
    objects: Objects
    key: int
    which: int
    """The number of the reserve's window."""
    window_count: int
    """Objects of the window, or ``UNBOUNDED``."""
    window_micros: int
    """Microseconds of the window, or ``UNBOUNDED``."""
    worst: float
    """The largest score."""
    offset: int
    """An object of seq s is at place s + offset of the arena."""
    marks_first: int
    """The object of place 0 of ``marks``."""
    marks: I64
    """int64 (objects,): zeros; (0,) without a cap per object."""
    progress: Progress
    results: Results
    buffers: Rescan
    work: I64


@maker
def no_results(queries: Queries, gone: I64) -> Results:
    """Return empty results."""
    width = queries.list_room.sum()
    n = len(queries.k)
    return Results(new_pairs(width), new_pairs(width), np.zeros(n, np.int64), np.zeros(n, np.int64), gone)


@inner
def take(reserve: Reserve, k: int, worst: float, most: int, marks: I64, first: int, best: Pairs) -> tuple[int, int]:
    """Fill ``best`` with a result; return how many it has and how many pairs were looked at.

    ``most`` > 0: passing over pairs with an object in so many taken ones; ``marks`` (objects from seq ``first`` on,) are then all 0, and
    are so again afterwards.
    """
    scores, olders, newers, taken, i = reserve.pairs.score, reserve.pairs.older, reserve.pairs.newer, 0, 0
    while i < reserve.fields[LENGTH] and taken < k and scores[i] <= worst:
        older, newer = olders[i] - first, (newers[i] >> 1) - first
        if most == 0 or (marks[older] < most and marks[newer] < most):
            best.score[taken], best.older[taken], best.newer[taken] = scores[i], olders[i], newers[i]
            taken += 1
            if most > 0:
                marks[older] += 1
                marks[newer] += 1
        i += 1
    if most > 0:
        for j in range(taken):
            marks[best.older[j] - first] = 0
            marks[(best.newer[j] >> 1) - first] = 0
    return taken, i


@inner
def take_all(scene: Scene, reserve: Reserve) -> bool:
    """Take the results of the queries of the reserve; return True if they may lack pairs behind the floor."""
    queries, results, fields, lacking = scene.queries, scene.results, reserve.fields, False
    fields[DEPTH], fields[SHORT] = 0, 0
    for query in range(len(queries.k)):
        if scene.of_query[query] != scene.which:
            continue
        start, k = queries.list_start[query], queries.k[query]
        best = part(results.now, start, k)
        most, first = scene.layout.max_per_object, scene.marks_first
        taken, looked = take(reserve, k, queries.worst[query], most, scene.marks, first, best)
        results.length[query] = taken
        fields[DEPTH] = max(fields[DEPTH], looked)
        if taken < k:
            fields[SHORT] = 1
            lacking = lacking or (looked == fields[LENGTH] and reserve.floor[0] <= queries.worst[query])
    return lacking


@inner
def keep_before(scene: Scene) -> None:
    """Copy the results of the reserve's queries to those before the event."""
    queries, results = scene.queries, scene.results
    for query in range(len(queries.k)):
        if scene.of_query[query] == scene.which:
            start, k = queries.list_start[query], queries.k[query]
            results.length_before[query] = results.length[query]
            copy_pairs(part(results.now, start, k), results.length[query], part(results.before, start, k))


@inner
def write_changes(scene: Scene, at: int, first: int, arriving: int, deleted: int, rows: ChangeRows, written: int) -> int:
    """Write the changes of the reserve's queries by an event, or note their next boundary. Return the next free row.

    ``first``: the first object alive. ``arriving``, ``deleted``: the object that arrives or is deleted, or -1.
    """
    queries, key, progress, results = scene.queries, scene.key, scene.progress, scene.results
    for query in range(len(queries.k)):
        if scene.of_query[query] != scene.which:
            continue
        start, every = queries.list_start[query], queries.every[query]
        if every > 0:
            note_due(query, key, every, at, progress)
            continue
        now, before = part(results.now, start, queries.k[query]), part(results.before, start, queries.k[query])
        event = Event(query, key, at, progress.step[query, key] + 1, first, arriving, False, deleted)
        end = difference(rows, written, event, before, results.length_before[query], now, results.length[query])
        if end > written:
            progress.step[query, key] += 1
        written = end
    return written


@inner
def mark_deleted(scene: Scene, gone: int) -> None:
    """Mark the pairs of the object ``gone`` that the reserve's queries showed at their last boundaries."""
    queries = scene.queries
    for query in range(len(queries.k)):
        if scene.of_query[query] == scene.which and queries.every[query] > 0:
            mark_shown(query, scene.key, gone, queries, scene.progress, scene.results.gone)


@inner
def write_boundary(scene: Scene, query: int, first: int, rows: ChangeRows, written: int) -> int:
    """Write the changes of a query at the boundary that is due; return the next free row. ``first``: the first object alive."""
    key, queries, progress, results = scene.key, scene.queries, scene.progress, scene.results
    event = Event(query, key, progress.due[query, key], progress.step[query, key] + 1, first, -1, True, -1)
    progress.due[query, key] = NEVER
    now = part(results.now, queries.list_start[query], queries.k[query])
    return write_shown(event, now, results.length[query], queries, progress, results.gone, rows, written)


# One reserve: pairs enter and leave, the floor falls when there are too many, and is raised when there are too few.


@inner
def has_all_pairs(reserve: Reserve) -> bool:
    """Return True if there are no pairs behind the floor."""
    return bool(reserve.fields[FLOOR_OLDER] < 0)


@inner
def above_floor(reserve: Reserve, score: float, older: int, newer: int) -> bool:
    """Return True if a pair ranks at the floor or before."""
    fields = reserve.fields
    return not ranks_before(reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER], score, older, newer)


@inner
def limit_of(layout: Layout, reserve: Reserve) -> int:
    """Return how many pairs a reserve holds at most. When it is full, half of them stay and the floor falls."""
    return int(layout.most * max(layout.target, reserve.fields[DEPTH]))


@inner
def find_oldest(reserve: Reserve) -> None:
    """Note the oldest object in the pairs. O(pairs)."""
    reserve.fields[OLDEST] = oldest(reserve.pairs.older, reserve.fields[LENGTH])


@inner
def lower_bound(objects: Objects, layout: Layout, which: int, position: int, score: float, older: int) -> None:
    """Move the bound of the object at a position forward, if needed, so that it does not rank after its pair with ``older``."""
    scores, olders = objects.floats[layout.float_row + which], objects.integers[layout.integer_row + which]
    if olders[position] < 0 or score < scores[position] or (score == scores[position] and older > olders[position]):
        scores[position], olders[position] = score, older


@inner
def drop_worst(objects: Objects, offset: int, layout: Layout, which: int, reserve: Reserve, keep: int) -> None:
    """Keep the best ``keep`` pairs; the last of them is the floor."""
    pairs, fields = reserve.pairs, reserve.fields
    for i in range(keep, fields[LENGTH]):
        lower_bound(objects, layout, which, (pairs.newer[i] >> 1) + offset, pairs.score[i], pairs.older[i])
    reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER] = pairs.score[keep - 1], pairs.older[keep - 1], pairs.newer[keep - 1]
    fields[LENGTH] = keep
    fields[TOUCHED] = min(fields[TOUCHED], keep)
    find_oldest(reserve)


@inner
def insert(reserve: Reserve, score: float, older: int, newer: int) -> None:
    """Insert a pair; there is room. O(pairs)."""
    scores, olders, newers = reserve.pairs.score, reserve.pairs.older, reserve.pairs.newer
    low, high = 0, reserve.fields[LENGTH]
    while low < high:
        middle = (low + high) >> 1
        if ranks_before(scores[middle], olders[middle], newers[middle], score, older, newer):
            low = middle + 1
        else:
            high = middle
    for i in range(reserve.fields[LENGTH], low, -1):
        scores[i], olders[i], newers[i] = scores[i - 1], olders[i - 1], newers[i - 1]
    scores[low], olders[low], newers[low] = score, older, newer
    reserve.fields[LENGTH] += 1
    reserve.fields[OLDEST] = min(reserve.fields[OLDEST], older)
    reserve.fields[TOUCHED] = min(reserve.fields[TOUCHED], low)


@inner
def take_in(
    objects: Objects, offset: int, layout: Layout, which: int, reserve: Reserve, limit: int, score: float, older: int, newer: int
) -> None:  # fmt: skip
    """Insert a new pair into the reserve, which has room for ``limit``. Behind its floor, only bound the pair's newer object."""
    if above_floor(reserve, score, older, newer):
        if reserve.fields[LENGTH] >= limit:
            drop_worst(objects, offset, layout, which, reserve, limit // 2)
        if above_floor(reserve, score, older, newer):
            insert(reserve, score, older, newer)
            return
    lower_bound(objects, layout, which, (newer >> 1) + offset, score, older)


@inner
def remove(reserve: Reserve, first: int, gone: int) -> None:
    """Remove the pairs with an object before seq ``first`` and those with the object ``gone``. O(pairs)."""
    pairs, fields, kept = reserve.pairs, reserve.fields, 0
    scores, olders, newers = pairs.score, pairs.older, pairs.newer
    for i in range(fields[LENGTH]):
        if olders[i] < first or olders[i] == gone or newers[i] >> 1 == gone:
            fields[TOUCHED] = min(fields[TOUCHED], i)
        else:
            scores[kept], olders[kept], newers[kept] = scores[i], olders[i], newers[i]
            kept += 1
    if kept < fields[LENGTH]:
        fields[LENGTH] = kept
        find_oldest(reserve)


class Rank(NamedTuple):
    """Where a pair ranks."""

    score: float
    older: int
    newer: int


@inner
def rescan(scene: Scene, done: int, x: int, after: Rank, limit: int, reserve: Reserve) -> None:
    """Score ``x`` with every older object: pairs that rank after the given one enter the reserve, or make the bound of ``x``.

    ``done``: the number of deletions that have happened.
    """
    scoring, settings, objects, offset, layout, which, buffers = (
        scene.scoring, scene.settings, scene.objects, scene.offset, scene.layout, scene.which, scene.buffers,
    )  # fmt: skip
    position = x + offset
    side, newer = side_of(settings, objects, position), 2 * x
    deletion = objects.integers[layout.integer_row + layout.reserves]
    objects.integers[layout.integer_row + which, position] = -1
    if side == IS_NEITHER:
        return
    newer += 1 if side == IS_A else 0
    floats, integers = buffers.floats, buffers.integers
    score_as_a, score_as_b = scoring.score_as_a, scoring.score_as_b
    copy_attributes(objects, position, floats, integers)
    high = x
    while high > reserve.fields[FIRST]:
        low = max(reserve.fields[FIRST], high - RANGE)
        scores = buffers.scores[: high - low]
        if side == IS_B:
            score_as_b(objects.floats, objects.integers, low + offset, high + offset, floats, integers, scoring.pool, scores)
        else:
            score_as_a(objects.floats, objects.integers, low + offset, high + offset, floats, integers, scoring.pool, scores)
        scene.work[SCORED] += high - low
        for older in range(high - 1, low - 1, -1):
            score = scores[older - low]
            alive = score <= scene.worst and deletion[older + offset] >= done
            if alive and ranks_before(after.score, after.older, after.newer, score, older, newer):
                take_in(objects, offset, layout, which, reserve, limit, score, older, newer)
        high = low


@inner
def nearest_bounds(
    objects: Objects, offset: int, layout: Layout, which: int, reserve: Reserve, done: int, arrived: int, best: Pairs
) -> int:
    """Fill ``best`` with the bounds of alive objects that rank first; return how many."""
    scores, olders = objects.floats[layout.float_row + which], objects.integers[layout.integer_row + which]
    deletion, length = objects.integers[layout.integer_row + layout.reserves], 0
    for x in range(reserve.fields[FIRST] + 1, arrived):
        if olders[x + offset] >= 0 and deletion[x + offset] >= done:
            length = enter(best, length, scores[x + offset], olders[x + offset], 2 * x)
    return length


@maker
def fill_again(scene: Scene, done: int, arrived: int, reserve: Reserve) -> Reserve:
    """Raise the floor, so that more pairs are in the reserve, if there are more; return the (perhaps new) reserve.

    If n pairs are missing, the new floor is the n-th best bound of an object. The objects with this bound or a better one are scored again,
    O(objects) for each.
    """
    objects, offset, layout, which, fields = scene.objects, scene.offset, scene.layout, scene.which, reserve.fields
    scene.work[REFILLS] += 1
    limit = max(limit_of(layout, reserve), 4 * fields[LENGTH])
    reserve = with_room(reserve, limit)
    best = new_pairs(max(1, max(layout.target, 2 * fields[LENGTH]) - fields[LENGTH]))
    found = nearest_bounds(objects, offset, layout, which, reserve, done, arrived, best)
    after = Rank(reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER])
    # The bounds of a restored state may rank before the floor: it is not lowered to one, and their objects are scored again all the same.
    if found < len(best.score):
        reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER] = np.inf, -1, -1
    elif not above_floor(reserve, best.score[-1], best.older[-1], best.newer[-1]):
        reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER] = best.score[-1], best.older[-1], best.newer[-1]
    scores, olders = objects.floats[layout.float_row + which], objects.integers[layout.integer_row + which]
    deletion = objects.integers[layout.integer_row + layout.reserves]
    for x in range(fields[FIRST] + 1, arrived):
        position = x + offset
        if olders[position] >= 0 and deletion[position] >= done and above_floor(reserve, scores[position], olders[position], 2 * x):
            rescan(scene, done, x, after, limit, reserve)
    return reserve


@inner
def move_on(scene: Scene, reserve: Reserve, arrived: int, instant: int) -> None:
    """Let the objects leave the window that have expired by time at an instant."""
    if scene.window_micros < UNBOUNDED:
        times, fields = scene.objects.times, reserve.fields
        while fields[FIRST] < arrived and times[fields[FIRST] + scene.offset] <= instant - scene.window_micros:
            fields[FIRST] += 1


@maker
def update_results(
    scene: Scene, at: int, arriving: int, deleted: int, arrived: int, done: int, reserve: Reserve, changes: ChangeBuffer
) -> tuple[Reserve, ChangeBuffer]:  # fmt: skip
    """Bring the results up to date after the event at an instant.

    ``arriving``, ``deleted``: the object that arrives or is deleted, or -1. ``arrived`` objects have come, and ``done`` deletions.
    """
    fields = reserve.fields
    if not may_change_results(reserve):
        return reserve, changes
    keep_before(scene)
    while take_all(scene, reserve) and not has_all_pairs(reserve):
        reserve = fill_again(scene, done, arrived, reserve)
    rows = ensure_capacity(changes.rows, changes.written, 2 * scene.queries.k.sum())
    written = write_changes(scene, at, fields[FIRST], arriving, deleted, rows, changes.written)
    return reserve, ChangeBuffer(rows, written)


@maker
def boundaries(scene: Scene, before: int, arrived: int, reserve: Reserve, changes: ChangeBuffer) -> ChangeBuffer:
    """Write the changes at boundaries that are due before an instant."""
    rows, written = changes.rows, changes.written
    for query in range(len(scene.queries.k)):
        if scene.of_query[query] == scene.which and scene.progress.due[query, scene.key] < before:
            move_on(scene, reserve, arrived, scene.progress.due[query, scene.key])
            rows = ensure_capacity(rows, written, 2 * scene.queries.k[query])
            written = write_boundary(scene, query, reserve.fields[FIRST], rows, written)
    return ChangeBuffer(rows, written)


@maker
def expire(scene: Scene, instant: int, arrived: int, done: int, reserve: Reserve, changes: ChangeBuffer) -> tuple[Reserve, ChangeBuffer]:
    """Process all expiries by time up to an instant, and the boundaries before it."""
    fields = reserve.fields
    while scene.window_micros < UNBOUNDED and fields[LENGTH] > 0:
        at = scene.objects.times[fields[OLDEST] + scene.offset] + scene.window_micros
        if at > instant:
            break
        changes = boundaries(scene, at, arrived, reserve, changes)
        move_on(scene, reserve, arrived, at)
        fields[TOUCHED] = NEVER
        remove(reserve, fields[FIRST], -1)
        reserve, changes = update_results(scene, at, -1, -1, arrived, done, reserve, changes)
    changes = boundaries(scene, instant, arrived, reserve, changes)
    move_on(scene, reserve, arrived, instant)
    return reserve, changes


@inner
def may_change_results(reserve: Reserve) -> bool:
    """Return True if the present event may have changed a result."""
    fields = reserve.fields
    return bool(fields[TOUCHED] < fields[DEPTH] or (fields[TOUCHED] < NEVER and fields[SHORT] > 0))


@inner
def arrive_alone(scene: Scene, seq: int, found: Found, first_row: int, end_row: int, reserve: Reserve) -> bool:
    """Process an arrival up to ``update_results`` in the usual case; return False, with nothing done, in any other.

    In the usual case no expiry by time and no boundary comes before it, the partners that were found are enough, and there is room.
    """
    fields, layout, objects, offset, which = reserve.fields, scene.layout, scene.objects, scene.offset, scene.which
    at = objects.times[seq + offset]
    if scene.window_micros < UNBOUNDED and fields[LENGTH] > 0 and objects.times[fields[OLDEST] + offset] + scene.window_micros <= at:
        return False
    for query in range(len(scene.queries.k)):
        if scene.of_query[query] == which and scene.progress.due[query, scene.key] < at:
            return False
    inside, limit = 0, limit_of(layout, reserve)
    for row in range(first_row, end_row):
        inside += above_floor(reserve, found.score[row], found.older[row], found.newer[row])
    if inside == layout.partners or (inside > 0 and len(reserve.pairs.score) <= max(limit, fields[LENGTH])):
        return False
    fields[TOUCHED] = NEVER
    fields[FIRST] = max(fields[FIRST], seq + 1 - scene.window_count)
    if fields[FIRST] > fields[OLDEST]:
        remove(reserve, fields[FIRST], -1)
    objects.integers[layout.integer_row + which, seq + offset] = -1
    for row in range(first_row, end_row):
        take_in(objects, offset, layout, which, reserve, limit, found.score[row], found.older[row], found.newer[row])
    return True


@maker
def arrive_fully(scene: Scene, seq: int, found: Found, first_row: int, end_row: int, done: int, reserve: Reserve) -> Reserve:
    """Process an arrival, whose best older partners are in the rows from ``first_row`` on, up to ``update_results``."""
    fields, layout, objects, which = reserve.fields, scene.layout, scene.objects, scene.which
    fields[TOUCHED] = NEVER
    fields[FIRST] = max(fields[FIRST], seq + 1 - scene.window_count)
    if fields[FIRST] > fields[OLDEST]:
        remove(reserve, fields[FIRST], -1)
    limit = limit_of(layout, reserve)
    reserve = with_room(reserve, max(limit, fields[LENGTH] + 1))
    objects.integers[layout.integer_row + which, seq + scene.offset] = -1
    inside = 0
    for row in range(first_row, end_row):
        inside += above_floor(reserve, found.score[row], found.older[row], found.newer[row])
        take_in(objects, scene.offset, layout, which, reserve, limit, found.score[row], found.older[row], found.newer[row])
    if inside == layout.partners:
        last = end_row - 1
        scene.work[FOUND] += 1
        rescan(scene, done, seq, Rank(found.score[last], found.older[last], found.newer[last]), limit, reserve)
    return reserve


@maker
def load(scene: Scene, reserves: Reserves, number: int, arena: Skyband, first: int, reserve: Reserve) -> Reserve:
    """Return reserve ``number`` of the arena without pairs of objects before ``first``, and take the results of its queries."""
    start, length = reserves.regions[number, SKYBAND_START], reserves.regions[number, SKYBAND_LENGTH]
    reserve = with_room(reserve, length + 1)
    fields, pairs = reserve.fields, reserve.pairs
    copy_pairs(Pairs(arena.score[start:], arena.older[start:], arena.newer[start:]), length, pairs)
    reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER] = (
        reserves.floor_score[number],
        reserves.floor_pair[number, 0],
        reserves.floor_pair[number, 1],
    )
    fields[LENGTH], fields[TOUCHED], fields[FIRST] = length, NEVER, first
    remove(reserve, first, -1)
    find_oldest(reserve)
    take_all(scene, reserve)
    return reserve


@maker
def save(reserves: Reserves, number: int, reserve: Reserve, pairs: Skyband, end: int) -> tuple[Skyband, int]:
    """Put the reserve into the arena; return the (perhaps new) arena and its end."""
    fields, length = reserve.fields, reserve.fields[LENGTH]
    reserves.floor_score[number] = reserve.floor[0]
    reserves.floor_pair[number, 0], reserves.floor_pair[number, 1] = fields[FLOOR_OLDER], fields[FLOOR_NEWER]
    mine = Skyband(reserve.pairs.score[:length], reserve.pairs.older[:length], reserve.pairs.newer[:length], reserve.pairs.score[:length])
    return store(reserves.regions, number, mine, length, pairs, end)


@inner
def note_wakes(scene: Scene, history: History) -> None:
    """Note when the result of each query of the reserve may change next without an arrival."""
    queries, results = scene.queries, scene.results
    for query in range(len(queries.k)):
        if scene.of_query[query] == scene.which:
            olders = results.now.older[queries.list_start[query] :]
            note_wake(query, scene.key, scene.window_micros, olders, results.length[query], history, scene.progress)


class Events(NamedTuple):
    """What happens in an ``advance`` beside the arrivals, and what was found of these."""

    deleted: DeletionRows
    found: Found


@maker
def replay_events(
    scene: Scene, g: int, advance: Advance, next_seq: int, events: Events, reserve: Reserve, changes: ChangeBuffer
) -> tuple[Reserve, ChangeBuffer]:  # fmt: skip
    """Process all events of the ``g``-th key of ``advance`` and a reserve."""
    deleted, found, until = events.deleted, events.found, advance.until
    seq, done, row = advance.first_new[g], deleted.start[g], found.start[g]
    while seq < next_seq or done < deleted.start[g + 1]:
        if done < deleted.start[g + 1] and deleted.before[done] <= seq:
            gone, at = deleted.seq[done], deleted.time[done]
            reserve, changes = expire(scene, at, seq, done, reserve, changes)
            done += 1
            mark_deleted(scene, gone)
            reserve.fields[TOUCHED] = NEVER
            remove(reserve, reserve.fields[FIRST], gone)
            reserve, changes = update_results(scene, at, -1, gone, seq, done, reserve, changes)
            continue
        while row < found.start[g + 1] and (found.newer[row] >> 1 < seq or found.reserve[row] < scene.which):
            row += 1
        end = row
        while end < found.start[g + 1] and found.newer[end] >> 1 == seq and found.reserve[end] == scene.which:
            end += 1
        at = scene.objects.times[seq + scene.offset]
        if not arrive_alone(scene, seq, found, row, end, reserve):
            reserve, changes = expire(scene, at, seq, done, reserve, changes)
            reserve = arrive_fully(scene, seq, found, row, end, done, reserve)
        if may_change_results(reserve):
            move_on(scene, reserve, seq + 1, at)
            reserve, changes = update_results(scene, at, seq, -1, seq + 1, done, reserve, changes)
        row = end
        seq += 1
    reserve, changes = expire(scene, until - 1, next_seq, done, reserve, changes)
    return reserve, boundaries(scene, until, next_seq, reserve, changes)


class ReserveTask(NamedTuple):
    """What the driver takes besides a task."""

    layout: Layout
    windows: PartnerQueries
    """Those of the reserves."""
    reserves: Reserves
    gone: I64
    """int64 (keys, shown pairs): as ``Results.gone``."""
    events: Events


def drive(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], task: Task, more: ReserveTask,
) -> tuple[ChangeRows, int, Skyband, int]:  # fmt: skip
    """Process all events of a task; the functions are those of ``Scoring``.

    The task's skybands are the arena of reserves. Return change rows and their number, and the (perhaps new) arena and its end. Writes to
    ``reserves``, ``progress``, ``gone``, the bounds of objects and ``work``.
    """
    settings, queries, progress, advance, work = task.settings, task.queries, task.progress, task.advance, task.work
    keys, objects, pairs, end = task.bucket.keys, task.bucket.objects, task.bucket.skyband, task.bucket.skyband_end
    layout, windows, reserves = more.layout, more.windows, more.reserves
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, objects.pool)
    changes, results, reserve = no_changes(), no_results(queries, more.gone), new_reserve(256)
    buffers = Rescan(np.empty(RANGE), np.empty(layout.float_row), np.empty(layout.integer_row, np.int64))
    for g in range(len(advance.keys)):
        key = advance.keys[g]
        history, offset = history_of(keys, key, objects.times), keys[key, REGION_START] - keys[key, FIRST_STORED]
        marks = np.zeros(keys[key, NEXT_SEQ] - keys[key, FIRST_STORED] if layout.max_per_object > 0 else 0, np.int64)
        for which in range(layout.reserves):
            count, micros, number = windows.window_count[which], windows.window_micros[which], key * layout.reserves + which
            scene = Scene(
                scoring, settings, layout, queries, reserves.of_query, objects, key, which, count, micros, windows.worst_score[which],
                offset, keys[key, FIRST_STORED], marks, progress, results, buffers, work,
            )  # fmt: skip
            first = alive_from(history, advance.first_new[g], advance.since - 1, count, micros)
            reserve = load(scene, reserves, number, pairs, first, reserve)
            reserve, changes = replay_events(scene, g, advance, keys[key, NEXT_SEQ], more.events, reserve, changes)
            pairs, end = save(reserves, number, reserve, pairs, end)
            note_wakes(scene, history)
    return changes.rows, changes.written, pairs, end


# The logic.


PARTNERS: Final = 4
"""The number of best older partners that are found for every arrival. More than these are seldom in the reserve."""
DELETION_ROW: Final = -2
"""The row of ``Objects.integers`` with the number of an object's deletion (``Layout.integer_row``)."""


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled once for all scoring expressions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return drive
    from numba import typeof

    none = np.empty(0, np.int64)
    events = Events(DeletionRows(none, none, none, none), Found(none, none, none, none, np.empty(0)))
    windows = PartnerQueries(none, none, none, np.empty(0))
    more = ReserveTask(Layout(0, 0, 0, 0, 0, 0, 0), windows, no_reserves(0), np.empty((0, 0), np.int64), events)
    signature = (count_type(), score_type(), count_type(), score_type(), bound_type(), bound_type(), *map(typeof, (no_task(), more)))
    compiled: Callable[..., Any] = jit.jit(signature)(drive)
    return compiled


def no_reserves(number: int) -> Reserves:
    """Return reserves without pairs, and without pairs behind their floors."""
    return Reserves(np.zeros((number, KEY_COLUMNS), np.int64), np.full(number, np.inf), np.full((number, 2), -1), np.empty(0, np.int64))


class ReserveLogic(PairRowsLogic):
    """About N vectorised scores per arrival, and after deletions for each object whose other pairs may have become good enough."""

    def __init__(self, configuration: TopKPairsConfiguration, max_per_object: int, state: State | None) -> None:
        self.scored, self.max_per_object = configuration, max_per_object
        queries, window = configuration.queries, configuration.window
        ends = list(dict.fromkeys(q.window.within(window) for q in queries))
        worst = [max(configuration.worst_score(q) for q in queries if q.window.within(window) == w) for w in ends]
        bounds = Marks(tuple(f"$bound{i}" for i in range(len(ends))), (*(f"$bounded{i}" for i in range(len(ends))), "$deletion", UNTIL))
        self.search = ScoredPartnerSearch(configuration, [PartnerQuery(PARTNERS, w, s) for w, s in zip(ends, worst, strict=True)], bounds)
        self.layout = Layout(
            (1 + SPARE[0]) * configuration.keep_k + SPARE[1], MOST, max_per_object, PARTNERS, len(configuration.kernel.float_names),
            len(configuration.kernel.int_names), len(ends),
        )  # fmt: skip
        of_query = np.array([ends.index(q.window.within(window)) for q in queries], np.int64)
        self.reserves = no_reserves(0)._replace(of_query=of_query)
        self.gone = np.zeros((0, sum(q.k for q in queries if q.every_micros)), np.int64)
        """1 for a pair shown at the last boundary (``Progress.shown_score``) with an object deleted since; (keys, shown pairs)."""
        super().__init__(configuration, state)
        self.settings = self.search.settings

    def _windows(self) -> Windows:
        return self.search.windows

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        raise NotImplementedError("a logic with reserves has no skyband")

    def _grow(self, keys: int) -> None:
        more = max(0, keys - len(self.windows.keys))
        super()._grow(keys)
        if more:
            new, old = no_reserves(more * self.layout.reserves), self.reserves
            self.reserves = old._replace(
                regions=np.concatenate([old.regions, new.regions]), floor_score=np.concatenate([old.floor_score, new.floor_score]),
                floor_pair=np.concatenate([old.floor_pair, new.floor_pair]),
            )  # fmt: skip
            self.gone = np.concatenate([self.gone, np.zeros((more, self.gone.shape[1]), np.int64)])

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``: a search for the best partners of every arrival, then one kernel call for all events."""
        since, due = self.until, self._due(until)
        self.until = max(since, until)
        if not len(arrivals) and not len(due):
            return Changes.empty(2)
        if len(arrivals):
            self._grow(int(arrivals.key[-1]) + 1)
        objects, deletions = self.search.split(arrivals)
        if len(objects):
            self._count_unusable(objects)
            mine, firsts, found = self.search.find(objects, deletions, since, until)
        else:
            self.search.delete(deletions)
            none = np.empty(0, np.int64)
            mine, firsts, found = none, none, FoundPairs(none, none, none, none, np.empty(0))
        keys = np.unique(np.concatenate([mine, deletions.key, due]))
        advance = self._advance_of(keys, mine, firsts, since, until)
        self.windows.set_integers(DELETION_ROW, deletions.key, deletions.seq, np.arange(len(deletions.key)))
        events = Events(deletion_rows(deletions, keys), Found(starts(found.key, keys), found.query, found.older, found.newer, found.score))
        bucket = Bucket(self.windows.keys, self.windows.objects, self.skybands, self.skybands_end)
        rows, written, self.skybands, self.skybands_end = driver()(
            *self.scored.functions(False), self._task(bucket, advance),
            ReserveTask(self.layout, self.search.queries, self.reserves, self.gone, events),
        )  # fmt: skip
        self.windows.set_integers(DELETION_ROW, deletions.key, deletions.seq, -1)
        return self._changes(ChangeRows(rows.fields[:written], rows.score[:written]))

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the reserves, next seqs, steps, due boundaries, shown lists and deletions. Bounds are found again when they are needed."""
        number, at = self._pairs()
        pairs = self.skybands
        windows = self.layout.reserves
        return {
            "until": np.array([self.until], np.int64), "next": self.windows.keys[:, NEXT_SEQ].copy(),
            "sky_key": number // windows, "sky_window": number % windows, "sky_score": pairs.score[at], "sky_older": pairs.older[at],
            "sky_newer": pairs.newer[at], "floor_score": self.reserves.floor_score.reshape(-1, windows).copy(),
            "floor_older": self.reserves.floor_pair[:, 0].reshape(-1, windows).copy(),
            "floor_newer": self.reserves.floor_pair[:, 1].reshape(-1, windows).copy(),
            **self._saved_progress(), "gone": self.gone.copy(),
            **self.search.saved(self.until),
        }  # fmt: skip

    def _pairs(self) -> tuple[I64, I64]:
        """Return (number of the reserve, place in the arena) of every pair whose older object is alive."""
        windows = self.layout.reserves
        number, at = places_of(self.reserves.regions)
        alive = self.windows.alive(number // windows, self.skybands.older[at], self.configuration.window, self.until)
        return number[alive], at[alive]

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._grow(len(a["next"]))
        self.search.restore(state.rows, a, self.until)
        _, at = self.windows.stored()
        integers = self.windows.objects.integers
        integers[DELETION_ROW, at[integers[self.windows.until_row, at] < NEVER]] = -1
        self.until = int(a["until"][0])
        self._restore_progress(a)
        self.gone = np.array(a["gone"], np.int64)
        number = np.asarray(a["sky_key"], np.int64) * self.layout.reserves + np.asarray(a["sky_window"], np.int64)
        order = np.argsort(number, kind="stable")
        score = np.asarray(a["sky_score"], np.float64)[order]
        older, newer = (np.asarray(a[name], np.int64)[order] for name in ("sky_older", "sky_newer"))
        lay_out(self.reserves.regions, number)
        floors = np.stack([np.asarray(a[name], np.int64).ravel() for name in ("floor_older", "floor_newer")], axis=1)
        self.reserves = self.reserves._replace(
            floor_score=np.array(a["floor_score"], np.float64).ravel(), floor_pair=np.ascontiguousarray(floors)
        )
        self.skybands, self.skybands_end = Skyband(score, older, newer, score.copy()), len(score)
        self._bound_restored()

    def _bound_restored(self) -> None:
        """Bound the pairs of all objects by the floors."""
        key, at = self.windows.stored()
        for w in range(self.layout.reserves):
            number = key * self.layout.reserves + w
            self.windows.objects.floats[self.layout.float_row + w, at] = self.reserves.floor_score[number]
            self.windows.objects.integers[self.layout.integer_row + w, at] = self.reserves.floor_pair[number, 0]

    def skyband(self) -> Items:
        """Return nothing: any pair can come back."""
        return Items(np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64))

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k <= K pairs of any window n <= N within the query's score bounds, in rank order. O(objects^2): by definition."""
        if not 1 <= k <= self.scored.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.scored.keep_k}")
        check_window(window, self.scored.window, "snapshot")
        found = [] if not 0 <= key < len(self.windows.keys) else self._ranked(key, window, float(self.queries.worst[query]))
        taken: list[tuple[float, int, int]] = []
        uses: dict[int, int] = {}
        for score, older, newer in found:
            mine = (-older, (-newer) >> 1)
            if len(taken) < k and all(uses.get(seq, 0) < (self.max_per_object or k) for seq in mine):
                taken.append((score, -older, -newer))
                uses |= {seq: uses.get(seq, 0) + 1 for seq in mine}
        older_, newer_ = (np.array([t[i] for t in taken], np.int64) for i in (1, 2))
        return Items(
            np.full(len(taken), key, np.int64), self._items(older_, newer_), self._external(np.array([t[0] for t in taken], float))
        )

    def _ranked(self, key: int, window: Window, worst: float) -> list[tuple[float, int, int]]:
        """Return (score, -older, -newer) of all pairs of a key in rank order."""
        table, objects, settings = self.windows.keys, self.search.attributes(), self.settings
        offset = int(table[key, REGION_START] - table[key, FIRST_STORED])
        seqs = np.arange(table[key, FIRST_STORED], table[key, NEXT_SEQ])
        seqs = seqs[self.windows.alive(np.full(len(seqs), key), seqs, window, self.until)]
        seqs = seqs[self.windows.objects.integers[self.windows.until_row, seqs + offset] == NEVER]
        _, as_a, _, as_b, *_ = self.scored.functions(False)
        found = []
        for x in seqs.tolist():
            code = objects.integers[settings.side_row, x + offset] if settings.side_row >= 0 else settings.code_b
            if seqs[0] < x and code in (settings.code_a, settings.code_b):
                is_a, first = settings.side_row >= 0 and code == settings.code_a, int(seqs[0])
                scores = np.empty(x - first)
                own = (np.ascontiguousarray(part[:, x + offset]) for part in (objects.floats, objects.integers))
                (as_a if is_a else as_b)(objects.floats, objects.integers, first + offset, x + offset, *own, objects.pool, scores)
                older = seqs[seqs < x]
                found += [
                    (s, -o, -(2 * x + is_a)) for s, o in zip(scores[older - first].tolist(), older.tolist(), strict=True) if s <= worst
                ]
        return sorted(found)

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        return self.scored.unusable(arrivals)

    def _external(self, score: F64) -> F64:
        return self.scored.external(score)

    def _work_done(self) -> dict[str, int]:
        """Pairs scored and skipped, partners found, arrivals of which they were too few, and how often reserves were filled again."""
        found, own = self.search.counters(0), super()._work_done()
        return {
            "scored": found["scored"] + own["scored"], "skipped": found["skipped"], "candidates": found["candidates"],
            "rescans": own["candidates"], "refills": own["refills"],
        }  # fmt: skip
