"""Advance a bucket in one call: process arrivals and time events of every key, for every query."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.block_tests import CHUNK, LANES, NEAR, any_coarse, any_hit, far_masks, highest, near_masks
from skyband.operators.skyline.kernels.events import borrowed, elapse, move_head, settle_front
from skyband.operators.skyline.kernels.positions import (
    close_holes,
    dominator_slot,
    drop_before,
    first_from,
    foresee,
    link,
    many_holes,
    remove_position,
    settle_oldest,
    unlink,
)
from skyband.operators.skyline.kernels.state import (
    CHILD,
    COARSE_END,
    COUNT,
    CRITICAL,
    CRITICAL_NEXT,
    DOMINATORS,
    END,
    FIRST,
    FREE,
    FRONT,
    GONE,
    HEAD,
    HOLES,
    LAST,
    MICROS,
    NEWER,
    NEXT_BOUNDARY,
    NEXT_EVENT,
    OLDEST,
    ORPHANS,
    POSITION,
    SCANNED,
    SEQ,
    SLOTS,
    TESTS,
    TIME,
    Block,
    ChangeRows,
    Retained,
    Settings,
    Shown,
    Stretch,
    Table,
    Workspace,
    empty_changes,
    ensure_capacity,
)
from skyband.operators.skyline.kernels.tables import carry_over_starts, find, load_shown, store_queries, upper_bounds
from skyband.operators.skyline.kernels.words import WordLayout
from skyband.operators.windows import UNBOUNDED

# Find the arrivals that never show, for a whole stretch of arrivals at once, before each is processed by itself (K = 1).
#
# An arrival r is passed over if (1) an older object p alive in every query's window to the end of the stretch dominates it, and (2) a newer
# arrival j of the same stretch dominates it. Exact, by transitivity: r is no member, since p, or the object that removes p and hence
# dominates r too, is alive until j removes r. An object that r would have removed is dominated by p too, hence no member, and goes with j.
# An object that r would have kept out is kept out by p until j removes it. The last j of a chain is not passed over, so at the end of the
# stretch the state is the same.
#
# Words decide alone here: a smaller field means a smaller value, so "smaller in every field" is sufficient for dominance.

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


# Move a key's state: copy it while the key is not active, unpack it for its events, and pack it again.


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


# Process one arrival: find its place among the retained objects, write its changes, and drop objects that need not be retained.

# Scan for an arrival: the K newest older objects that dominate it, and all that it dominates.
#
# The retained objects of a key (those with fewer than K newer dominators) are scanned newest first. The scan ends at the K-th dominator of
# the arrival: an older object that the arrival dominates is dominated by those K as well, hence gone already. So one short scan gives both
# (strictness and ``distinct`` keep it so, docs/algorithms D4). Words test many objects per instruction, keys decide the hits.

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


@jit(inline="always")
def new_object(row: int, band: int, block: Block, retained: Retained) -> int:
    """Write the arrival of ``row`` into a free slot, with its dominators still open; return the slot. O(D)."""
    rows, marks = retained.rows, retained.marks
    keys = block.keys
    fresh: int = marks[SLOTS]
    if marks[FREE] > 0:
        marks[FREE] -= 1
        fresh = retained.free[marks[FREE]]
    else:
        marks[SLOTS] += 1
    rows[fresh, SEQ] = block.seq[row]
    rows[fresh, TIME] = block.time[row]
    rows[fresh, NEWER] = 0
    for j in range(keys.shape[0]):
        rows[fresh, DOMINATORS + band + j] = keys[j, row]
    return fresh


@jit(inline="always")
def show_arrival(
    key: int, seq: int, at: int, fresh: int, dominated: int, least: int, queries: AnyArray, retained: Retained, changes: ChangeRows
) -> ChangeRows:
    """Move the heads of a key's queries (Q, 8) to their places after arrival ``seq``, and write the resulting changes.

    ``least`` is the result of ``foresee``, or ``GONE`` for an object that only occupies the window. Return the changes.
    """
    marks = retained.marks
    for query in range(queries.shape[0]):
        head = max(queries[query, HEAD], seq - queries[query, COUNT] + 1)
        if queries[query, FRONT] < head or least < head:
            changes = ensure_capacity(changes, marks[END] - marks[FIRST] + dominated + 2)
            move_head(queries[query], query, key, at, head, fresh, dominated, retained, changes)
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], queries[query, NEXT_BOUNDARY])
        else:
            queries[query, HEAD] = head
    return changes


@jit(inline="always")
def count_dominator(dominated: int, band: int, layout: WordLayout, queries: AnyArray, retained: Retained) -> None:
    """Add one newer dominator to each object that the arrival dominates; those with K are no longer retained. O(dominated)."""
    rows, links, marks = retained.rows, retained.links, retained.marks
    for j in range(dominated):
        slot = retained.dominated[j, 0]
        left = band - 1 - rows[slot, NEWER]
        unlink(slot, dominator_slot(slot, left, retained), links)
        rows[slot, NEWER] += 1
        links[slot, CRITICAL] = links[slot, CRITICAL_NEXT]
        if left > 0:
            link(slot, dominator_slot(slot, left - 1, retained), links)
        else:
            retained.free[marks[FREE]] = slot
            marks[FREE] += 1
            remove_position(retained.dominated[j, 1], layout, queries, retained)


@jit(inline="always")
def append_object(fresh: int, word: int, settings: Settings, queries: AnyArray, retained: Retained) -> None:
    """Give the arrival in slot ``fresh`` the next position, with ``word`` (with guard bits); update the queries (Q, 8). O(Q)."""
    rows, links, marks = retained.rows, retained.links, retained.marks
    if many_holes(retained):
        close_holes(queries, retained)
    links[fresh, CRITICAL] = links[fresh, CRITICAL_NEXT]
    link(fresh, retained.dominators[fresh, settings.band - 1], links)
    end = marks[END]
    retained.word[end] = word
    retained.slot[end] = fresh
    if marks[FIRST] == end:
        marks[OLDEST] = rows[fresh, SEQ]
    marks[END] = end + 1
    for query in range(queries.shape[0]):
        queries[query, FRONT] = min(queries[query, FRONT], rows[fresh, SEQ])
        if queries[query, MICROS] < UNBOUNDED:
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], rows[fresh, TIME] + queries[query, MICROS])
    if settings.window_micros < UNBOUNDED:
        marks[NEXT_EVENT] = min(marks[NEXT_EVENT], rows[fresh, TIME] + settings.window_micros)


@jit(inline="always")
def take_arrival(
    row: int, passed: bool, key: int, settings: Settings, layout: WordLayout, block: Block, queries: AnyArray, retained: Retained,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process arrival ``row`` of a key; if it is ``passed`` over it only occupies the window. Return the changes.

    O(scanned + dominated + dropped), see ``scan``.
    """
    marks = retained.marks
    seq = block.seq[row]
    marks[LAST] = seq
    keep = seq - settings.window_count + 1
    alive = first_from(keep, retained) if marks[OLDEST] < keep else marks[FIRST]
    fresh, dominated, least = -1, 0, GONE
    if block.usable[row] and not passed:
        fresh = new_object(row, settings.band, block, retained)
        dominated = scan_retained(fresh, block.words[row], alive, settings, layout, retained)
        least = foresee(fresh, dominated, settings.band, retained)
    changes = show_arrival(key, seq, block.time[row], fresh, dominated, least, queries, retained, changes)
    count_dominator(dominated, settings.band, layout, queries, retained)
    if marks[OLDEST] < keep:
        drop_before(alive, retained)
        settle_oldest(retained)
    if fresh >= 0:
        append_object(fresh, block.words[row] + layout.guard, settings, queries, retained)
    return changes


