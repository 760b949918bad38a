"""The lists of best pairs where objects can be deleted: each query's k best pairs and some more.

A list holds every pair of the query's window that ranks at its bound or before. So a deletion is cheap while the list has k pairs. When it
has fewer, and there may be pairs behind the bound, the window is joined again (``join``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import alive_from, copy_attributes, side_of
from skyband.operators.pair_rows.kernels.boundaries import mark_shown, note_due, note_wake, write_shown
from skyband.operators.pair_rows.kernels.changes import Event, difference, ensure_capacity
from skyband.operators.pair_rows.kernels.lists import copy_pairs, drop_expired, enter, oldest, ranks_before
from skyband.operators.pair_rows.kernels.partners import FoundPartners
from skyband.operators.pair_rows.kernels.sub_batch import no_changes
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    IS_A,
    IS_NEITHER,
    NEXT_SEQ,
    REFILLS,
    REGION_START,
    Advance,
    ChangeRows,
    DeletionRows,
    History,
    Objects,
    Pairs,
    Progress,
    Queries,
    Settings,
    history_of,
)
from skyband.operators.set_index.kernels.arrive import first_alive_of, group_of, other_group
from skyband.operators.set_index.kernels.index import insert, lacks_room, look_up, rebuild
from skyband.operators.set_index.kernels.probe import PairCondition, ProbingSet, probe
from skyband.operators.set_index.kernels.tables import (
    CLOCK,
    CODE,
    FIRST,
    LAST_CLOCK,
    MET,
    PREVIOUS,
    SEQ,
    SET_COLUMNS,
    SETS_END,
    SIZE_MASK,
    SLOT_COLUMNS,
    ArrivingSets,
    Index,
    Staircase,
    TokenLookup,
    new_lookup,
    new_staircase,
)


class Best(NamedTuple):
    """The lists of all keys and queries. Their entries stand side by side (``Queries.list_start``), in rank order."""

    score: F64
    """float64 (keys, places)."""
    older: I64
    """int64 (keys, places)."""
    newer: I64
    """int64 (keys, places): as of a pair."""
    length: I64
    """int64 (queries, keys): entries of each list; those behind the first k may have left the window."""
    oldest: I64
    """int64 (queries, keys): no entry has an older seq than this, ``NEVER`` for an empty list."""
    bound_score: F64
    """float64 (queries, keys): the score of the bound, ``inf`` if the list has all pairs there are."""
    bound_older: I64
    """int64 (queries, keys)."""
    bound_newer: I64
    """int64 (queries, keys)."""


@inner
def kept_places(room: int) -> int:
    """Return how many entries of a list with ``room`` places stay when it is full, and how many a join of the window looks for."""
    return max(1, room // 2)


@inner
def entries(best: Best, queries: Queries, query: int, key: int) -> Pairs:
    """Return a view of the places of a list."""
    start, stop = queries.list_start[query], queries.list_start[query] + queries.list_room[query]
    return Pairs(best.score[key, start:stop], best.older[key, start:stop], best.newer[key, start:stop])


@inner
def set_bound(best: Best, query: int, key: int, pairs: Pairs, last: int) -> None:
    """Set the bound of a list to its entry number ``last``, and its length accordingly."""
    best.length[query, key] = last + 1
    best.bound_score[query, key], best.bound_older[query, key] = pairs.score[last], pairs.older[last]
    best.bound_newer[query, key] = pairs.newer[last]


@inner
def set_no_bound(best: Best, query: int, key: int, length: int) -> None:
    """Note that a list of ``length`` has all pairs there are."""
    best.length[query, key] = length
    best.bound_score[query, key], best.bound_older[query, key], best.bound_newer[query, key] = np.inf, -1, -1


@inner
def admits(best: Best, query: int, key: int, score: float, older: int, newer: int) -> bool:
    """Return True if a pair ranks before the bound of a list."""
    return bool(ranks_before(score, older, newer, best.bound_score[query, key], best.bound_older[query, key], best.bound_newer[query, key]))


@inner
def add(best: Best, queries: Queries, query: int, key: int, score: float, older: int, newer: int) -> bool:
    """Add a pair to a list if its bounds admit it, and return whether they do. A full list is cut first. O(places)."""
    if not score <= queries.worst[query] or not admits(best, query, key, score, older, newer):
        return False
    pairs = entries(best, queries, query, key)
    if best.length[query, key] == len(pairs.score):
        set_bound(best, query, key, pairs, kept_places(len(pairs.score)) - 1)
        if not admits(best, query, key, score, older, newer):
            return False
    best.length[query, key] = enter(pairs, best.length[query, key], score, older, newer)
    best.oldest[query, key] = min(best.oldest[query, key], older)
    return True


@inner
def note_oldest(best: Best, queries: Queries, query: int, key: int) -> None:
    """Set ``oldest`` of a list. O(places)."""
    best.oldest[query, key] = oldest(entries(best, queries, query, key).older, best.length[query, key])


@inner
def drop_old(best: Best, queries: Queries, query: int, key: int, first_alive: int) -> bool:
    """Remove the pairs with objects before ``first_alive`` from a list, and return whether there were any."""
    if best.oldest[query, key] >= first_alive:
        return False
    pairs, length = entries(best, queries, query, key), best.length[query, key]
    best.length[query, key] = drop_expired(pairs, length, first_alive)
    note_oldest(best, queries, query, key)
    return bool(best.length[query, key] < length)


@inner
def drop_deleted(best: Best, queries: Queries, query: int, key: int, gone: int) -> bool:
    """Remove the pairs with the object ``gone`` from a list, and return whether there were any. O(places)."""
    pairs, kept = entries(best, queries, query, key), 0
    length = best.length[query, key]
    for i in range(length):
        if pairs.older[i] != gone and pairs.newer[i] >> 1 != gone:
            pairs.score[kept], pairs.older[kept], pairs.newer[kept] = pairs.score[i], pairs.older[i], pairs.newer[i]
            kept += 1
    best.length[query, key] = kept
    return bool(kept < length)


@inner
def fill_limits(best: Best, queries: Queries, key: int, first: I64, found: FoundPartners, staircase: Staircase) -> tuple[int, int]:
    """Fill ``staircase`` with the largest scores of pairs of an arrival that a list admits, by their older object.

    A pair with the score of a bound is admitted if its older object is not before that of the bound. ``first`` (queries,): the first seqs
    of the windows. ``found`` is scratch for two entries a query. Returns the number of steps and the first seq of the last. O(queries^2).
    """
    limits, starts, count = found.score, found.older, 0
    for q in range(len(queries.k)):
        worst, score = queries.worst[q], best.bound_score[q, key]
        limits[count], starts[count] = min(worst, score), max(first[q], best.bound_older[q, key])
        limits[count + 1], starts[count + 1] = min(worst, np.nextafter(score, -np.inf)), first[q]
        count += 2
    for i in range(1, count):  # the largest limit first
        limit, start, j = limits[i], starts[i], i
        while j > 0 and limits[j - 1] < limit:
            limits[j], starts[j] = limits[j - 1], starts[j - 1]
            j -= 1
        limits[j], starts[j] = limit, start
    steps, lowest = 0, np.int64(NEVER)
    for i in range(count):
        if starts[i] >= lowest:
            continue
        if steps == 0 or limits[i] < staircase.limit[steps - 1]:
            staircase.below[steps], staircase.limit[steps] = lowest, limits[i]
            steps += 1
        lowest = starts[i]
    return steps, int(lowest)


# The join of a whole window: its best pairs, for a list that deletions have left too short. O(window) searches in the index.


class JoinedWindow(NamedTuple):
    """The objects of one key that may form pairs."""

    key: int
    """int64."""
    first: int
    """int64: the first seq."""
    newest: int
    """int64: the last seq."""
    worst: float
    """float64: the largest internal score."""


class JoinTables(NamedTuple):
    """What a search reads, and its buffers."""

    settings: Settings
    function: int
    """int64: the similarity function."""
    until_row: int
    """int64: the row of ``Objects.integers`` that is ``NEVER`` for objects that are not deleted."""
    keys: I64
    """int64 (keys, KEY_COLUMNS)."""
    objects: Objects
    lookup: TokenLookup
    staircase: Staircase
    found: FoundPartners
    """The partners of an arrival."""
    joined: FoundPartners
    """The partners of an object of a window that is joined."""
    codes: I64
    """int64: room for the tokens of the largest set."""
    own_floats: F64
    """float64 (float attributes,)."""
    own_integers: I64
    """int64 (other attributes,)."""


@maker
def new_join_tables(
    settings: Settings, function: int, until_row: int, keys: I64, objects: Objects, largest: int, queries: int
) -> JoinTables:
    """Return the tables of searches, with room for sets of ``largest`` tokens and the objects of the largest key."""
    stored = 2 * queries + 1
    for key in range(len(keys)):
        stored = max(stored, keys[key, NEXT_SEQ] - keys[key, FIRST_STORED])
    return JoinTables(
        settings, function, until_row, keys, objects, new_lookup(largest), new_staircase(2 * queries + 1),
        FoundPartners(np.empty(stored, np.float64), np.empty(stored, np.int64)),
        FoundPartners(np.empty(stored, np.float64), np.empty(stored, np.int64)), np.empty(largest, np.int64),
        np.empty(objects.floats.shape[0], np.float64), np.empty(objects.integers.shape[0], np.int64),
    )  # fmt: skip


@inner
def reset_clock(index: Index) -> None:
    """Let the clock of an index begin again. O(index)."""
    for at in range(0, index.scalars[SETS_END], SET_COLUMNS):
        index.sets[at + MET] &= SIZE_MASK
    for slot in range(len(index.marks)):
        index.marks[slot] = 0
    index.scalars[CLOCK] = 0


@inner
def condition_of(tables: JoinTables, offset: int, position: int) -> PairCondition:
    """Return the condition of pairs with the object at a position of the arena."""
    copy_attributes(tables.objects, position, tables.own_floats, tables.own_integers)
    objects = tables.objects
    return PairCondition(objects.floats, objects.integers, offset, tables.own_floats, tables.own_integers, objects.pool, True)


@inner
def limit_of(pairs: Pairs, length: int, older: int, worst: float) -> float:
    """Return the largest score with which a pair of the object ``older`` and a newer one can enter a list."""
    if length < len(pairs.score):
        return worst
    last = pairs.score[length - 1]
    return float(min(worst, last if older >= pairs.older[length - 1] else np.nextafter(last, -np.inf)))


@inner
def join(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], window: JoinedWindow, tables: JoinTables, index: Index, pairs: Pairs,
    counters: I64,
) -> int:  # fmt: skip
    """Fill ``pairs`` with the best pairs of a window, as many as it has room for, and return their number.

    Every object searches for its newer partners, the newest object first: of pairs with one score these rank first, so that the limit soon
    excludes the others. ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an object that is a or b.
    """
    settings, sides, length = tables.settings, tables.settings.side_row >= 0, 0
    offset = tables.keys[window.key, REGION_START] - tables.keys[window.key, FIRST_STORED]
    if index.scalars[CLOCK] + index.scalars[SETS_END] // SET_COLUMNS >= LAST_CLOCK:
        reset_clock(index)
    for side in range(2 if sides else 1):
        group = group_of(settings, window.key, side)
        other, at = other_group(settings, group), index.newest[group]
        while at >= 0 and index.sets[at + SEQ] >= window.first:
            seq, size, first = index.sets[at + SEQ], index.sets[at + MET] & SIZE_MASK, index.sets[at + FIRST]
            at = index.sets[at + PREVIOUS]
            limit = limit_of(pairs, length, seq, window.worst)
            if tables.objects.integers[tables.until_row, seq + offset] != NEVER:
                continue
            for i in range(size):
                tables.codes[i] = index.slots[np.int64(index.tokens[first + i]) * SLOT_COLUMNS + CODE]
            look_up(index, group, other, tables.codes[:size], tables.lookup)
            tables.staircase.below[0], tables.staircase.limit[0] = NEVER, limit
            probing = ProbingSet(tables.function, size, seq + 1, window.newest, other, 1)
            # The object is the older one of its pairs, which is a unless sides say otherwise.
            test = test_as_a if side == IS_A or not sides else test_as_b
            condition = condition_of(tables, offset, seq + offset)
            count = probe(index, test, condition, probing, tables.lookup, tables.staircase, 0, tables.joined, 0, counters)
            newer_is_a = 1 if sides and side != IS_A else 0
            for i in range(count):
                length = enter(pairs, length, tables.joined.score[i], seq, 2 * tables.joined.older[i] + newer_is_a)
    return length


def join_window(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, function: int, until_row: int, keys: I64,
    objects: Objects, window: JoinedWindow, largest: int, index: Index, pairs: Pairs, counters: I64,
) -> int:  # fmt: skip
    """Fill ``pairs`` as ``join`` does, for a caller in Python; ``largest``: the tokens of the largest set."""
    tables = new_join_tables(settings, function, until_row, keys, objects, largest, 0)
    return int(join(test_as_a, test_as_b, window, tables, index, pairs, counters))


# One query's events: time that passes, and the net changes of its list, where objects can be deleted.


class Results(NamedTuple):
    """The results of all keys and queries."""

    queries: Queries
    best: Best
    progress: Progress
    shown_deleted: I64
    """int64 (keys, shown pairs): the ``marks`` of ``boundaries``."""
    before: Pairs
    """Scratch for a list of k pairs before an event."""


@inner
def set_wake(results: Results, query: int, key: int, history: History) -> None:
    """Note when a result may change next without an arrival. O(k)."""
    queries, best = results.queries, results.best
    length, olders = min(best.length[query, key], queries.k[query]), entries(best, queries, query, key).older
    note_wake(query, key, queries.window_micros[query], olders, length, history, results.progress)


@inner
def keep_before(results: Results, query: int, key: int) -> int:
    """Copy the members of a list to the scratch, and return their number."""
    length = min(results.best.length[query, key], results.queries.k[query])
    copy_pairs(entries(results.best, results.queries, query, key), length, results.before)
    return int(length)


@inner
def refill(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], results: Results, query: int, window: JoinedWindow, tables: JoinTables,
    index: Index, counters: I64,
) -> int:  # fmt: skip
    """Join the window again if the list is short and pairs behind its bound were cut off; return 1 if it was joined, else 0."""
    best, queries, key = results.best, results.queries, window.key
    if best.length[query, key] >= queries.k[query] or best.bound_newer[query, key] < 0:
        return 0
    pairs = entries(best, queries, query, key)
    kept = kept_places(len(pairs.score))
    some = Pairs(pairs.score[:kept], pairs.older[:kept], pairs.newer[:kept])
    length = join(test_as_a, test_as_b, window, tables, index, some, counters)
    if length == kept:
        set_bound(best, query, key, pairs, kept - 1)
    else:
        set_no_bound(best, query, key, length)
    note_oldest(best, queries, query, key)
    return 1


@inner
def write_changes(results: Results, event: Event, length_before: int, rows: ChangeRows, written: int) -> int:
    """Write the difference from the list before an event, and count a step if there is one. Return the next free row. O(k)."""
    query, key = event.query, event.key
    pairs = entries(results.best, results.queries, query, key)
    length = min(results.best.length[query, key], results.queries.k[query])
    end = difference(rows, written, event, results.before, length_before, pairs, length)
    if end > written:
        results.progress.step[query, key] += 1
    return end


@inner
def first_of(results: Results, query: int, history: History, upto: int, at: int) -> int:
    """Return the first seq alive at an instant in a query's window, once the objects before seq ``upto`` have arrived."""
    return int(alive_from(history, upto, at, results.queries.window_count[query], results.queries.window_micros[query]))


