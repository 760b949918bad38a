"""Positions of the retained objects of the key at work: looking them up, dropping the oldest, removing one among the others."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.critical import unlink
from skyband.operators.skyline.kernels.state import COARSE_END, END, FIRST, FREE, HOLES, OLDEST, POSITION, SEQ, Retained
from skyband.operators.skyline.kernels.words import WordLayout

CLOSE: int = 64
"""Removals this close to the newest object close the gap; others leave a hole until a quarter are holes."""

FEW: int = 32
"""Up to this many holes are left as they are."""


@jit(inline="always")
def first_from(seq: int, retained: Retained) -> int:
    """The position of the first object with at least this seq, or END. O(older ones)."""
    rows, slot, end = retained.rows, retained.slot, retained.marks[END]
    position: int = retained.marks[FIRST]
    while position < end and (slot[position] < 0 or rows[slot[position], SEQ] < seq):
        position += 1
    return position


@jit(inline="always")
def drop_before(position: int, retained: Retained) -> None:
    """Drop the objects before ``position``: they have left the state's window, and so has all that is older. O(dropped)."""
    links, slot, free, marks = retained.links, retained.slot, retained.free, retained.marks
    for p in range(marks[FIRST], position):
        if slot[p] >= 0:
            unlink(slot[p], -1, links)  # its critical dominator is older and left before
            free[marks[FREE]] = slot[p]
            marks[FREE] += 1
        else:
            marks[HOLES] -= 1
    marks[FIRST] = position


@jit(inline="always")
def settle_oldest(retained: Retained) -> None:
    """Skip holes at the first position and set the oldest seq."""
    slot, marks = retained.slot, retained.marks
    while marks[FIRST] < marks[END] and slot[marks[FIRST]] < 0:
        marks[FIRST] += 1
        marks[HOLES] -= 1
    marks[OLDEST] = retained.rows[slot[marks[FIRST]], SEQ] if marks[FIRST] < marks[END] else NEVER


@jit
def close_gap(word: AnyArray, slot: AnyArray, at: int, end: int) -> None:
    """Remove position ``at``: everything up to ``end`` moves down by one, in steps of 16 (the arrays reach at least 16 beyond ``end``)."""
    p = np.uint64(at)
    stop = np.uint64(end)
    while p < stop:
        for i in range(16):
            word[p + np.uint64(i)] = word[p + np.uint64(i) + np.uint64(1)]
        for i in range(16):
            slot[p + np.uint64(i)] = slot[p + np.uint64(i) + np.uint64(1)]
        p += np.uint64(16)


@jit(inline="always")
def remove_position(at: int, layout: WordLayout, queries: AnyArray, retained: Retained) -> None:
    """Take the object at position ``at`` out; the queries' (Q, 8) first positions follow. O(CLOSE)."""
    marks = retained.marks
    if marks[END] - at <= CLOSE:
        close_gap(retained.word, retained.slot, at, marks[END])
        marks[COARSE_END] = min(marks[COARSE_END], at)
        marks[END] -= 1
        for w in range(queries.shape[0]):
            if queries[w, POSITION] > at:
                queries[w, POSITION] -= 1
    else:
        retained.word[at] = layout.dead
        retained.coarse[at] = layout.coarse_dead
        retained.slot[at] = -1
        marks[HOLES] += 1


@jit(inline="always")
def many_holes(retained: Retained) -> bool:
    """Whether a quarter of the positions are holes."""
    marks = retained.marks
    many: bool = marks[HOLES] > FEW and marks[HOLES] * 4 > marks[END] - marks[FIRST]
    return many


@jit
def objects_before(position: int, retained: Retained) -> int:
    """The position ``position`` gets if all holes are closed. O(positions)."""
    first = retained.marks[FIRST]
    found: int = first
    for p in range(first, position):
        if retained.slot[p] >= 0:
            found += 1
    return found


@jit
def close_holes(queries: AnyArray, retained: Retained) -> None:
    """Close all holes and correct the queries' (Q, 8) first positions. O(positions)."""
    word, coarse, slot, marks = retained.word, retained.coarse, retained.slot, retained.marks
    for w in range(queries.shape[0]):
        queries[w, POSITION] = objects_before(queries[w, POSITION], retained)
    marks[COARSE_END] = objects_before(marks[COARSE_END], retained)
    end = marks[FIRST]
    for p in range(marks[FIRST], marks[END]):
        if slot[p] >= 0:
            slot[end] = slot[p]
            word[end] = word[p]
            coarse[end] = coarse[p]
            end += 1
    marks[END] = end
    marks[HOLES] = 0
