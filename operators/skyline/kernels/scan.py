"""Scan for an arrival: the K newest older objects that dominate it, and all that it dominates.

The retained objects of a key (those with fewer than K newer dominators) are scanned newest first. The scan ends at the K-th dominator of
the arrival: an older object that the arrival dominates is dominated by those K as well, hence gone already. So one short scan gives both
(strictness and ``distinct`` keep it so, docs/algorithms D4). Words test many objects per instruction, keys decide the hits.
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
    """The operands that test the words of a block (``block_tests``; int64 each)."""

    above: int
    below: int
    guard: int


@jit
def compare(rows: AnyArray, left: int, right: int, first: int, settings: Settings) -> int:
    """Return 1 if slot ``left`` is <= slot ``right`` in every dimension, 2 if >=, 3 if equal, 0 if neither or not comparable.

    ``rows`` (c, 3 + K + D) have keys from column ``first`` on, the first ``ordered`` of them with an order. Branch free in the dimensions.
    With levels, the first level in which the slots differ decides.
    """
    ordered = settings.ordered
    if settings.level_ends != 0:
        return compare_levels(rows, left, right, first, settings)
    no_greater: Any = np.int64(1)
    no_smaller: Any = np.int64(2)
    left_row = np.uint64(left)
    right_row = np.uint64(right)
    for j in range(first, first + ordered):
        left_key = rows[left_row, np.uint64(j)]
        right_key = rows[right_row, np.uint64(j)]
        no_greater &= np.int64(left_key <= right_key)
        no_smaller &= np.int64(left_key >= right_key) << 1
    for j in range(first + ordered, rows.shape[1]):
        if rows[left_row, np.uint64(j)] != rows[right_row, np.uint64(j)]:
            return 0
    both: int = no_greater + no_smaller
    return both


@jit
def compare_levels(rows: AnyArray, left: int, right: int, first: int, settings: Settings) -> int:
    """See ``compare``."""
    ordered = settings.ordered
    for j in range(first + ordered, rows.shape[1]):
        if rows[left, j] != rows[right, j]:
            return 0
    found = 3
    for j in range(ordered):
        left_key, right_key = rows[left, first + j], rows[right, first + j]
        if left_key > right_key:
            found &= 2
        if left_key < right_key:
            found &= 1
        if found == 0 or (found != 3 and (settings.level_ends >> j) & 1):
            break
    return found


@jit
def coarsen(word: int, layout: WordLayout) -> int:
    """Return the coarse word of a word, both without guard bits: monotone, so it tests the same way, only coarser."""
    cut: Any = np.int64(0)
    for j in range(layout.shifts.shape[0]):
        cut += (((word >> layout.shifts[j]) & layout.top) >> layout.coarse_drop) << (j * layout.coarse_bits)
    coarse: int = cut
    return coarse


@jit
def extend_coarse(layout: WordLayout, retained: Retained) -> int:
    """Write the missing coarse words if they are many, except for the newest objects; return their end. O(missing)."""
    word, coarse, marks = retained.word, retained.coarse, retained.marks
    if marks[END] - marks[COARSE_END] >= LONG:
        end = marks[END] - LONG // 2
        for position in range(marks[COARSE_END], end):
            coarse[position] = layout.coarse_guard + coarsen(word[position] - layout.guard, layout)
        marks[COARSE_END] = end
    found: int = marks[COARSE_END]
    return found


@jit(inline="always")
def skip_chunks(position: int, alive: int, coarse_end: int, test: WordTest, coarse_test: WordTest, retained: Retained) -> int:
    """Go down from ``position`` to ``alive`` by whole chunks without a hit; below ``coarse_end`` test coarse words first."""
    word, coarse = retained.word, retained.coarse
    while position - CHUNK >= alive:
        nearly = position > coarse_end or any_coarse(coarse, position - CHUNK, coarse_test.above, coarse_test.below, coarse_test.guard)
        if nearly and any_hit(word, position - CHUNK, test.above, test.below, test.guard):
            break
        position -= CHUNK
    return position


@jit(inline="always")
def take_dominators(candidates: int, position: int, fresh: int, found: int, settings: Settings, retained: Retained) -> tuple[int, int, int]:
    """Test the objects at ``position`` + the bits of ``candidates`` as dominators of slot ``fresh``, newest first.

    ``found``: how many it has already. Return how many it has then, the bit of the K-th (0 if there are fewer), and the number of tests.
    """
    rows, slots, first = retained.rows, retained.slot, DOMINATORS + settings.band
    last, tests = 0, 0
    while candidates != 0:
        bit = highest(candidates)
        slot = slots[position + bit]
        tests += 1
        if compare(rows, slot, fresh, first, settings) == 1:
            rows[fresh, DOMINATORS + found] = rows[slot, SEQ]
            retained.dominators[fresh, found] = slot
            found += 1
            if found == settings.band:
                last = bit
                break
        candidates ^= np.int64(1) << bit
    return found, last, tests


@jit(inline="always")
def take_dominated(candidates: int, position: int, fresh: int, count: int, settings: Settings, retained: Retained) -> tuple[int, int]:
    """Test the objects at ``position`` + the bits of ``candidates`` as dominated by slot ``fresh``, newest first.

    Append them to the ``count`` in ``retained.dominated``. Return how many there are then, and the number of tests.
    """
    rows, slots = retained.rows, retained.slot
    dominated, first = retained.dominated, DOMINATORS + settings.band
    tests = 0
    while candidates != 0:
        bit = highest(candidates)
        slot = slots[position + bit]
        tests += 1
        order = compare(rows, slot, fresh, first, settings)
        if order == 2 or (order == 3 and settings.distinct):
            dominated[count, 0] = slot
            dominated[count, 1] = position + bit
            count += 1
        candidates ^= np.int64(1) << bit
    return count, tests


@jit(inline="always")
def scan_retained(fresh: int, word: int, alive: int, settings: Settings, layout: WordLayout, retained: Retained) -> int:
    """Scan from the newest object down to position ``alive`` for the arrival in slot ``fresh`` with ``word`` (no guard bits).

    Write its dominators, and the objects it dominates to ``retained.dominated``; return how many those are. O(objects down to the K-th
    dominator).
    """
    rows, words = retained.rows, retained.word
    end, band = retained.marks[END], settings.band
    test = WordTest(word + layout.guard + layout.guard + 1, word - 1, layout.guard)
    coarse_test = test
    coarse_end = 0
    found, dominated, tests = 0, 0, 0
    position = end
    while position > alive:
        if position == end:
            position -= NEAR
            may_dominate, may_be_dominated = near_masks(words, position, test.above, test.below, test.guard)
        else:
            if coarse_end == 0 and position - alive >= LONG and layout.coarse_bits >= 4:
                coarse_end = extend_coarse(layout, retained)
                cut = coarsen(word, layout)
                coarse_test = WordTest(cut + layout.coarse_guard + layout.coarse_guard + 1, cut - 1, layout.coarse_guard)
            position = skip_chunks(position, alive, coarse_end, test, coarse_test, retained) - LANES
            may_dominate, may_be_dominated = far_masks(words, position, test.above, test.below, test.guard)
        if position < alive:  # The objects below have left.
            may_dominate = (may_dominate >> (alive - position)) << (alive - position)
            may_be_dominated = (may_be_dominated >> (alive - position)) << (alive - position)
        found, last, tests_up = take_dominators(may_dominate, position, fresh, found, settings, retained)
        dominated, tests_down = take_dominated((may_be_dominated >> last) << last, position, fresh, dominated, settings, retained)
        tests += tests_up + tests_down
        if found == band:
            break
    retained.marks[TESTS] += tests
    retained.marks[SCANNED] += end - position
    for j in range(found, band):
        rows[fresh, DOMINATORS + j] = -1
        retained.dominators[fresh, j] = -1
    return dominated
