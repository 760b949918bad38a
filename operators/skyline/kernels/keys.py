"""Move a key's state: copy it while the key is not active, unpack it for its events, and pack it again."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.block_tests import LANES
from skyband.operators.skyline.kernels.critical import link
from skyband.operators.skyline.kernels.events import settle_front
from skyband.operators.skyline.kernels.positions import settle_oldest
from skyband.operators.skyline.kernels.skip import new_stretch
from skyband.operators.skyline.kernels.state import (
    CHILD,
    COARSE_END,
    CRITICAL,
    CRITICAL_NEXT,
    DOMINATORS,
    END,
    FIRST,
    FREE,
    HEAD,
    HOLES,
    LAST,
    NEWER,
    NEXT_EVENT,
    ORPHANS,
    POSITION,
    SCANNED,
    SEQ,
    SLOTS,
    Retained,
    Settings,
    Shown,
    Table,
    Workspace,
)
from skyband.operators.skyline.kernels.tables import carry_over_starts, find, load_shown, store_queries


@jit
def new_table(table: Table, rows: int) -> Table:
    """Return room for the state after the arrivals: ``rows`` objects. Arrays changed in place are shared with ``table``."""
    queries, boundaries = table.queries.shape[1], table.shown_start.shape[0] > 1
    return Table(
        np.zeros(table.start.shape[0], np.int64),
        np.empty((rows, table.rows.shape[1]), np.int64),
        np.empty(rows, np.int64),
        table.last,
        table.due,
        table.queries,
        np.zeros(table.shown_start.shape[0], np.int64),
        np.empty((table.shown.shape[0] + (queries * rows if boundaries else 0), 2), np.int64),
    )


@jit
def trimmed(table: Table) -> Table:
    """Return the state without unused room."""
    rows, shown = table.start[-1], table.shown_start[-1]
    return Table(
        table.start, table.rows[:rows], table.words[:rows], table.last, table.due, table.queries, table.shown_start, table.shown[:shown]
    )


@jit
def new_workspace(slots: int, longest: int, settings: Settings, dead: int, table: Table) -> Workspace:
    """Return room for the key at work: ``slots`` objects, shown lists of at most ``longest``; ``dead`` is the dead word."""
    queries, places = table.queries.shape[1], slots + 2 * LANES
    retained = Retained(
        np.empty((slots, table.rows.shape[1]), np.int64),
        np.empty((slots, 5), np.int64),
        np.empty((slots, settings.band), np.int64),
        np.empty(slots, np.int64),
        np.empty(places, np.int64),
        np.empty(places, np.int32),
        np.empty(places, np.int64),
        np.empty((slots, 2), np.int64),
        np.empty(ORPHANS, np.int64),
        np.zeros(SCANNED + 1, np.int64),
    )
    for i in range(LANES):
        retained.word[i] = dead
    shown = Shown(np.empty((queries, longest, 2), np.int64), np.zeros(queries, np.int64), np.empty((longest, 2), np.int64))
    return Workspace(retained, shown, new_stretch())


@jit(inline="always")
def load_objects(key: int, band: int, table: Table, retained: Retained) -> int:
    """Unpack a key's objects into slots 0, 1, ... and find their dominators; return their number. O(objects K log objects)."""
    rows, links, dominators = retained.rows, retained.links, retained.dominators
    start = table.start[key]
    size: int = table.start[key + 1] - start
    for slot in range(size):
        for j in range(rows.shape[1]):
            rows[slot, j] = table.rows[start + slot, j]
        retained.word[LANES + slot] = table.words[start + slot]
        retained.slot[LANES + slot] = slot
        links[slot, CHILD] = -1
    for slot in range(size):
        for j in range(band):
            dominators[slot, j] = find(rows, 0, slot, rows[slot, DOMINATORS + j]) if rows[slot, DOMINATORS + j] >= 0 else -1
        left = band - 1 - rows[slot, NEWER]
        links[slot, CRITICAL] = links[slot, CRITICAL_NEXT] = rows[slot, DOMINATORS + left]
        link(slot, dominators[slot, left], links)
    return size


@jit(inline="always")
def load_key(key: int, band: int, table: Table, retained: Retained, shown: Shown) -> None:
    """Unpack a key's objects, the queries' first positions and shown lists."""
    marks, queries = retained.marks, table.queries
    size = load_objects(key, band, table, retained)
    marks[FIRST] = marks[COARSE_END] = LANES
    marks[END] = LANES + size
    marks[SLOTS] = size
    marks[FREE] = marks[HOLES] = 0
    marks[LAST] = table.last[key]
    marks[NEXT_EVENT] = table.due[key]
    settle_oldest(retained)
    for query in range(queries.shape[1]):
        position = LANES
        while position < LANES + size and retained.rows[position - LANES, SEQ] < queries[key, query, HEAD]:
            position += 1
        queries[key, query, POSITION] = position
        settle_front(queries[key, query], retained.rows, retained.slot, LANES + size)
    load_shown(key, table, shown)


@jit(inline="always")
def store_objects(key: int, retained: Retained, new: Table) -> None:
    """Pack a key's objects behind those of the keys before it. O(positions)."""
    rows, slots = retained.rows, retained.slot
    target = new.start[key]
    for position in range(retained.marks[FIRST], retained.marks[END]):
        slot = slots[position]
        if slot >= 0:
            for j in range(rows.shape[1]):
                new.rows[target, j] = rows[slot, j]
            new.words[target] = retained.word[position]
            target += 1
    new.start[key + 1] = target


@jit(inline="always")
def store_key(key: int, retained: Retained, shown: Shown, new: Table) -> None:
    """Pack a key's objects, heads and shown lists."""
    marks = retained.marks
    store_objects(key, retained, new)
    new.last[key] = marks[LAST]
    new.due[key] = marks[NEXT_EVENT]
    store_queries(key, marks[LAST], shown, new)


@jit
def carry_over(key: int, active: AnyArray, table: Table, new: Table) -> int:
    """Copy the inactive keys (keys,) from ``key`` to the next active one; return that one. O(their rows)."""
    end = carry_over_starts(key, active, table, new)
    moved = new.start[key] - table.start[key]
    for i in range(table.start[key], table.start[end]):
        for j in range(table.rows.shape[1]):
            new.rows[i + moved, j] = table.rows[i, j]
        new.words[i + moved] = table.words[i]
    return end
