"""The scan of an arrival: the K newest older objects that dominate it, and all that it dominates.

The retained objects of a key (those with fewer than K newer dominators) are scanned newest first. The scan ends at the K-th dominator of
the arrival: whatever is older and dominated by the arrival is dominated by those K as well, hence gone already. So one short scan gives
both (strictness and ``distinct`` keep it so, docs/algorithms D4). Words test many objects per instruction, keys decide the hits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.block_tests import CHUNK, LANES, NEAR, any_coarse, any_hit, far_masks, highest, near_masks
from skyband.operators.skyline.kernels.state import COARSE_END, DOMINATORS, END, SCANNED, SEQ, TESTS, Retained, Settings
from skyband.operators.skyline.kernels.words import WordLayout

LONG: int = 512
"""Scans this long use coarse words."""


class WordTest(NamedTuple):
    """What the words of a block are tested with (``block_tests``; int64 each)."""

    above: int
    below: int
    guard: int


@jit
def compare(rows: AnyArray, a: int, b: int, first: int, ordered: int) -> int:
    """1 if slot a is <= slot b in every dimension, 2 if >=, 3 if equal, 0 if neither or not comparable. Branch free in the dimensions.

    ``rows`` (c, 3 + K + D) have keys from column ``first`` on, the first ``ordered`` of them with an order.
    """
    le: Any = np.int64(1)
    ge: Any = np.int64(2)
    p = np.uint64(a)
    q = np.uint64(b)
    for j in range(first, first + ordered):
        x = rows[p, np.uint64(j)]
        y = rows[q, np.uint64(j)]
        le &= np.int64(x <= y)
        ge &= np.int64(x >= y) << 1
    for j in range(first + ordered, rows.shape[1]):
        if rows[p, np.uint64(j)] != rows[q, np.uint64(j)]:
            return 0
    both: int = le + ge
    return both


@jit
def coarsen(word: int, layout: WordLayout) -> int:
    """The coarse word of a word without guard bits, without them too: monotone, so it tests the same way, only coarser."""
    cut: Any = np.int64(0)
    for j in range(layout.shifts.shape[0]):
        cut += (((word >> layout.shifts[j]) & layout.top) >> layout.coarse_drop) << (j * layout.coarse_bits)
    coarse: int = cut
    return coarse


@jit
def extend_coarse(layout: WordLayout, retained: Retained) -> int:
    """Write the coarse words that are missing, if they are many, but for the newest objects; returns their end. O(missing)."""
    word, coarse, marks = retained.word, retained.coarse, retained.marks
    if marks[END] - marks[COARSE_END] >= LONG:
        end = marks[END] - LONG // 2
        for p in range(marks[COARSE_END], end):
            coarse[p] = layout.coarse_guard + coarsen(word[p] - layout.guard, layout)
        marks[COARSE_END] = end
    found: int = marks[COARSE_END]
    return found


@jit(inline="always")
def skip_chunks(p: int, alive: int, coarse_end: int, test: WordTest, coarse_test: WordTest, retained: Retained) -> int:
    """Go down from position ``p`` to ``alive`` by whole chunks without a hit; coarse words tell below ``coarse_end``."""
    word, coarse = retained.word, retained.coarse
    while p - CHUNK >= alive:
        nearly = p > coarse_end or any_coarse(coarse, p - CHUNK, coarse_test.above, coarse_test.below, coarse_test.guard)
        if nearly and any_hit(word, p - CHUNK, test.above, test.below, test.guard):
            break
        p -= CHUNK
    return p


@jit(inline="always")
def take_dominators(up: int, p: int, fresh: int, found: int, settings: Settings, retained: Retained) -> tuple[int, int, int]:
    """Test the objects at position p + the bits of ``up`` as dominators of slot ``fresh``, newest first, which has ``found`` already.

    Returns how many it has then, the bit of the K-th (0 if there are fewer), and the number of tests.
    """
    rows, slot, first = retained.rows, retained.slot, DOMINATORS + settings.band
    last, tests = 0, 0
    while up != 0:
        bit = highest(up)
        s = slot[p + bit]
        tests += 1
        if compare(rows, s, fresh, first, settings.ordered) == 1:
            rows[fresh, DOMINATORS + found] = rows[s, SEQ]
            retained.dominators[fresh, found] = s
            found += 1
            if found == settings.band:
                last = bit
                break
        up ^= np.int64(1) << bit
    return found, last, tests


@jit(inline="always")
def take_dominated(down: int, p: int, fresh: int, count: int, settings: Settings, retained: Retained) -> tuple[int, int]:
    """Test the objects at position p + the bits of ``down`` as dominated by slot ``fresh``, newest first.

    Writes them to ``retained.dominated`` behind the ``count`` that stand there. Returns how many there are then, and the number of tests.
    """
    rows, slot, dominated, first = retained.rows, retained.slot, retained.dominated, DOMINATORS + settings.band
    tests = 0
    while down != 0:
        bit = highest(down)
        s = slot[p + bit]
        tests += 1
        order = compare(rows, s, fresh, first, settings.ordered)
        if order == 2 or (order == 3 and settings.distinct):
            dominated[count, 0] = s
            dominated[count, 1] = p + bit
            count += 1
        down ^= np.int64(1) << bit
    return count, tests


@jit(inline="always")
def scan_retained(fresh: int, word: int, alive: int, settings: Settings, layout: WordLayout, retained: Retained) -> int:
    """Scan from the newest object down to position ``alive`` for the arrival in slot ``fresh`` with ``word`` (no guard bits).

    Writes its dominators, and to ``retained.dominated`` what it dominates; returns how many that are. O(objects down to the K-th
    dominator).
    """
    rows, words, end, band = retained.rows, retained.word, retained.marks[END], settings.band
    test = WordTest(word + layout.guard + layout.guard + 1, word - 1, layout.guard)
    coarse_test = test
    coarse_end = 0
    found, dominated, tests = 0, 0, 0
    p = end
    while p > alive:
        if p == end:
            p -= NEAR
            up, down = near_masks(words, p, test.above, test.below, test.guard)
        else:
            if coarse_end == 0 and p - alive >= LONG and layout.coarse_bits >= 4:
                coarse_end = extend_coarse(layout, retained)
                cut = coarsen(word, layout)
                coarse_test = WordTest(cut + layout.coarse_guard + layout.coarse_guard + 1, cut - 1, layout.coarse_guard)
            p = skip_chunks(p, alive, coarse_end, test, coarse_test, retained) - LANES
            up, down = far_masks(words, p, test.above, test.below, test.guard)
        if p < alive:  # what is below has left
            up = (up >> (alive - p)) << (alive - p)
            down = (down >> (alive - p)) << (alive - p)
        found, last, tests_up = take_dominators(up, p, fresh, found, settings, retained)
        dominated, tests_down = take_dominated((down >> last) << last, p, fresh, dominated, settings, retained)
        tests += tests_up + tests_down
        if found == band:
            break
    retained.marks[TESTS] += tests
    retained.marks[SCANNED] += end - p
    for j in range(found, band):
        rows[fresh, DOMINATORS + j] = -1
        retained.dominators[fresh, j] = -1
    return dominated
