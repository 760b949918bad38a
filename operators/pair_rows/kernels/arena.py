"""The arena of a bucket's windows: columns with a contiguous region per key, so that kernels stream through one key's objects.

A region grows by moving to the arena's end. When the arena is full, it is rebuilt without the free regions.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import inner, jit, maker
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    IS_A,
    IS_B,
    IS_NEITHER,
    NEXT_SEQ,
    REGION_CAPACITY,
    REGION_START,
    History,
    Objects,
    Settings,
    history_of,
)


@inner
def first_after(times: I64, low: int, high: int, instant: int) -> int:
    """Return the first position in [low, high) whose (non-decreasing) time is > ``instant``, or high. O(log(high - low))."""
    while low < high:
        middle = (low + high) >> 1
        if times[middle] > instant:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def alive_from(history: History, upto: int, instant: int, count: int, micros: int) -> int:
    """Return the first seq alive at ``instant`` in a window, once the objects before seq ``upto`` have arrived."""
    first_stored = history.first_stored
    first = max(first_stored, upto - count)
    if first < upto:
        first = first_after(history.times, first - first_stored, upto - first_stored, instant - micros) + first_stored
    return first


@jit
def drop_dead(keys: I64, which: I64, times: I64, count: int, micros: int) -> None:
    """Move the first alive seq of the keys ``which`` on to that of a window that ends with the newest object. O(log window) a key."""
    for key in which:
        history = history_of(keys, key, times)
        first = alive_from(history, keys[key, NEXT_SEQ], history.times[-1], count, micros)
        keys[key, FIRST_ALIVE] = max(keys[key, FIRST_ALIVE], first)


@inner
def side_of(settings: Settings, objects: Objects, position: int) -> int:
    """Return the side of the object at a position of the arena: IS_B if the state has no sides."""
    if settings.side_row < 0:
        return IS_B
    code = objects.integers[settings.side_row, position]
    return IS_B if code == settings.code_b else (IS_A if code == settings.code_a else IS_NEITHER)


@inner
def copy_attributes(objects: Objects, position: int, floats: F64, integers: I64) -> None:
    """Copy the first attributes of the object at a position of the arena, as many as there is room for."""
    for row in range(len(floats)):
        floats[row] = objects.floats[row, position]
    for row in range(len(integers)):
        integers[row] = objects.integers[row, position]


@inner
def move_columns(source: AnyArray, target: AnyArray, first: int, stop: int, to: int) -> None:
    """Copy columns first..stop of ``source`` to ``target`` from ``to`` on; ``target`` may be ``source`` if ``to`` <= first."""
    for row in range(source.shape[0]):
        x, y = source[row], target[row]
        for i in range(stop - first):
            y[to + i] = x[first + i]


@inner
def move_objects(source: Objects, target: Objects, first: int, stop: int, to: int) -> None:
    """Move attributes and times, as ``move_columns``."""
    move_columns(source.floats, target.floats, first, stop, to)
    move_columns(source.integers, target.integers, first, stop, to)
    x, y = source.times, target.times
    for i in range(stop - first):
        y[to + i] = x[first + i]


@inner
def relocate(keys: I64, key: int, to: int, capacity: int, source: Objects, target: Objects) -> None:
    """Move a key's alive objects to a region of ``capacity`` at ``to``."""
    offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
    move_objects(source, target, offset + keys[key, FIRST_ALIVE], offset + keys[key, NEXT_SEQ], to)
    keys[key, REGION_START], keys[key, REGION_CAPACITY], keys[key, FIRST_STORED] = to, capacity, keys[key, FIRST_ALIVE]


@inner
def room(alive: int, more: int) -> int:
    """Return the capacity of a new region: an alive object moves about once per turnover of the window."""
    return alive + more + max(16, alive) if alive + more > 0 else 0


@inner
def fits(keys: I64, key: int, more: int) -> bool:
    """Return True if a key's region has place for ``more`` objects behind those in it."""
    return bool(keys[key, NEXT_SEQ] - keys[key, FIRST_STORED] + more <= keys[key, REGION_CAPACITY])


@inner
def outgrown(keys: I64, key: int, more: int) -> bool:
    """Return True if a key's region is too small for ``more`` objects, or soon would be, even without the dead ones in it."""
    alive = keys[key, NEXT_SEQ] - keys[key, FIRST_ALIVE]
    spare = keys[key, REGION_CAPACITY] - alive - more
    return bool(spare < 0 or (spare < alive // 2 and more < alive // 2))


@maker
def rebuild(keys: I64, arriving: I64, objects: Objects, instant: int, count: int, micros: int) -> tuple[Objects, int]:
    """Build an arena of the objects alive after ``instant``, with room for arriving[key] more of each key; return it and its end."""
    total = 0
    for key in range(len(keys)):
        first = alive_from(history_of(keys, key, objects.times), keys[key, NEXT_SEQ], instant, count, micros)
        keys[key, FIRST_ALIVE] = max(keys[key, FIRST_ALIVE], first)
        total += room(keys[key, NEXT_SEQ] - keys[key, FIRST_ALIVE], arriving[key])
    size = total + total // 4 + 64
    target = Objects(
        np.empty((objects.floats.shape[0], size), np.float64),
        np.empty((objects.integers.shape[0], size), np.int64),
        np.empty(size, np.int64),
        objects.pool,
    )
    end = 0
    for key in range(len(keys)):
        capacity = room(keys[key, NEXT_SEQ] - keys[key, FIRST_ALIVE], arriving[key])
        relocate(keys, key, end, capacity, objects, target)
        end += capacity
    return target, end


@jit
def append(
    keys: I64, which: I64, start: I64, stop: I64, rows: Objects, objects: Objects, end: int, instant: int, count: int, micros: int
) -> tuple[Objects, int]:
    """Append rows start[g]..stop[g] to key which[g]; returns the (perhaps new) arena and its end. Amortised O(rows).

    ``which``, ``start``, ``stop`` int64 (m,). ``instant`` is the last one already processed: a rebuild
    drops what had expired by then from the window of ``count`` and ``micros``.
    """
    extra = 0
    for g in range(len(which)):
        key, more = which[g], stop[g] - start[g]
        if not fits(keys, key, more) and outgrown(keys, key, more):
            extra += room(keys[key, NEXT_SEQ] - keys[key, FIRST_ALIVE], more)
    if end + extra > len(objects.times):
        arriving = np.zeros(len(keys), np.int64)
        for g in range(len(which)):
            arriving[which[g]] = stop[g] - start[g]
        objects, end = rebuild(keys, arriving, objects, instant, count, micros)
    for g in range(len(which)):
        key, more = which[g], stop[g] - start[g]
        if not fits(keys, key, more):
            if outgrown(keys, key, more):
                capacity = room(keys[key, NEXT_SEQ] - keys[key, FIRST_ALIVE], more)
                relocate(keys, key, end, capacity, objects, objects)
                end += capacity
            else:
                relocate(keys, key, keys[key, REGION_START], keys[key, REGION_CAPACITY], objects, objects)
        move_objects(rows, objects, start[g], stop[g], keys[key, REGION_START] + keys[key, NEXT_SEQ] - keys[key, FIRST_STORED])
        keys[key, NEXT_SEQ] += more
    return objects, end