@inner
def pass_time(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], results: Results, query: int, key: int, history: History, upto: int,
    at: int, boundary: bool, tables: JoinTables, index: Index, rows: ChangeRows, written: int, counters: I64,
) -> tuple[int, int]:  # fmt: skip
    """Process the expiries of a query at the instant ``at``, and its boundary if it is due then and ``boundary``.

    The objects before seq ``upto`` have arrived. ``rows`` must have room for 4k more. Returns the next free row and the number of joins.
    """
    queries, best, progress = results.queries, results.best, results.progress
    every, joins = queries.every[query], 0
    first_alive = first_of(results, query, history, upto, at)
    length_before = keep_before(results, query, key)
    dropped = drop_old(best, queries, query, key, first_alive)
    window = JoinedWindow(key, first_alive, upto - 1, queries.worst[query])
    if every == 0:
        if dropped:
            joins = refill(test_as_a, test_as_b, results, query, window, tables, index, counters)
            event = Event(query, key, at, progress.step[query, key] + 1, first_alive, -1, False, -1)
            written = write_changes(results, event, length_before, rows, written)
    elif dropped:
        note_due(query, key, every, at, progress)
    if boundary and progress.due[query, key] == at:
        progress.due[query, key] = NEVER
        joins += refill(test_as_a, test_as_b, results, query, window, tables, index, counters)
        event = Event(query, key, at, progress.step[query, key] + 1, first_alive, -1, True, -1)
        pairs, length = entries(best, queries, query, key), min(best.length[query, key], queries.k[query])
        written = write_shown(event, pairs, length, queries, progress, results.shown_deleted, rows, written)
    set_wake(results, query, key, history)
    return written, joins


