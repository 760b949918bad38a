"""Advance a bucket of skylines with deletions in one call: arrivals, deletions and time events of every key, for every query."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import inner, jit, maker
from skyband.operators.skyline.kernels.state import (
    COUNT,
    HEAD,
    MICROS,
    NEXT_BOUNDARY,
    POSITION,
    SEQ,
    TIME,
    ChangeRows,
    empty_changes,
    ensure_capacity,
)
from skyband.operators.skyline.kernels.tables import find, upper_bounds
from skyband.operators.skyline.kernels.window_events import (
    cross_boundary,
    delete,
    mark_deleted,
    move_head,
    settle,
    sort_newest_first,
    touch,
)
from skyband.operators.skyline.kernels.window_keys import carry_over, load_key, new_shown, new_table, store_key, trimmed
from skyband.operators.skyline.kernels.window_state import (
    AFTER,
    BEFORE,
    CHUNK,
    END,
    EVENT,
    FIRST,
    KEYS,
    LAST,
    NEXT_EVENT,
    TESTS,
    TRACKED,
    WindowBlock,
    WindowObjects,
    WindowSettings,
    WindowShown,
    WindowTable,
    new_objects,
)
from skyband.operators.skyline.kernels.witnesses import (
    add_witness,
    compare_chunk,
    dominates,
    drop,
    find_witnesses,
    stop_tracking,
    track,
    unlink,
)
from skyband.operators.windows import UNBOUNDED


@inner
def next_expiry(query: AnyArray, objects: WindowObjects) -> int:
    """Return when the oldest object of a window (8,) leaves by time, or NEVER."""
    if query[MICROS] >= UNBOUNDED:
        return NEVER
    position = settle(query, objects)
    return int(objects.rows[position, TIME] + query[MICROS]) if position < objects.marks[END] else NEVER


@maker
def elapse(
    query: AnyArray, index: int, key: int, before: int, boundaries_before: int, settings: WindowSettings, objects: WindowObjects,
    shown: WindowShown, changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process the expiries of a window (8,) at instants < ``before`` and its boundaries < ``boundaries_before``, in order."""
    marks = objects.marks
    while True:
        expiry, boundary = next_expiry(query, objects), query[NEXT_BOUNDARY]
        if expiry <= boundary:
            if expiry >= before:
                break
            last = query[POSITION]
            while last + 1 < marks[END] and objects.rows[last + 1, TIME] + query[MICROS] <= expiry:
                last += 1
            changes = ensure_capacity(changes, 2 * (marks[END] - marks[FIRST]) + 2)
            move_head(query, index, key, expiry, objects.rows[last, SEQ] + 1, -1, 0, settings, objects, changes)
        else:
            if boundary >= boundaries_before:
                break
            changes = ensure_capacity(changes, marks[END] - marks[FIRST] + shown.length[index] + 1)
            cross_boundary(query, index, key, boundary, objects, shown, changes)
    return changes


@inner
def drop_old(queries: AnyArray, settings: WindowSettings, objects: WindowObjects) -> None:
    """Remove the objects that have left the state's window; ``queries`` (Q, 8)."""
    marks = objects.marks
    while marks[FIRST] < queries[settings.largest, POSITION]:
        if objects.dead[marks[FIRST]] == 0:
            drop(objects, marks[FIRST])
        marks[FIRST] += 1


@inner
def set_next_event(queries: AnyArray, objects: WindowObjects) -> None:
    """Find the next instant at which something happens without an arrival; ``queries`` (Q, 8). O(Q)."""
    first = NEVER
    for index in range(queries.shape[0]):
        first = min(first, next_expiry(queries[index], objects), queries[index, NEXT_BOUNDARY])
    objects.marks[NEXT_EVENT] = first


