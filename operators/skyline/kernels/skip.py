"""Arrivals that never show: found for a whole stretch of arrivals at once, before any of them is looked at one by one (K = 1).

An arrival r is passed over if (1) an older object p alive in every query's window to the end of the stretch dominates it, and (2) a newer
arrival j of the same stretch dominates it. Exact, by transitivity: r is no member, since p, or what removes p and hence dominates r too, is
alive until j removes r; whatever r would have removed is dominated by p too, hence no member, and goes with j; whatever r would have kept
out is kept out by p until j removes it. The last j of a chain is not passed over, so at the end of the stretch the state is the same.

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
    """Room for a stretch."""
    return Stretch(
        np.empty(AHEAD, np.int64), np.empty(KNOWN, np.int64), np.empty(KNOWN, np.int64), np.empty(STRETCH, np.int64), np.zeros(4, np.int64)
    )


@jit(inline="always")
def begin_key(row: int, stretch: Stretch) -> None:
    """Forget the last key: nothing is looked ahead up to ``row``, nothing known."""
    marks = stretch.marks
    marks[BEGIN] = marks[STOP] = row
    marks[UNTRIED] = 0
    marks[TURN] = LANES
    for i in range(KNOWN):
        stretch.known_seq[i] = -1


@jit
def find_smaller(words: AnyArray, n: int, above: int, guard: int) -> int:
    """Where one of the first n words (then dead ones up to a multiple of ``LANES``) that is smaller in every field is, or -1. O(n)."""
    for p in range(0, n, LANES):
        smaller, _ = far_masks(words, p, above, 0, guard)
        if smaller != 0:
            at: int = p + highest(smaller)
            return at
    return -1


@jit(inline="always")
def swap(values: AnyArray, a: int, b: int) -> None:
    """Exchange two places."""
    x = values[a]
    values[a] = values[b]
    values[b] = x


@jit(inline="always")
def dominated_ahead(word: int, place: int, above: int, n: int, layout: WordLayout, ahead: AnyArray) -> tuple[bool, int]:
    """Whether one of the first n arrivals ``ahead`` dominates the arrival with ``word``, and n with this arrival if not. O(n).

    ``above`` tests for words smaller in every field (``block_tests``); what dominates moves to ``place`` < LANES, to be tried first.
    """
    p = find_smaller(ahead, n, above, layout.guard)
    if p >= LANES:
        swap(ahead, p, place)
    if p < 0 and n < AHEAD:
        ahead[n] = word + layout.guard
        n += 1
    return p >= 0, n


@jit(inline="always")
def dominated_by_older(place: int, above: int, position: int, guard: int, retained: Retained, stretch: Stretch) -> bool:
    """Whether a known object, or a retained one from ``position`` on, dominates the arrival; a retained one is known from then on.

    ``above`` and ``place`` as in ``dominated_ahead``. O(KNOWN), and O(MANY) if no known object does.
    """
    known, known_seq, word, slot = stretch.known, stretch.known_seq, retained.word, retained.slot
    p = find_smaller(known, KNOWN, above, guard)
    over = p >= 0
    if p >= LANES:
        swap(known, p, place)
        swap(known_seq, p, place)
    if p < 0:
        p = retained.marks[END]
        last = max(position, p - MANY)
        while p > last:
            p -= LANES
            found, _ = far_masks(word, p, above, 0, guard)
            if found != 0:
                q = p + highest(found)
                if q >= position and slot[q] >= 0:
                    over = True
                    turn = stretch.marks[TURN]
                    known[turn] = word[q]
                    known_seq[turn] = retained.rows[slot[q], SEQ]
                    stretch.marks[TURN] = LANES + (turn + 1) % (KNOWN - LANES)
                break
    return over


@jit
def pass_over(
    begin: int, m: int, position: int, oldest: int, layout: WordLayout, block: Block, retained: Retained, stretch: Stretch
) -> int:
    """Set ``stretch.following`` for the m arrivals from row ``begin`` on; returns how many are passed over.

    An object is tried as p if its seq is at least ``oldest``; the retained ones are those from ``position`` on. O(AHEAD + KNOWN) per
    arrival, and O(MANY) for those that no known object dominates.
    """
    layout, block, retained, stretch = borrowed(layout), borrowed(block), borrowed(retained), borrowed(stretch)
    ahead, following, words, usable, guard = stretch.ahead, stretch.following, block.words, block.usable, layout.guard
    for i in range(AHEAD):
        ahead[i] = layout.dead
    for i in range(KNOWN):
        if stretch.known_seq[i] < oldest:
            stretch.known[i] = layout.dead
    n = 0
    passed = 0
    counts = m
    for i in range(m - 1, -1, -1):
        over = False
        if usable[begin + i]:
            word = words[begin + i]
            above = word - layout.ones + guard + guard + 1
            place = i & (LANES - 1)
            over, n = dominated_ahead(word, place, above, n, layout, ahead)
            over = over and dominated_by_older(place, above, position, guard, retained, stretch)
        if over:
            passed += 1
        else:
            counts = i
        following[i] = counts
    return passed


@jit(inline="always")
def plan_stretch(row: int, end: int, settings: Settings, layout: WordLayout, block: Block, retained: Retained, stretch: Stretch) -> None:
    """Look ahead from ``row`` on, not beyond ``end``."""
    marks = stretch.marks
    m = min(STRETCH, end - row)
    marks[BEGIN] = row
    marks[STOP] = row + m
    if marks[UNTRIED] > 0:
        marks[UNTRIED] -= 1
        for i in range(m):
            stretch.following[i] = i
    else:
        # what is alive in every query's window to the end of the stretch
        rows, slot, stop = retained.rows, retained.slot, retained.marks[END]
        oldest = max(0, block.seq[row + m - 1] - settings.least_count + 1)
        position = first_from(oldest, retained)
        if settings.least_micros < UNBOUNDED:
            since = block.time[row + m - 1] - settings.least_micros
            while position < stop and (slot[position] < 0 or rows[slot[position], TIME] <= since):
                position += 1
            oldest = max(oldest, rows[slot[position], SEQ] if position < stop else NEVER)
        passed = pass_over(row, m, position, oldest, layout, block, retained, stretch)
        if passed * 4 < m:
            marks[UNTRIED] = PAUSE


@jit(inline="always")
def next_counting(row: int, stretch: Stretch) -> int:
    """The first arrival from ``row`` on that is not passed over."""
    begin = stretch.marks[BEGIN]
    following: int = begin + stretch.following[row - begin]
    return following


@jit(inline="always")
def undisturbed(row: int, following: int, settings: Settings, block: Block, queries: AnyArray, retained: Retained) -> int:
    """The first arrival from ``row`` to ``following`` at which more happens than that it occupies the window; ``following`` if none is.

    It pushes a retained object out of a window of the state or of a query (Q, 8), or something is due at its instant. O(passed).
    """
    seq = min(retained.marks[OLDEST], FAR) + settings.window_count
    for w in range(queries.shape[0]):
        seq = min(seq, min(queries[w, FRONT], FAR) + queries[w, COUNT])
    stop: int = min(following, row + max(0, seq - block.seq[row]))
    if settings.timed:
        first = row
        while first < stop and block.time[first] < retained.marks[NEXT_EVENT]:
            first += 1
        stop = first
    return stop