# The driver where objects can be deleted: one call takes a whole ``advance``, row by row.


@inner
def search(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], results: Results, key: int, seq: int, side: int, first: I64,
    codes: I64, tables: JoinTables, index: Index, counters: I64,
) -> int:  # fmt: skip
    """Find the partners of the arrival ``seq`` that a list admits; return their number. Its tokens ``codes`` are looked up."""
    steps, lowest = fill_limits(results.best, results.queries, key, first, tables.found, tables.staircase)
    offset = tables.keys[key, REGION_START] - tables.keys[key, FIRST_STORED]
    other = other_group(tables.settings, group_of(tables.settings, key, side))
    probing = ProbingSet(tables.function, len(codes), lowest, seq - 1, other, steps)
    condition = condition_of(tables, offset, seq + offset)
    test = test_as_a if side == IS_A else test_as_b
    return int(probe(index, test, condition, probing, tables.lookup, tables.staircase, 0, tables.found, 0, counters))


@inner
def enter_arrival(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], results: Results, query: int, event: Event, history: History,
    newer: int, count: int, tables: JoinTables, index: Index, rows: ChangeRows, written: int, counters: I64,
) -> tuple[int, int]:  # fmt: skip
    """Enter the ``count`` partners found for an arrival into a list. Returns the next free row and the number of joins."""
    best, queries, key, joins = results.best, results.queries, event.key, 0
    if count == 0 and best.oldest[query, key] >= event.first_alive:
        return written, joins
    length_before = keep_before(results, query, key)
    changed = drop_old(best, queries, query, key, event.first_alive)
    for i in range(count):
        if tables.found.older[i] >= event.first_alive:
            changed |= add(best, queries, query, key, tables.found.score[i], tables.found.older[i], newer)
    if not changed:
        return written, joins
    if queries.every[query] > 0:
        note_due(query, key, queries.every[query], event.at, results.progress)
    else:
        window = JoinedWindow(key, event.first_alive, event.arriving, queries.worst[query])
        joins = refill(test_as_a, test_as_b, results, query, window, tables, index, counters)
        written = write_changes(results, event, length_before, rows, written)
    set_wake(results, query, key, history)
    return written, joins