@maker
def pass_time(
    key: int, before: int, boundaries_before: int, settings: WindowSettings, queries: AnyArray, objects: WindowObjects,
    shown: WindowShown, changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process a key's expiries before ``before`` and boundaries before ``boundaries_before``; ``queries`` (Q, 8). Return the changes."""
    for index in range(queries.shape[0]):
        changes = elapse(queries[index], index, key, before, boundaries_before, settings, objects, shown, changes)
    drop_old(queries, settings, objects)
    set_next_event(queries, objects)
    return changes


@inner
def append_object(row: int, settings: WindowSettings, block: WindowBlock, objects: WindowObjects) -> int:
    """Append the arrival of ``row`` with its witnesses; return its position."""
    rows, fresh = objects.rows, objects.marks[END]
    rows[fresh, SEQ], rows[fresh, TIME] = block.seq[row], block.time[row]
    for j in range(block.keys.shape[0]):
        rows[fresh, KEYS + j] = objects.columns[j, fresh] = block.keys[j, row]
    objects.node[fresh] = objects.place[fresh] = -1
    objects.dead[fresh] = objects.seen[fresh] = 0
    for j in range(settings.band):
        objects.witness[fresh, j] = -1
    objects.marks[END] = fresh + 1
    find_witnesses(objects, fresh, settings)
    objects.critical[fresh, BEFORE] = objects.critical[fresh, AFTER]
    return int(fresh)


@inner
def find_dominated(fresh: int, settings: WindowSettings, objects: WindowObjects) -> int:
    """Make the arrival a witness of the tracked objects it dominates; return how many these are. O(tracked)."""
    count, marks = 0, objects.marks
    for first in range(0, marks[TRACKED], CHUNK):
        end = min(first + CHUNK, marks[TRACKED])
        if compare_chunk(objects.tracked_columns, objects.rows[fresh], first, end, settings, False, objects.hits):
            for place in range(first, end):
                if objects.hits[place - first] and dominates(objects.rows, fresh, objects.tracked[place], settings):
                    objects.dominated[count] = objects.tracked[place]
                    count += 1
    marks[TESTS] += marks[TRACKED]
    sort_newest_first(objects.dominated, count)
    for j in range(count):
        add_witness(objects, objects.dominated[j], fresh, settings.band)
    return count


@inner
def is_member(queries: AnyArray, objects: WindowObjects, position: int) -> bool:
    """Return True if an object is in the result of a window; ``queries`` (Q, 8). O(Q)."""
    seq, critical, found = objects.rows[position, SEQ], objects.critical[position, AFTER], False
    for index in range(queries.shape[0]):
        found |= critical < queries[index, HEAD] <= seq
    return found


@maker
def take_arrival(
    row: int, key: int, settings: WindowSettings, block: WindowBlock, queries: AnyArray, objects: WindowObjects, changes: ChangeRows
) -> ChangeRows:
    """Process arrival ``row`` of a key; ``queries`` (Q, 8). Return the changes. O(tracked + searches for witnesses)."""
    marks, seq = objects.marks, block.seq[row]
    marks[LAST] = seq
    fresh, dominated = -1, 0
    if block.usable[row]:
        fresh = append_object(row, settings, block, objects)
        dominated = find_dominated(fresh, settings, objects)
    for index in range(queries.shape[0]):
        query = queries[index]
        head = max(query[HEAD], seq - query[COUNT] + 1)
        leaves = query[POSITION] < marks[END] and objects.rows[query[POSITION], SEQ] < head
        if leaves or dominated > 0 or (fresh >= 0 and objects.critical[fresh, AFTER] < head):
            changes = ensure_capacity(changes, 2 * (marks[END] - marks[FIRST]) + 2)
            move_head(query, index, key, block.time[row], head, fresh, dominated, settings, objects, changes)
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], query[NEXT_BOUNDARY])
        else:
            query[HEAD] = head
        if fresh >= 0 and query[MICROS] < UNBOUNDED:
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], block.time[row] + query[MICROS])
    for j in range(dominated):
        position = objects.dominated[j]
        objects.critical[position, BEFORE] = objects.critical[position, AFTER]
        if not is_member(queries, objects, position):
            stop_tracking(objects, position)
    if fresh >= 0 and is_member(queries, objects, fresh):
        track(objects, fresh)
    drop_old(queries, settings, objects)
    return changes


