"""Find and link the witnesses of objects: alive objects that dominate them (``window_state``)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import inner
from skyband.operators.skyline.kernels.state import SEQ
from skyband.operators.skyline.kernels.window_state import (
    AFTER,
    BEFORE,
    CHUNK,
    END,
    FIRST,
    KEYS,
    TESTS,
    TRACKED,
    WindowObjects,
    WindowSettings,
)


@inner
def dominates(rows: AnyArray, left: int, right: int, settings: WindowSettings) -> bool:
    """Return True if position ``left`` dominates ``right``; ``rows`` (c, 2 + D). O(D)."""
    better = False
    for j in range(settings.ordered):
        if rows[left, KEYS + j] > rows[right, KEYS + j]:
            return False
        better |= rows[left, KEYS + j] < rows[right, KEYS + j]
        if better and (settings.level_ends >> j) & 1:
            break
    better |= settings.distinct and left > right
    for j in range(KEYS + settings.ordered, rows.shape[1]):
        if rows[left, j] != rows[right, j]:
            return False
    return better


@inner
def compare_chunk(
    columns: AnyArray, row: AnyArray, first: int, end: int, settings: WindowSettings, better: bool, hits: AnyArray
) -> bool:  # fmt: skip
    """Set which of the objects [first, end) are in every dimension as good as ``row`` (2 + D,) or better; or worse if not ``better``.

    Of dimensions with an order only those of the first level are compared: objects that dominate others are as good in each of these.
    Return True if there is one. ``columns`` (D, c), ``hits`` (64,). O(D), branch free in the objects.
    """
    for i in range(end - first):
        hits[i] = 1
    for j in range(columns.shape[0]):
        column, value = columns[j, first:end], row[KEYS + j]
        if settings.first_level <= j < settings.ordered:
            continue
        if j >= settings.ordered:
            for i in range(len(column)):
                hits[i] &= np.int64(column[i] == value)
        elif better:
            for i in range(len(column)):
                hits[i] &= np.int64(column[i] <= value)
        else:
            for i in range(len(column)):
                hits[i] &= np.int64(column[i] >= value)
    found = 0
    for i in range(end - first):
        found |= hits[i]
    return found > 0


@inner
def link(objects: WindowObjects, node: int, witness: int) -> None:
    """Let ``node`` name the position ``witness``. O(1)."""
    band = objects.witness.shape[1]
    objects.witness[node // band, node % band] = witness
    first = objects.node[witness]
    objects.next[node], objects.previous[node] = first, -1
    if first >= 0:
        objects.previous[first] = node
    objects.node[witness] = node


@inner
def unlink(objects: WindowObjects, node: int) -> None:
    """Let ``node`` name nothing. O(1)."""
    band = objects.witness.shape[1]
    witness = objects.witness[node // band, node % band]
    if witness < 0:
        return
    after, before = objects.next[node], objects.previous[node]
    if after >= 0:
        objects.previous[after] = before
    if before >= 0:
        objects.next[before] = after
    else:
        objects.node[witness] = after
    objects.witness[node // band, node % band] = -1


@inner
def critical_of(objects: WindowObjects, position: int) -> int:
    """Return the seq of the oldest of the K witnesses, or -1 if there are fewer. O(K)."""
    oldest = objects.marks[END]
    for j in range(objects.witness.shape[1]):
        oldest = min(oldest, objects.witness[position, j])
    critical: int = objects.rows[oldest, SEQ] if oldest >= 0 else -1
    return critical


@inner
def find_witnesses(objects: WindowObjects, position: int, settings: WindowSettings) -> None:
    """Make the K newest dominators of an object its witnesses; set what is critical after the event. O(objects newer than the last)."""
    dead, marks, hits = objects.dead, objects.marks, objects.hits
    node = position * settings.band
    last_node = node + settings.band
    for old in range(node, last_node):
        unlink(objects, old)
    end = marks[END]
    while end > marks[FIRST] and node < last_node:
        first = max(marks[FIRST], end - CHUNK)
        marks[TESTS] += end - first
        if compare_chunk(objects.columns, objects.rows[position], first, end, settings, True, hits):
            for other in range(end - 1, first - 1, -1):
                if hits[other - first] and node < last_node and not dead[other] and dominates(objects.rows, other, position, settings):
                    link(objects, node, other)
                    node += 1
        end = first
    objects.critical[position, AFTER] = critical_of(objects, position)


@inner
def add_witness(objects: WindowObjects, position: int, witness: int, band: int) -> None:
    """Add the newest dominator of a tracked object to its witnesses, in place of the oldest. O(K)."""
    oldest = position * band
    for node in range(oldest + 1, oldest + band):
        if objects.witness[position, node % band] < objects.witness[position, oldest % band]:
            oldest = node
    unlink(objects, oldest)
    link(objects, oldest, witness)
    objects.critical[position, AFTER] = critical_of(objects, position)


@inner
def track(objects: WindowObjects, position: int) -> None:
    """Track an object, whose witnesses are its newest dominators. O(1)."""
    if objects.place[position] < 0:
        objects.place[position] = objects.marks[TRACKED]
        objects.tracked[objects.marks[TRACKED]] = position
        for j in range(objects.columns.shape[0]):
            objects.tracked_columns[j, objects.marks[TRACKED]] = objects.columns[j, position]
        objects.marks[TRACKED] += 1


@inner
def stop_tracking(objects: WindowObjects, position: int) -> None:
    """Track an object no longer. O(1)."""
    place, marks = objects.place[position], objects.marks
    if place >= 0:
        marks[TRACKED] -= 1
        last = objects.tracked[marks[TRACKED]]
        objects.tracked[place] = last
        for j in range(objects.columns.shape[0]):
            objects.tracked_columns[j, place] = objects.columns[j, last]
        objects.place[last] = place
        objects.place[position] = -1


@inner
def make_exact(objects: WindowObjects, position: int, settings: WindowSettings) -> None:
    """Find the newest dominators of an object unless it is tracked, and known so."""
    if objects.place[position] < 0:
        find_witnesses(objects, position, settings)
        objects.critical[position, BEFORE] = objects.critical[position, AFTER]


@inner
def drop(objects: WindowObjects, position: int) -> None:
    """Remove an object that left the state's window, the oldest one. O(K + objects it is a witness of).

    These are tracked (for others it would have been replaced as it left), so it was the oldest dominator that they had.
    """
    band = objects.witness.shape[1]
    for node in range(position * band, position * band + band):
        unlink(objects, node)
    while objects.node[position] >= 0:
        node = objects.node[position]
        unlink(objects, node)
        objects.critical[node // band, BEFORE] = objects.critical[node // band, AFTER] = -1
    stop_tracking(objects, position)