@inner
def delete(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], results: Results, query: int, event: Event, history: History,
    upto: int, tables: JoinTables, index: Index, rows: ChangeRows, written: int, counters: I64,
) -> tuple[int, int]:  # fmt: skip
    """Remove the pairs of the object that ``event`` deletes from a list. Returns the next free row and the number of joins."""
    best, queries, key, joins = results.best, results.queries, event.key, 0
    length_before = keep_before(results, query, key)
    changed = drop_deleted(best, queries, query, key, event.deleted)
    drop_old(best, queries, query, key, event.first_alive)  # behind the result, where pairs may have left the window
    if queries.every[query] > 0:
        if mark_shown(query, key, event.deleted, queries, results.progress, results.shown_deleted) or changed:
            note_due(query, key, queries.every[query], event.at, results.progress)
    elif changed:
        window = JoinedWindow(key, event.first_alive, upto - 1, queries.worst[query])
        joins = refill(test_as_a, test_as_b, results, query, window, tables, index, counters)
        written = write_changes(results, event, length_before, rows, written)
    set_wake(results, query, key, history)
    return written, joins


@maker
def pass_times(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], results: Results, key: int, history: History, upto: int, before: int,
    row: bool, tables: JoinTables, index: Index, rows: ChangeRows, written: int, work: I64, counters: I64,
) -> tuple[ChangeRows, int]:  # fmt: skip
    """Process all expiries and boundaries of a key before the instant ``before``, and with ``row`` the expiries at it, too."""
    progress, queries = results.progress, results.queries
    for query in range(len(queries.k)):
        while True:
            at = progress.wake[query, key]
            if at > before or (at == before and (not row or progress.due[query, key] == at)):
                break
            rows = ensure_capacity(rows, written, 4 * queries.k[query])
            written, joins = pass_time(
                test_as_a, test_as_b, results, query, key, history, upto, at, at < before, tables, index, rows, written, counters
            )  # fmt: skip
            work[REFILLS] += joins
    return rows, written