@maker
def take_deletion(
    row: int, key: int, settings: WindowSettings, block: WindowBlock, queries: AnyArray, objects: WindowObjects, shown: WindowShown,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process the deletion ``row`` of a key; ``queries`` (Q, 8). Return the changes.

    Every object that the deleted one was a witness of searches for another: O(these searches).
    """
    marks = objects.marks
    mark_deleted(shown, block.target[row])
    gone = find(objects.rows, marks[FIRST], marks[END], block.target[row])
    if gone < 0 or objects.dead[gone]:
        return changes
    objects.dead[gone] = 1
    marks[EVENT] += 1
    count = touch(objects, gone, 0, 0)
    for i in range(count):
        find_witnesses(objects, objects.touched[i], settings)
    for node in range(gone * settings.band, (gone + 1) * settings.band):
        unlink(objects, node)
    stop_tracking(objects, gone)
    for index in range(queries.shape[0]):
        changes = ensure_capacity(changes, marks[END] - marks[FIRST] + 2)
        delete(queries[index], index, key, block.time[row], gone, count, settings, objects, changes)
        marks[NEXT_EVENT] = min(marks[NEXT_EVENT], queries[index, NEXT_BOUNDARY])
    for i in range(count):
        objects.critical[objects.touched[i], BEFORE] = objects.critical[objects.touched[i], AFTER]
    return changes


@maker
def advance_key(
    key: int, settings: WindowSettings, block: WindowBlock, queries: AnyArray, until: int, objects: WindowObjects, shown: WindowShown,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process every event < ``until`` of the key at work; ``queries`` (Q, 8) are its own. Return the changes."""
    marks = objects.marks
    for row in range(block.first[key], block.end[key]):
        if settings.timed and marks[NEXT_EVENT] <= block.time[row]:
            changes = pass_time(key, block.time[row] + 1, block.time[row], settings, queries, objects, shown, changes)
        if block.seq[row] >= 0:
            changes = take_arrival(row, key, settings, block, queries, objects, changes)
        else:
            changes = take_deletion(row, key, settings, block, queries, objects, shown, changes)
    if settings.timed and marks[NEXT_EVENT] < until:
        changes = pass_time(key, until, until, settings, queries, objects, shown, changes)
    set_next_event(queries, objects)
    return changes


@jit
def advance_windows(
    settings: WindowSettings, block: WindowBlock, table: WindowTable, active: AnyArray, until: int, counters: AnyArray
) -> tuple[AnyArray, WindowTable]:
    """Process every event < ``until`` of the keys with ``active`` (keys,), bool; copy the others.

    Return change rows (m, 8) as in ``ChangeRows``, and the new table, which shares with ``table`` the arrays changed in place. Add the
    dominance tests to ``counters`` (1,), int64.
    """
    room, rows, longest = upper_bounds(table, block, active)
    objects = new_objects(room, settings.band, table.rows.shape[1])
    shown, new = new_shown(table, longest), new_table(table, rows)
    changes = empty_changes()
    key = 0
    while key < len(active):
        if active[key]:
            load_key(key, table, objects, shown)
            changes = advance_key(key, settings, block, table.queries[key], until, objects, shown, changes)
            store_key(key, objects, shown, new)
            key += 1
        else:
            key = carry_over(key, active, table, new)
    counters[0] += objects.marks[TESTS]
    return changes.rows[: changes.size[0]], trimmed(new)


@jit
def rebuild(settings: WindowSettings, table: WindowTable) -> None:
    """Find the witnesses of all objects of a table without shown lists; write all but object rows in place. O(searches)."""
    largest = 1
    for key in range(table.last.shape[0]):
        largest = max(largest, table.start[key + 1] - table.start[key])
    objects, shown = new_objects(largest, settings.band, table.rows.shape[1]), new_shown(table, 0)
    for key in range(table.last.shape[0]):
        load_key(key, table, objects, shown)
        for position in range(objects.marks[END]):
            find_witnesses(objects, position, settings)
            if is_member(table.queries[key], objects, position):
                track(objects, position)
        set_next_event(table.queries[key], objects)
        store_key(key, objects, shown, table)


@jit
def snapshot_of(rows: AnyArray, band: int, settings: WindowSettings) -> AnyArray:
    """Return which of the object rows (n, 2 + D), in seq order, fewer than ``band`` others dominate: (n,) uint8. O(n searches)."""
    found = np.zeros(rows.shape[0], np.uint8)
    for position in range(rows.shape[0]):
        count, other = 0, rows.shape[0] - 1
        while other >= 0 and count < band:
            if other != position and dominates(rows, other, position, settings):
                count += 1
            other -= 1
        found[position] = count < band
    return found