@jit
def pass_time(
    key: int, before: int, boundaries_before: int, settings: Settings, queries: AnyArray, retained: Retained, shown: Shown,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process a key's expiries before ``before`` and boundaries before ``boundaries_before``; ``queries`` (Q, 8). Return the changes."""
    queries, retained, shown = borrowed(queries), borrowed(retained), borrowed(shown)
    rows, slots, marks = retained.rows, retained.slot, retained.marks
    next_event = NEVER
    for query in range(queries.shape[0]):
        changes, instant = elapse(queries[query], query, key, before, boundaries_before, retained, shown, changes)
        next_event = min(next_event, instant)
    if settings.window_micros < UNBOUNDED:
        alive, end = marks[FIRST], marks[END]
        while alive < end and (slots[alive] < 0 or rows[slots[alive], TIME] + settings.window_micros < before):
            alive += 1
        drop_before(alive, retained)
        settle_oldest(retained)
        if alive < end:
            next_event = min(next_event, rows[slots[alive], TIME] + settings.window_micros)
    marks[NEXT_EVENT] = next_event
    return changes


@jit(inline="always")
def advance_key(
    key: int, settings: Settings, layout: WordLayout, block: Block, queries: AnyArray, until: int, work: Workspace,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process every event < ``until`` of the key at work; ``queries`` (Q, 8) are its own. Return the changes."""
    retained, shown, stretch = work.retained, work.shown, work.stretch
    row, end = block.first[key], block.end[key]
    marks = retained.marks
    skips = settings.skips and end - row > 1
    if skips:
        begin_key(row, stretch)
    while row < end:
        passed = False
        if skips:
            if row >= stretch.marks[STOP]:
                plan_stretch(row, end, settings, layout, block, retained, stretch)
            following = next_counting(row, stretch)
            passed = following > row
            if passed:
                following = undisturbed(row, following, settings, block, queries, retained)
                if following > row:
                    marks[LAST] = block.seq[following - 1]
                    row = following
                    continue
        if settings.timed and marks[NEXT_EVENT] <= block.time[row]:
            changes = pass_time(key, block.time[row] + 1, block.time[row], settings, queries, retained, shown, changes)
        changes = take_arrival(row, passed, key, settings, layout, block, queries, retained, changes)
        row += 1
    if settings.timed and marks[NEXT_EVENT] < until:
        changes = pass_time(key, until, until, settings, queries, retained, shown, changes)
    return changes


@jit
def advance_keys(
    settings: Settings, layout: WordLayout, block: Block, table: Table, active: AnyArray, until: int, counters: AnyArray
) -> tuple[AnyArray, Table]:
    """Process every event < ``until`` of the keys with ``active`` (keys,), bool; copy the others.

    Return change rows (m, 8) as in ``ChangeRows``, and the new table, which shares with ``table`` the arrays changed in place. Add exact
    dominance tests and objects scanned to ``counters`` (2,), int64. O(objects scanned per arrival): see ``scan``.
    """
    objects, rows, longest = upper_bounds(table, block, active)
    room = new_workspace(objects + 1, longest, settings, layout.dead, table)
    new = new_table(table, rows)
    work, after, before = borrowed(room), borrowed(new), borrowed(table)
    changes = empty_changes()
    key = 0
    while key < len(active):
        if active[key]:
            load_key(key, settings.band, before, work.retained, work.shown)
            changes = advance_key(key, settings, borrowed(layout), borrowed(block), before.queries[key], until, work, changes)
            store_key(key, work.retained, work.shown, after)
            key += 1
        else:
            key = carry_over(key, active, before, after)
    counters[0] += room.retained.marks[TESTS]
    counters[1] += room.retained.marks[SCANNED]
    return changes.rows[: changes.size[0]], trimmed(new)
