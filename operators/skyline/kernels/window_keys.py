"""Move the state of a key of skylines with deletions: copy it while the key is not active, unpack it for its events, and pack it again."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import maker
from skyband.operators.skyline.kernels.state import HEAD, POSITION, SEQ
from skyband.operators.skyline.kernels.tables import carry_over_starts, load_shown, store_queries
from skyband.operators.skyline.kernels.window_state import (
    AFTER,
    BEFORE,
    END,
    EVENT,
    FIRST,
    KEYS,
    LAST,
    NEXT_EVENT,
    TRACKED,
    WindowObjects,
    WindowShown,
    WindowTable,
)
from skyband.operators.skyline.kernels.witnesses import link, track


@maker
def new_table(table: WindowTable, rows: int) -> WindowTable:
    """Return space for the state after the arrivals: ``rows`` objects. Arrays changed in place are shared with ``table``."""
    boundaries = table.shown_start.shape[0] > 1
    shown = table.shown.shape[0] + (table.queries.shape[1] * rows if boundaries else 0)
    return WindowTable(
        np.zeros(table.start.shape[0], np.int64),
        np.empty((rows, table.rows.shape[1]), np.int64),
        np.empty((rows, table.witness.shape[1]), np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.uint8),
        table.last,
        table.due,
        table.queries,
        np.zeros(table.shown_start.shape[0], np.int64),
        np.empty((shown, 3), np.int64),
    )


@maker
def new_shown(table: WindowTable, longest: int) -> WindowShown:
    """Return space for the shown lists of a key, of at most ``longest`` objects."""
    windows = table.queries.shape[1]
    return WindowShown(
        np.empty((windows, longest, 3), np.int64),
        np.zeros(windows, np.int64),
        np.empty(longest, np.int64),
        np.empty((longest, 3), np.int64),
    )


@maker
def trimmed(table: WindowTable) -> WindowTable:
    """Return the state without unused space."""
    rows, shown = table.start[-1], table.shown_start[-1]
    return WindowTable(
        table.start, table.rows[:rows], table.witness[:rows], table.critical[:rows], table.tracked[:rows], table.last, table.due,
        table.queries, table.shown_start, table.shown[:shown],
    )  # fmt: skip


@maker
def load_key(key: int, table: WindowTable, objects: WindowObjects, shown: WindowShown) -> None:
    """Unpack a key's objects, the first positions of its windows, and its shown lists. O(objects K)."""
    marks, queries, band = objects.marks, table.queries, objects.witness.shape[1]
    start = table.start[key]
    size: int = table.start[key + 1] - start
    marks[FIRST], marks[END], marks[TRACKED], marks[EVENT] = 0, size, 0, 0
    marks[LAST], marks[NEXT_EVENT] = table.last[key], table.due[key]
    objects.rows[:size] = table.rows[start : start + size]
    objects.columns[:, :size] = table.rows[start : start + size, KEYS:].T
    objects.dead[:size] = 0
    objects.seen[:size] = 0
    objects.node[:size] = -1
    objects.place[:size] = -1
    for position in range(size):
        for j in range(band):
            witness = table.witness[start + position, j]
            objects.witness[position, j] = -1
            if witness >= 0:
                link(objects, position * band + j, witness)
        objects.critical[position, BEFORE] = objects.critical[position, AFTER] = table.critical[start + position]
        if table.tracked[start + position]:
            track(objects, position)
    for index in range(queries.shape[1]):
        position = 0
        while position < size and objects.rows[position, SEQ] < queries[key, index, HEAD]:
            position += 1
        queries[key, index, POSITION] = position
    load_shown(key, table, shown)


@maker
def store_key(key: int, objects: WindowObjects, shown: WindowShown, new: WindowTable) -> None:
    """Pack a key's objects behind those of the keys before it, with the heads and shown lists. O(objects K)."""
    marks, band = objects.marks, objects.witness.shape[1]
    start = target = new.start[key]
    moved = objects.seen  # the new place of every position: no event is at work any more
    for position in range(marks[FIRST], marks[END]):
        moved[position] = target - start
        target += 0 if objects.dead[position] else 1
    for position in range(marks[FIRST], marks[END]):
        if objects.dead[position] == 0:
            row = start + moved[position]
            new.rows[row] = objects.rows[position]
            for j in range(band):
                witness = objects.witness[position, j]
                new.witness[row, j] = moved[witness] if witness >= 0 else -1
            new.critical[row] = objects.critical[position, AFTER]
            new.tracked[row] = objects.place[position] >= 0
    new.start[key + 1] = target
    new.last[key], new.due[key] = marks[LAST], marks[NEXT_EVENT]
    store_queries(key, marks[LAST], shown, new)


@maker
def carry_over(key: int, active: AnyArray, table: WindowTable, new: WindowTable) -> int:
    """Copy the inactive keys (keys,) from ``key`` to the next active one; return that one. O(their rows)."""
    end = carry_over_starts(key, active, table, new)
    moved = new.start[key] - table.start[key]
    first, last = table.start[key], table.start[end]
    new.rows[first + moved : last + moved] = table.rows[first:last]
    new.witness[first + moved : last + moved] = table.witness[first:last]
    new.critical[first + moved : last + moved] = table.critical[first:last]
    new.tracked[first + moved : last + moved] = table.tracked[first:last]
    return end
