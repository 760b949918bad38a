"""All events of an ``advance`` in their order, for every key and reserve: expiries, arrivals, deletions, boundaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.boundaries import note_wake
from skyband.operators.pair_rows.kernels.changes import ensure_capacity
from skyband.operators.pair_rows.kernels.lists import copy_pairs
from skyband.operators.pair_rows.kernels.partners import PartnerQueries
from skyband.operators.pair_rows.kernels.skyband import store
from skyband.operators.pair_rows.kernels.sub_batch import ChangeBuffer, no_changes
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_STORED,
    FOUND,
    NEXT_SEQ,
    REGION_START,
    SKYBAND_LENGTH,
    SKYBAND_START,
    Advance,
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
    history_of,
)
from skyband.operators.topk_pairs.deletes.kernels.reserve import (
    above_floor,
    fill_again,
    find_oldest,
    limit_of,
    remove,
    rescan,
    take_in,
    whole,
)
from skyband.operators.topk_pairs.deletes.kernels.results import (
    Results,
    keep_before,
    mark_deleted,
    no_results,
    take_all,
    write_boundary,
    write_changes,
)
from skyband.operators.topk_pairs.deletes.kernels.tables import (
    DEPTH,
    FIRST,
    FLOOR_NEWER,
    FLOOR_OLDER,
    LENGTH,
    OLDEST,
    RANGE,
    SHORT,
    TOUCHED,
    Found,
    Layout,
    Rescan,
    Reserve,
    Reserves,
    new_reserve,
    with_room,
)
from skyband.operators.windows import UNBOUNDED


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


@inner
def move_on(scene: Scene, reserve: Reserve, arrived: int, instant: int) -> None:
    """Let the objects leave the window that have expired by time at an instant."""
    if scene.window_micros < UNBOUNDED:
        times, fields = scene.objects.times, reserve.fields
        while fields[FIRST] < arrived and times[fields[FIRST] + scene.offset] <= instant - scene.window_micros:
            fields[FIRST] += 1


@maker
def settle(
    scene: Scene, at: int, arriving: int, deleted: int, arrived: int, done: int, reserve: Reserve, changes: ChangeBuffer
) -> tuple[Reserve, ChangeBuffer]:  # fmt: skip
    """Bring the results up to date after the event at an instant.

    ``arriving``, ``deleted``: the object that arrives or is deleted, or -1. ``arrived`` objects have come, and ``done`` deletions.
    """
    fields = reserve.fields
    if not unsettled(reserve):
        return reserve, changes
    layout, queries, of_query, which, results = scene.layout, scene.queries, scene.of_query, scene.which, scene.results
    keep_before(queries, of_query, which, results)
    while take_all(layout, queries, of_query, which, reserve, scene.marks, scene.marks_first, results) and not whole(reserve):
        reserve = fill_again(
            scene.scoring, scene.settings, scene.objects, scene.offset, layout, which, scene.worst, done, arrived, reserve, scene.buffers,
            scene.work,
        )  # fmt: skip
    rows = ensure_capacity(changes.rows, changes.written, 2 * queries.k.sum())
    written = write_changes(
        queries, of_query, which, scene.key, at, fields[FIRST], arriving, deleted, scene.progress, results, rows, changes.written
    )  # fmt: skip
    return reserve, ChangeBuffer(rows, written)


@maker
def boundaries(scene: Scene, before: int, arrived: int, reserve: Reserve, changes: ChangeBuffer) -> ChangeBuffer:
    """Write the changes at boundaries that are due before an instant."""
    rows, written = changes.rows, changes.written
    for query in range(len(scene.queries.k)):
        if scene.of_query[query] == scene.which and scene.progress.due[query, scene.key] < before:
            move_on(scene, reserve, arrived, scene.progress.due[query, scene.key])
            rows = ensure_capacity(rows, written, 2 * scene.queries.k[query])
            written = write_boundary(
                query, scene.key, reserve.fields[FIRST], scene.queries, scene.progress, scene.results, rows, written
            )  # fmt: skip
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
        reserve, changes = settle(scene, at, -1, -1, arrived, done, reserve, changes)
    changes = boundaries(scene, instant, arrived, reserve, changes)
    move_on(scene, reserve, arrived, instant)
    return reserve, changes


@inner
def unsettled(reserve: Reserve) -> bool:
    """Return True if the present event may have changed a result."""
    fields = reserve.fields
    return bool(fields[TOUCHED] < fields[DEPTH] or (fields[TOUCHED] < NEVER and fields[SHORT] > 0))


@inner
def arrive_alone(scene: Scene, seq: int, found: Found, first_row: int, end_row: int, reserve: Reserve) -> bool:
    """Process an arrival up to ``settle`` in the usual case; return False, with nothing done, in any other.

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
    """Process an arrival, whose best older partners are in the rows from ``first_row`` on, up to ``settle``."""
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
        rescan(
            scene.scoring, scene.settings, objects, scene.offset, layout, which, scene.worst, done, seq, found.score[last],
            found.older[last], found.newer[last], limit, reserve, scene.buffers, scene.work,
        )  # fmt: skip
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
    take_all(
        scene.layout, scene.queries, scene.of_query, scene.which, reserve, scene.marks, scene.marks_first, scene.results
    )  # fmt: skip
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