def drive(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, function: int, until_row: int, results: Results,
    keys: I64, objects: Objects, advance: Advance, deletions: DeletionRows, sets: ArrivingSets, index: Index, work: I64, counters: I64,
) -> tuple[ChangeRows, int, Index]:  # fmt: skip
    """Take all events of ``advance``, whose arrivals ``sets`` are in the windows' arena already, and its ``deletions``.

    ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an object that is a or b; ``sets.largest`` is of all sets of the
    bucket. Returns the change rows, their number, and the (perhaps new) index. Writes to the key table, the arena, ``results``, ``work``
    (int64 (COUNTERS,)) and ``counters`` (int64 (PROBED,)).
    """
    changes, written = no_changes().rows, 0
    queries, progress = results.queries, results.progress
    tables, codes_of = new_join_tables(settings, function, until_row, keys, objects, sets.largest, len(queries.k)), sets.tokens
    first = np.empty(len(queries.k), np.int64)
    for g in range(len(advance.keys)):
        key = advance.keys[g]
        history, offset = history_of(keys, key, objects.times), keys[key, REGION_START] - keys[key, FIRST_STORED]
        seq, stop, d = advance.first_new[g], keys[key, NEXT_SEQ], deletions.start[g]
        while True:
            deletes = d < deletions.start[g + 1] and (seq == stop or deletions.before[d] <= seq)
            row = deletes or seq < stop
            at = deletions.time[d] if deletes else (objects.times[seq + offset] if row else advance.until)
            changes, written = pass_times(
                test_as_a, test_as_b, results, key, history, seq, at, row, tables, index, changes, written, work, counters
            )  # fmt: skip
            if not row:
                break
            if deletes:
                gone = deletions.seq[d]
                if gone >= history.first_stored:
                    objects.integers[until_row, gone + offset] = 0
                for query in range(len(queries.k)):
                    changes = ensure_capacity(changes, written, 2 * queries.k[query])
                    first_alive = first_of(results, query, history, seq, at)
                    event = Event(query, key, at, progress.step[query, key] + 1, first_alive, -1, False, gone)
                    written, joins = delete(
                        test_as_a, test_as_b, results, query, event, history, seq, tables, index, changes, written, counters
                    )  # fmt: skip
                    work[REFILLS] += joins
                d += 1
                continue
            for query in range(len(queries.k)):
                first[query] = first_of(results, query, history, seq + 1, at)
            first_alive = alive_from(history, seq + 1, at, settings.window_count, settings.window_micros)
            keys[key, FIRST_ALIVE] = max(keys[key, FIRST_ALIVE], first_alive)
            position, count = sets.first_row[g] + seq - advance.first_new[g], 0
            side = side_of(settings, objects, seq + offset)
            codes = codes_of.values[codes_of.start[position] : codes_of.start[position + 1]]
            if len(codes) > 0 and side != IS_NEITHER:
                group = group_of(settings, key, side)
                other = other_group(settings, group)
                if lacks_room(index, len(codes), look_up(index, group, other, codes, tables.lookup)):
                    index = rebuild(index, first_alive_of(settings, keys, objects.times, advance.since - 1), len(codes), len(index.newest))
                    look_up(index, group, other, codes, tables.lookup)
                count = search(test_as_a, test_as_b, results, key, seq, side, first, codes, tables, index, counters)
                insert(index, group, seq, first_alive, codes, tables.lookup)
            for query in range(len(queries.k)):
                changes = ensure_capacity(changes, written, 2 * queries.k[query])
                event = Event(query, key, at, progress.step[query, key] + 1, first[query], seq, False, -1)
                newer = 2 * seq + (1 if side == IS_A else 0)
                written, joins = enter_arrival(
                    test_as_a, test_as_b, results, query, event, history, newer, count, tables, index, changes, written, counters
                )  # fmt: skip
                work[REFILLS] += joins
            seq += 1
    return changes, written, index
