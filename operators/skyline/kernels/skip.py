"""Find the arrivals that never show, for a whole stretch of arrivals at once, before each is processed by itself (K = 1).

An arrival r is passed over if (1) an older object p alive in every query's window to the end of the stretch dominates it, and (2) a newer
arrival j of the same stretch dominates it. Exact, by transitivity: r is no member, since p, or the object that removes p and hence
dominates r too, is alive until j removes r. An object that r would have removed is dominated by p too, hence no member, and goes with j.
An object that r would have kept out is kept out by p until j removes it. The last j of a chain is not passed over, so at the end of the
stretch the state is the same.

Words decide alone here: a smaller field means a smaller value, so "smaller in every field" is sufficient for dominance.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.block_tests import LANES, far_masks, highest
from skyband.operators.skyline.kernels.borrowed import borrowed
from skyband.operators.skyline.kernels.positions import first_from
from skyband.operators.skyline.kernels.state import COUNT, END, FRONT, NEXT_EVENT, OLDEST, SEQ, TIME, Block, Retained, Settings, Stretch
from skyband.operators.skyline.kernels.words import WordLayout
from skyband.operators.windows import UNBOUNDED

STRETCH: int = 1024

AHEAD: int = 128
"""How many arrivals of a stretch that nothing newer dominates are tried as j."""

KNOWN: int = 64
"""How many objects that dominated an arrival are remembered and tried as p before the retained ones."""

MANY: int = 2048
"""How many of the retained objects, newest first, are tried as p."""

PAUSE: int = 16
"""How many stretches go by untried after one in which less than a quarter was passed over."""

FAR: int = 2**61
"""Stands for NEVER in sums."""

BEGIN, STOP, UNTRIED, TURN = range(4)
"""Places in the marks of the ``Stretch``: its first row and the one after its last; how many stretches still go by untried; the place in
``known`` that is replaced next."""


@jit
def new_stretch() -> Stretch:
    """Return room for a stretch."""
    return Stretch(
        np.empty(AHEAD, np.int64), np.empty(KNOWN, np.int64), np.empty(KNOWN, np.int64), np.empty(STRETCH, np.int64), np.zeros(4, np.int64)
    )


@jit(inline="always")
def begin_key(row: int, stretch: Stretch) -> None:
    """Reset the stretch for another key: it ends at ``row``, and no dominator is known."""
    marks = stretch.marks
    marks[BEGIN] = marks[STOP] = row
    marks[UNTRIED] = 0
    marks[TURN] = LANES
    for i in range(KNOWN):
        stretch.known_seq[i] = -1


@jit
def find_smaller(words: AnyArray, count: int, above: int, guard: int) -> int:
    """Return the place among the first ``count`` words (padded with dead ones) of one smaller in every field, or -1. O(count)."""
    for position in range(0, count, LANES):
        smaller, _ = far_masks(words, position, above, 0, guard)
        if smaller != 0:
            found: int = position + highest(smaller)
            return found
    return -1


@jit(inline="always")
def swap(values: AnyArray, first: int, second: int) -> None:
    """Exchange two places."""
    value = values[first]
    values[first] = values[second]
    values[second] = value


@jit(inline="always")
def dominated_ahead(word: int, place: int, above: int, count: int, layout: WordLayout, ahead: AnyArray) -> tuple[bool, int]:
    """Return True if one of the first ``count`` arrivals ``ahead`` dominates the arrival with ``word``, and the new ``count``. O(count).

    ``above`` tests for words smaller in every field (``block_tests``). A dominating arrival moves to ``place`` < LANES, to be tried first;
    an arrival that none dominates is added.
    """
    found = find_smaller(ahead, count, above, layout.guard)
    if found >= LANES:
        swap(ahead, found, place)
    if found < 0 and count < AHEAD:
        ahead[count] = word + layout.guard
        count += 1
    return found >= 0, count


@jit(inline="always")
def dominated_by_older(place: int, above: int, position: int, guard: int, retained: Retained, stretch: Stretch) -> bool:
    """Return True if a known object, or a retained one from ``position`` on, dominates the arrival; the latter is known from then on.

    ``above`` and ``place`` as in ``dominated_ahead``. O(KNOWN), and O(MANY) if no known object does.
    """
    known, known_seq = stretch.known, stretch.known_seq
    word, slots = retained.word, retained.slot
    index = find_smaller(known, KNOWN, above, guard)
    is_dominated = index >= 0
    if index >= LANES:
        swap(known, index, place)
        swap(known_seq, index, place)
    if index < 0:
        index = retained.marks[END]
        last = max(position, index - MANY)
        while index > last:
            index -= LANES
            found, _ = far_masks(word, index, above, 0, guard)
            if found != 0:
                hit = index + highest(found)
                if hit >= position and slots[hit] >= 0:
                    is_dominated = True
                    turn = stretch.marks[TURN]
                    known[turn] = word[hit]
                    known_seq[turn] = retained.rows[slots[hit], SEQ]
                    stretch.marks[TURN] = LANES + (turn + 1) % (KNOWN - LANES)
                break
    return is_dominated


@jit
def pass_over(
    begin: int, size: int, position: int, oldest: int, layout: WordLayout, block: Block, retained: Retained, stretch: Stretch
) -> int:
    """Set ``stretch.following`` for the ``size`` arrivals from row ``begin`` on; return how many are passed over.

    An object is tried as p if its seq is at least ``oldest``; the retained ones are those from ``position`` on. O(AHEAD + KNOWN) per
    arrival, and O(MANY) for those that no known object dominates.
    """
    layout, block = borrowed(layout), borrowed(block)
    retained, stretch = borrowed(retained), borrowed(stretch)
    ahead, following, words = stretch.ahead, stretch.following, block.words
    usable, guard = block.usable, layout.guard
    for i in range(AHEAD):
        ahead[i] = layout.dead
    for i in range(KNOWN):
        if stretch.known_seq[i] < oldest:
            stretch.known[i] = layout.dead
    count = 0
    passed = 0
    following_row = size
    for i in range(size - 1, -1, -1):
        skipped = False
        if usable[begin + i]:
            word = words[begin + i]
            above = word - layout.ones + guard + guard + 1
            place = i & (LANES - 1)
            skipped, count = dominated_ahead(word, place, above, count, layout, ahead)
            skipped = skipped and dominated_by_older(place, above, position, guard, retained, stretch)
        if skipped:
            passed += 1
        else:
            following_row = i
        following[i] = following_row
    return passed


@jit(inline="always")
def plan_stretch(row: int, end: int, settings: Settings, layout: WordLayout, block: Block, retained: Retained, stretch: Stretch) -> None:
    """Look ahead from ``row`` on, not beyond ``end``."""
    marks = stretch.marks
    size = min(STRETCH, end - row)
    marks[BEGIN] = row
    marks[STOP] = row + size
    if marks[UNTRIED] > 0:
        marks[UNTRIED] -= 1
        for i in range(size):
            stretch.following[i] = i
    else:
        # The objects alive in every query's window to the end of the stretch.
        rows, slots, stop = retained.rows, retained.slot, retained.marks[END]
        oldest = max(0, block.seq[row + size - 1] - settings.least_count + 1)
        position = first_from(oldest, retained)
        if settings.least_micros < UNBOUNDED:
            since = block.time[row + size - 1] - settings.least_micros
            while position < stop and (slots[position] < 0 or rows[slots[position], TIME] <= since):
                position += 1
            oldest = max(oldest, rows[slots[position], SEQ] if position < stop else NEVER)
        passed = pass_over(row, size, position, oldest, layout, block, retained, stretch)
        if passed * 4 < size:
            marks[UNTRIED] = PAUSE


@jit(inline="always")
def next_counting(row: int, stretch: Stretch) -> int:
    """Return the first arrival from ``row`` on that is not passed over."""
    begin = stretch.marks[BEGIN]
    following: int = begin + stretch.following[row - begin]
    return following


@jit(inline="always")
def undisturbed(row: int, following: int, settings: Settings, block: Block, queries: AnyArray, retained: Retained) -> int:
    """Return the first arrival from ``row`` on that does more than occupy the window; ``following`` if none does before it.

    Such an arrival pushes a retained object out of a window of the state or of a query (Q, 8), or an event is due then. O(passed).
    """
    seq = min(retained.marks[OLDEST], FAR) + settings.window_count
    for query in range(queries.shape[0]):
        seq = min(seq, min(queries[query, FRONT], FAR) + queries[query, COUNT])
    stop: int = min(following, row + max(0, seq - block.seq[row]))
    if settings.timed:
        first = row
        while first < stop and block.time[first] < retained.marks[NEXT_EVENT]:
            first += 1
        stop = first
    return stop
