"""Look up positions of the retained objects of the key at work, drop the oldest, and remove others."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.state import (
    CHILD,
    COARSE_END,
    CRITICAL,
    CRITICAL_NEXT,
    DOMINATORS,
    END,
    FIRST,
    FREE,
    GONE,
    HOLES,
    NEWER,
    NEXT,
    OLDEST,
    POSITION,
    PREVIOUS,
    SEQ,
    Retained,
)
from skyband.operators.skyline.kernels.words import WordLayout

# Keep a list per dominator of the objects it is critical for, to find at once the objects that may be promoted when it leaves.


@jit(inline="always")
def link(slot: int, parent: int, links: AnyArray) -> None:
    """Put ``slot`` first in the list of ``parent`` (-1: in none); ``links`` (c, 5). O(1)."""
    links[slot, PREVIOUS] = -1
    links[slot, NEXT] = -1
    if parent >= 0:
        following = links[parent, CHILD]
        links[slot, NEXT] = following
        if following >= 0:
            links[following, PREVIOUS] = slot
        links[parent, CHILD] = slot


@jit(inline="always")
def unlink(slot: int, parent: int, links: AnyArray) -> None:
    """Take ``slot`` out of its list; ``parent`` is -1 if it has left already; ``links`` (c, 5). O(1)."""
    previous, following = links[slot, PREVIOUS], links[slot, NEXT]
    if previous >= 0:
        links[previous, NEXT] = following
    elif parent >= 0:
        links[parent, CHILD] = following
    if following >= 0:
        links[following, PREVIOUS] = previous


@jit(inline="always")
def dominator_slot(slot: int, j: int, retained: Retained) -> int:
    """Return the slot of the j-th newest older dominator of ``slot``, -1 if there is none or it has left."""
    found: int = retained.dominators[slot, j]
    if found >= 0 and retained.rows[found, SEQ] != retained.rows[slot, DOMINATORS + j]:
        found = -1  # It left, and its slot is another's.
    return found


@jit(inline="always")
def foresee(fresh: int, dominated: int, band: int, retained: Retained) -> int:
    """Set ``CRITICAL_NEXT`` of the arrival in slot ``fresh`` and of the objects it dominates.

    Return the smallest seq among its own critical dominator and those of the objects it dominates so far: a query's result changes iff that
    is before the query's head. O(dominated).
    """
    rows, links = retained.rows, retained.links
    least: int = rows[fresh, DOMINATORS + band - 1]
    links[fresh, CRITICAL] = GONE
    links[fresh, CRITICAL_NEXT] = least
    links[fresh, CHILD] = -1
    for j in range(dominated):
        slot = retained.dominated[j, 0]
        left = band - 2 - rows[slot, NEWER]
        links[slot, CRITICAL_NEXT] = rows[slot, DOMINATORS + left] if left >= 0 else GONE
        least = min(least, links[slot, CRITICAL])
    return least


CLOSE: int = 64
"""Removals this close to the newest object close the gap; others leave a hole until a quarter are holes."""

FEW: int = 32
"""Up to this many holes are left as they are."""


@jit(inline="always")
def first_from(seq: int, retained: Retained) -> int:
    """Return the position of the first object with at least this seq, or END. O(older ones)."""
    rows, slots, end = retained.rows, retained.slot, retained.marks[END]
    position: int = retained.marks[FIRST]
    while position < end and (slots[position] < 0 or rows[slots[position], SEQ] < seq):
        position += 1
    return position


@jit(inline="always")
def drop_before(position: int, retained: Retained) -> None:
    """Drop the objects before ``position``: they and all older ones have left the state's window. O(dropped)."""
    links, slots = retained.links, retained.slot
    free, marks = retained.free, retained.marks
    for place in range(marks[FIRST], position):
        if slots[place] >= 0:
            unlink(slots[place], -1, links)  # Its critical dominator is older and left before.
            free[marks[FREE]] = slots[place]
            marks[FREE] += 1
        else:
            marks[HOLES] -= 1
    marks[FIRST] = position


@jit(inline="always")
def settle_oldest(retained: Retained) -> None:
    """Skip holes at the first position and set the oldest seq."""
    slots, marks = retained.slot, retained.marks
    while marks[FIRST] < marks[END] and slots[marks[FIRST]] < 0:
        marks[FIRST] += 1
        marks[HOLES] -= 1
    marks[OLDEST] = retained.rows[slots[marks[FIRST]], SEQ] if marks[FIRST] < marks[END] else NEVER


@jit
def close_gap(word: AnyArray, slot: AnyArray, at: int, end: int) -> None:
    """Remove position ``at``: move up to ``end`` down by one, in steps of 16 (the arrays reach at least 16 beyond ``end``)."""
    position = np.uint64(at)
    stop = np.uint64(end)
    while position < stop:
        for i in range(16):
            word[position + np.uint64(i)] = word[position + np.uint64(i) + np.uint64(1)]
        for i in range(16):
            slot[position + np.uint64(i)] = slot[position + np.uint64(i) + np.uint64(1)]
        position += np.uint64(16)


@jit(inline="always")
def remove_position(at: int, layout: WordLayout, queries: AnyArray, retained: Retained) -> None:
    """Remove the object at position ``at``, and adjust the first positions of the queries (Q, 8). O(CLOSE)."""
    marks = retained.marks
    if marks[END] - at <= CLOSE:
        close_gap(retained.word, retained.slot, at, marks[END])
        marks[COARSE_END] = min(marks[COARSE_END], at)
        marks[END] -= 1
        for query in range(queries.shape[0]):
            if queries[query, POSITION] > at:
                queries[query, POSITION] -= 1
    else:
        retained.word[at] = layout.dead
        retained.coarse[at] = layout.coarse_dead
        retained.slot[at] = -1
        marks[HOLES] += 1


@jit(inline="always")
def many_holes(retained: Retained) -> bool:
    """Return True if a quarter of the positions are holes."""
    marks = retained.marks
    many: bool = marks[HOLES] > FEW and marks[HOLES] * 4 > marks[END] - marks[FIRST]
    return many


@jit
def objects_before(position: int, retained: Retained) -> int:
    """Return the position that ``position`` gets when all holes are closed. O(positions)."""
    first = retained.marks[FIRST]
    found: int = first
    for place in range(first, position):
        if retained.slot[place] >= 0:
            found += 1
    return found


@jit
def close_holes(queries: AnyArray, retained: Retained) -> None:
    """Close all holes and correct the queries' (Q, 8) first positions. O(positions)."""
    word, coarse = retained.word, retained.coarse
    slots, marks = retained.slot, retained.marks
    for query in range(queries.shape[0]):
        queries[query, POSITION] = objects_before(queries[query, POSITION], retained)
    marks[COARSE_END] = objects_before(marks[COARSE_END], retained)
    end = marks[FIRST]
    for position in range(marks[FIRST], marks[END]):
        if slots[position] >= 0:
            slots[end] = slots[position]
            word[end] = word[position]
            coarse[end] = coarse[position]
            end += 1
    marks[END] = end
    marks[HOLES] = 0