@maker
def replay_events(scene: Scene, g: int, first_new: int, next_seq: int, until: int, deleted: DeletionRows, found: Found, reserve: Reserve,
           changes: ChangeBuffer) -> tuple[Reserve, ChangeBuffer]:  # fmt: skip
    """Process all events of a key and reserve before ``until``."""
    seq, done, row = first_new, deleted.start[g], found.start[g]
    while seq < next_seq or done < deleted.start[g + 1]:
        if done < deleted.start[g + 1] and deleted.before[done] <= seq:
            gone, at = deleted.seq[done], deleted.time[done]
            reserve, changes = expire(scene, at, seq, done, reserve, changes)
            done += 1
            mark_deleted(scene.queries, scene.of_query, scene.which, scene.key, gone, scene.progress, scene.results)
            reserve.fields[TOUCHED] = NEVER
            remove(reserve, reserve.fields[FIRST], gone)
            reserve, changes = settle(scene, at, -1, gone, seq, done, reserve, changes)
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
        if unsettled(reserve):
            move_on(scene, reserve, seq + 1, at)
            reserve, changes = settle(scene, at, seq, -1, seq + 1, done, reserve, changes)
        row = end
        seq += 1
    reserve, changes = expire(scene, until - 1, next_seq, done, reserve, changes)
    return reserve, boundaries(scene, until, next_seq, reserve, changes)


def drive(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], settings: Settings, layout: Layout, windows: PartnerQueries,
    queries: Queries, keys: I64, objects: Objects, reserves: Reserves, progress: Progress, gone: I64, advance: Advance,
    deleted: DeletionRows, found: Found, work: I64,
) -> tuple[ChangeRows, int, Skyband, int]:  # fmt: skip
    """Process all events of ``advance``, whose arrivals are in the windows' arena already; the functions are those of ``Scoring``.

    ``windows``: those of the reserves. Return change rows and their number, and the reserves' (perhaps new) arena and its end. Writes to
    ``reserves``, ``progress``, ``gone`` (see ``Results``), the bounds of objects and ``work`` (int64 (COUNTERS,)).
    """
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, objects.pool)
    changes, results, reserve = no_changes(), no_results(queries, gone), new_reserve(256)
    pairs, end = reserves.pairs, reserves.end
    buffers = Rescan(np.empty(RANGE), np.empty(layout.float_row), np.empty(layout.integer_row, np.int64))
    for g in range(len(advance.keys)):
        key, first_new = advance.keys[g], advance.first_new[g]
        history, offset = history_of(keys, key, objects.times), keys[key, REGION_START] - keys[key, FIRST_STORED]
        marks = np.zeros(keys[key, NEXT_SEQ] - keys[key, FIRST_STORED] if layout.max_per_object > 0 else 0, np.int64)
        for which in range(layout.reserves):
            count, micros, number = windows.window_count[which], windows.window_micros[which], key * layout.reserves + which
            scene = Scene(
                scoring, settings, layout, queries, reserves.of_query, objects, key, which, count, micros, windows.worst_score[which],
                offset, keys[key, FIRST_STORED], marks, progress, results, buffers, work,
            )  # fmt: skip
            first = alive_from(history, first_new, advance.since - 1, count, micros)
            reserve = load(scene, reserves, number, pairs, first, reserve)
            reserve, changes = replay_events(
                scene, g, first_new, keys[key, NEXT_SEQ], advance.until, deleted, found, reserve, changes
            )  # fmt: skip
            pairs, end = save(reserves, number, reserve, pairs, end)
            note_wakes(scene, history)
    return changes.rows, changes.written, pairs, end
