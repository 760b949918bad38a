"""Top-k similar sets where objects can be deleted: each query's k best pairs and some more, the kernels and the logic.

A list holds every pair of the query's window that ranks at its bound or before. So a deletion is cheap while the list has k pairs. When it
has fewer, and there may be pairs behind the bound, the window is joined again (``join``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, NEVER, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions.compile import score_type
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.deletions import Deletions, loaded, no_deletions, saved, split
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
    KEY_COLUMNS,
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
from skyband.operators.pair_rows.logic import deletion_rows, no_progress, no_queries
from skyband.operators.pair_rows.windows import no_objects
from skyband.operators.ranges import ranges
from skyband.operators.set_index.kernels.arrive import StoredSets, group_of, other_group, rebuild_index
from skyband.operators.set_index.kernels.index import insert, lacks_room, look_up
from skyband.operators.set_index.kernels.probe import PairCondition, Probe, ProbingSet, find_set_partners
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
    Tokens,
    new_index,
    new_lookup,
    new_staircase,
)
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.topk_similar_sets.configuration import TopKSimilarSetsConfiguration
from skyband.operators.topk_similar_sets.logic import SimilarSetsLogic
from skyband.operators.windows import check_window, count_of


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


class SetTables(NamedTuple):
    """What searches read of a bucket."""

    settings: Settings
    function: int
    """int64: the similarity function."""
    until_row: int
    """int64: the row of ``Objects.integers`` that is ``NEVER`` for objects that are not deleted."""
    keys: I64
    """int64 (keys, KEY_COLUMNS)."""
    objects: Objects


class JoinTables(NamedTuple):
    """What a search reads, its buffers and counters."""

    test_as_a: Callable[..., None]
    """The pairs' condition for an object that is a."""
    test_as_b: Callable[..., None]
    """As ``test_as_a``, for an object that is b."""
    sets: SetTables
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
    counters: I64
    """int64 (PROBED,)."""


@maker
def new_join_tables(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], sets: SetTables, largest: int, queries: int, counters: I64
) -> JoinTables:
    """Return the tables of searches, with room for sets of ``largest`` tokens and the objects of the largest key."""
    stored, keys, objects = 2 * queries + 1, sets.keys, sets.objects
    for key in range(len(keys)):
        stored = max(stored, keys[key, NEXT_SEQ] - keys[key, FIRST_STORED])
    return JoinTables(
        test_as_a, test_as_b, sets, new_lookup(largest), new_staircase(2 * queries + 1),
        FoundPartners(np.empty(stored, np.float64), np.empty(stored, np.int64)),
        FoundPartners(np.empty(stored, np.float64), np.empty(stored, np.int64)), np.empty(largest, np.int64),
        np.empty(objects.floats.shape[0], np.float64), np.empty(objects.integers.shape[0], np.int64), counters,
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
    objects = tables.sets.objects
    copy_attributes(objects, position, tables.own_floats, tables.own_integers)
    return PairCondition(objects.floats, objects.integers, offset, tables.own_floats, tables.own_integers, objects.pool, True)


@inner
def limit_of(pairs: Pairs, length: int, older: int, worst: float) -> float:
    """Return the largest score with which a pair of the object ``older`` and a newer one can enter a list."""
    if length < len(pairs.score):
        return worst
    last = pairs.score[length - 1]
    return float(min(worst, last if older >= pairs.older[length - 1] else np.nextafter(last, -np.inf)))


@inner
def join(window: JoinedWindow, tables: JoinTables, index: Index, pairs: Pairs) -> int:
    """Fill ``pairs`` with the best pairs of a window, as many as it has room for, and return their number.

    Every object searches for its newer partners, the newest object first: of pairs with one score these rank first, so that the limit soon
    excludes the others.
    """
    sets, settings, keys, length = tables.sets, tables.sets.settings, tables.sets.keys, 0
    sides, offset = settings.side_row >= 0, keys[window.key, REGION_START] - keys[window.key, FIRST_STORED]
    if index.scalars[CLOCK] + index.scalars[SETS_END] // SET_COLUMNS >= LAST_CLOCK:
        reset_clock(index)
    for side in range(2 if sides else 1):
        group = group_of(settings, window.key, side)
        other, row = other_group(settings, group), index.newest[group]
        while row >= 0 and index.sets[row + SEQ] >= window.first:
            seq, size, first = index.sets[row + SEQ], index.sets[row + MET] & SIZE_MASK, index.sets[row + FIRST]
            row = index.sets[row + PREVIOUS]
            limit = limit_of(pairs, length, seq, window.worst)
            if sets.objects.integers[sets.until_row, seq + offset] != NEVER:
                continue
            for i in range(size):
                tables.codes[i] = index.slots[np.int64(index.tokens[first + i]) * SLOT_COLUMNS + CODE]
            look_up(index, group, other, tables.codes[:size], tables.lookup)
            tables.staircase.below[0], tables.staircase.limit[0] = NEVER, limit
            probing = ProbingSet(sets.function, size, seq + 1, window.newest, other, 1)
            # The object is the older one of its pairs, which is a unless sides say otherwise.
            test = tables.test_as_a if side == IS_A or not sides else tables.test_as_b
            condition = condition_of(tables, offset, seq + offset)
            probe = Probe(index, probing, tables.lookup, tables.staircase, test, condition, 0, tables.joined, tables.counters)
            count = find_set_partners(probe, 0)
            newer_is_a = 1 if sides and side != IS_A else 0
            for i in range(count):
                length = enter(pairs, length, tables.joined.score[i], seq, 2 * tables.joined.older[i] + newer_is_a)
    return length


def join_window(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], sets: SetTables, window: JoinedWindow, largest: int, index: Index,
    pairs: Pairs, counters: I64,
) -> int:  # fmt: skip
    """Fill ``pairs`` as ``join`` does, for a caller in Python.

    ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an object that is a or b; ``largest``: the tokens of the largest set.
    """
    tables = new_join_tables(test_as_a, test_as_b, sets, largest, 0, counters)
    return int(join(window, tables, index, pairs))


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


class Scene(NamedTuple):
    """What the events of one key read and change."""

    results: Results
    key: int
    """int64."""
    history: History
    tables: JoinTables
    inverted_index: Index


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
def refill(scene: Scene, query: int, window: JoinedWindow) -> int:
    """Join the window again if the list is short and pairs behind its bound were cut off; return 1 if it was joined, else 0."""
    best, queries, key = scene.results.best, scene.results.queries, window.key
    if best.length[query, key] >= queries.k[query] or best.bound_newer[query, key] < 0:
        return 0
    pairs = entries(best, queries, query, key)
    kept = kept_places(len(pairs.score))
    some = Pairs(pairs.score[:kept], pairs.older[:kept], pairs.newer[:kept])
    length = join(window, scene.tables, scene.inverted_index, some)
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
def pass_time(scene: Scene, query: int, upto: int, at: int, boundary: bool, rows: ChangeRows, written: int) -> tuple[int, int]:
    """Process the expiries of a query at the instant ``at``, and its boundary if it is due then and ``boundary``.

    The objects before seq ``upto`` have arrived. ``rows`` must have room for 4k more. Returns the next free row and the number of joins.
    """
    results, key, history = scene.results, scene.key, scene.history
    queries, best, progress = results.queries, results.best, results.progress
    every, joins = queries.every[query], 0
    first_alive = first_of(results, query, history, upto, at)
    length_before = keep_before(results, query, key)
    dropped = drop_old(best, queries, query, key, first_alive)
    window = JoinedWindow(key, first_alive, upto - 1, queries.worst[query])
    if every == 0:
        if dropped:
            joins = refill(scene, query, window)
            event = Event(query, key, at, progress.step[query, key] + 1, first_alive, -1, False, -1)
            written = write_changes(results, event, length_before, rows, written)
    elif dropped:
        note_due(query, key, every, at, progress)
    if boundary and progress.due[query, key] == at:
        progress.due[query, key] = NEVER
        joins += refill(scene, query, window)
        event = Event(query, key, at, progress.step[query, key] + 1, first_alive, -1, True, -1)
        pairs, length = entries(best, queries, query, key), min(best.length[query, key], queries.k[query])
        written = write_shown(event, pairs, length, queries, progress, results.shown_deleted, rows, written)
    set_wake(results, query, key, history)
    return written, joins


# The driver where objects can be deleted: one call takes a whole ``advance``, row by row.


@inner
def search(scene: Scene, seq: int, side: int, first: I64, codes: I64) -> int:
    """Find the partners of the arrival ``seq`` that a list admits; return their number. Its tokens ``codes`` are looked up."""
    key, tables, sets = scene.key, scene.tables, scene.tables.sets
    steps, lowest = fill_limits(scene.results.best, scene.results.queries, key, first, tables.found, tables.staircase)
    offset = sets.keys[key, REGION_START] - sets.keys[key, FIRST_STORED]
    other = other_group(sets.settings, group_of(sets.settings, key, side))
    probing = ProbingSet(sets.function, len(codes), lowest, seq - 1, other, steps)
    condition = condition_of(tables, offset, seq + offset)
    test = tables.test_as_a if side == IS_A else tables.test_as_b
    probe = Probe(scene.inverted_index, probing, tables.lookup, tables.staircase, test, condition, 0, tables.found, tables.counters)
    return int(find_set_partners(probe, 0))


@inner
def enter_arrival(
    scene: Scene, query: int, event: Event, newer: int, count: int, rows: ChangeRows, written: int
) -> tuple[int, int]:  # fmt: skip
    """Enter the ``count`` partners found for an arrival into a list. Returns the next free row and the number of joins."""
    results, history, tables = scene.results, scene.history, scene.tables
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
        joins = refill(scene, query, window)
        written = write_changes(results, event, length_before, rows, written)
    set_wake(results, query, key, history)
    return written, joins


@inner
def delete(scene: Scene, query: int, event: Event, upto: int, rows: ChangeRows, written: int) -> tuple[int, int]:
    """Remove the pairs of the object that ``event`` deletes from a list. Returns the next free row and the number of joins."""
    results, history = scene.results, scene.history
    best, queries, key, joins = results.best, results.queries, event.key, 0
    length_before = keep_before(results, query, key)
    changed = drop_deleted(best, queries, query, key, event.deleted)
    drop_old(best, queries, query, key, event.first_alive)  # behind the result, where pairs may have left the window
    if queries.every[query] > 0:
        if mark_shown(query, key, event.deleted, queries, results.progress, results.shown_deleted) or changed:
            note_due(query, key, queries.every[query], event.at, results.progress)
    elif changed:
        window = JoinedWindow(key, event.first_alive, upto - 1, queries.worst[query])
        joins = refill(scene, query, window)
        written = write_changes(results, event, length_before, rows, written)
    set_wake(results, query, key, history)
    return written, joins


@inner
def is_due(progress: Progress, query: int, key: int, before: int, row: bool) -> bool:
    """Return True if a query has an expiry or a boundary before an instant, or with ``row`` an expiry at it."""
    at = progress.wake[query, key]
    return bool(at < before or (at == before and row and progress.due[query, key] != at))


@inner
def any_is_due(progress: Progress, key: int, before: int, row: bool) -> bool:
    """Return True if one of the queries has something due, as ``is_due``."""
    due = 0
    for query in range(len(progress.wake)):
        due += is_due(progress, query, key, before, row)
    return due > 0


@maker
def pass_times(
    scene: Scene, upto: int, before: int, row: bool, rows: ChangeRows, written: int, work: I64
) -> tuple[ChangeRows, int]:  # fmt: skip
    """Process all expiries and boundaries of a key before the instant ``before``, and with ``row`` the expiries at it, too."""
    progress, queries, key = scene.results.progress, scene.results.queries, scene.key
    for query in range(len(queries.k)):
        while is_due(progress, query, key, before, row):
            at = progress.wake[query, key]
            rows = ensure_capacity(rows, written, 4 * queries.k[query])
            written, joins = pass_time(scene, query, upto, at, at < before, rows, written)
            work[REFILLS] += joins
    return rows, written


def drive(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], bucket: SetTables, results: Results, advance: Advance,
    deletions: DeletionRows, sets: ArrivingSets, index: Index, work: I64, counters: I64,
) -> tuple[ChangeRows, int, Index]:  # fmt: skip
    """Take all events of ``advance``, whose arrivals ``sets`` are in the windows' arena already, and its ``deletions``.

    ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an object that is a or b; ``sets.largest`` is of all sets of the
    bucket. Returns the change rows, their number, and the (perhaps new) index. Writes to the key table, the arena, ``results``, ``work``
    (int64 (COUNTERS,)) and ``counters`` (int64 (PROBED,)).
    """
    settings, keys, objects, until_row = bucket.settings, bucket.keys, bucket.objects, bucket.until_row
    changes, written = no_changes().rows, 0
    queries, progress = results.queries, results.progress
    tables = new_join_tables(test_as_a, test_as_b, bucket, sets.largest, len(queries.k), counters)
    codes_of, stored = sets.tokens, StoredSets(settings, keys, objects, sets.tokens, advance.since - 1)
    first = np.empty(len(queries.k), np.int64)
    for g in range(len(advance.keys)):
        key = advance.keys[g]
        history, offset = history_of(keys, key, objects.times), keys[key, REGION_START] - keys[key, FIRST_STORED]
        scene = Scene(results, key, history, tables, index)  # once for a key: making one counts references of all its arrays
        seq, stop, d = advance.first_new[g], keys[key, NEXT_SEQ], deletions.start[g]
        while True:
            deletes = d < deletions.start[g + 1] and (seq == stop or deletions.before[d] <= seq)
            row = deletes or seq < stop
            at = deletions.time[d] if deletes else (objects.times[seq + offset] if row else advance.until)
            if any_is_due(progress, key, at, row):
                changes, written = pass_times(scene, seq, at, row, changes, written, work)
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
                    written, joins = delete(scene, query, event, seq, changes, written)
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
                    index = rebuild_index(stored, index, len(codes))
                    scene = Scene(results, key, history, tables, index)
                    look_up(index, group, other, codes, tables.lookup)
                count = search(scene, seq, side, first, codes)
                insert(index, group, seq, first_alive, codes, tables.lookup)
            for query in range(len(queries.k)):
                changes = ensure_capacity(changes, written, 2 * queries.k[query])
                event = Event(query, key, at, progress.step[query, key] + 1, first[query], seq, False, -1)
                newer = 2 * seq + (1 if side == IS_A else 0)
                written, joins = enter_arrival(scene, query, event, newer, count, changes, written)
                work[REFILLS] += joins
            seq += 1
    return changes, written, index


# The logic.


PLACES: tuple[int, int] = (4, 16)
"""The list of a query has 4k + 16 places. A full list is cut to half of them, and a list with fewer than k pairs is filled to half."""

_NONE = np.empty(0, np.int64)
_PLACES = ("score", "older", "newer")
_BY_QUERY = tuple(name for name in Best._fields if name not in _PLACES)


def no_best(queries: int, keys: int, places: int) -> Best:
    """Return empty lists, ``places`` for each key, which have all pairs there are."""
    none = np.full((queries, keys), -1)
    return Best(
        np.zeros((keys, places)), np.zeros((keys, places), np.int64), np.zeros((keys, places), np.int64),
        np.zeros((queries, keys), np.int64), np.full((queries, keys), NEVER), np.full((queries, keys), np.inf), none, none.copy(),
    )  # fmt: skip


def _pairs(size: int) -> Pairs:
    return Pairs(np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64))


def _no_set_tables() -> SetTables:
    return SetTables(Settings(0, 0, 0, 0, 0, 0, 0), 0, 0, np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0))


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled once for all conditions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return drive
    from numba import typeof

    results = Results(no_queries(), no_best(0, 0, 0), no_progress(0, 0, 0), np.empty((0, 0), np.int64), _pairs(0))
    tables = (
        _no_set_tables(), results, Advance(_NONE, _NONE, 0, 0), DeletionRows(_NONE, _NONE, _NONE, _NONE),
        ArrivingSets(Tokens(_NONE, _NONE), _NONE, 0), new_index(1, 1, 1, 1, 0), _NONE, _NONE,
    )  # fmt: skip
    compiled: Callable[..., Any] = jit.jit((score_type(), score_type(), *map(typeof, tables)))(drive)
    return compiled


@cache
def joiner() -> Callable[..., Any]:
    """Return ``join_window``, compiled once for all conditions."""
    if not jit.HAVE_NUMBA:
        return join_window
    from numba import typeof

    tables = (_no_set_tables(), JoinedWindow(0, 0, 0, 0.0), 0, new_index(1, 1, 1, 1, 0), _pairs(0), _NONE)
    compiled: Callable[..., Any] = jit.jit((score_type(), score_type(), *map(typeof, tables)))(join_window)
    return compiled


class DeletableSetsLogic(SimilarSetsLogic):
    """O(list) per arrival and deletion beside the search of an arrival; O(window) searches where a list has too few pairs left."""

    def __init__(self, configuration: TopKSimilarSetsConfiguration, state: State | None) -> None:
        self.best = no_best(len(configuration.queries), 0, 0)
        self.shown_deleted = np.zeros((0, 0), np.int64)
        self.tombs, self.largest = Tombstones.empty(), 0
        kernel = configuration.kernel
        self.tests = (kernel.swapped.score_block, kernel.score_block)
        """The pairs' condition for an object that is a, and for one that is b."""
        super().__init__(configuration, state)

    def _query_tables(self) -> tuple[Queries, int]:
        """Return the queries with more room in their lists, but not for more pairs than a window has."""
        tables, shown = super()._query_tables()
        factor, more = PLACES
        count = np.minimum(tables.window_count, 1 << 20)
        room = np.minimum(factor * tables.k + more, np.maximum(1, count * (count - 1) // 2))
        return tables._replace(list_room=room, list_start=np.cumsum(room) - room), shown

    def _grow(self, keys: int) -> None:
        more = max(0, keys - len(self.windows.keys))
        super()._grow(keys)
        new = no_best(len(self.queries.k), more, int(self.queries.list_room.sum()))
        if not self.best.length.size:
            self.best, self.shown_deleted = new, np.zeros((more, self.progress.shown_score.shape[1]), np.int64)
        elif more:
            joined: list[AnyArray] = [
                np.concatenate([x, y], axis=0 if name in _PLACES else 1) for name, x, y in zip(Best._fields, self.best, new, strict=True)
            ]
            self.best = Best(*joined)
            self.shown_deleted = np.concatenate([self.shown_deleted, np.zeros((more, self.shown_deleted.shape[1]), np.int64)])

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``. One kernel call."""
        due, deletions = self._due(until), no_deletions()
        mine = firsts = _NONE
        if len(arrivals):
            self._grow(int(arrivals.key[-1]) + 1)
            arrivals, deletions = split(arrivals, self.windows.keys[:, NEXT_SEQ])
            self.tombs = self.tombs.with_(Tombstones(deletions.key, deletions.seq, deletions.time))
        if len(arrivals):
            self._count_unusable(arrivals)
            mine, firsts = self.windows.append(arrivals, self.until)
        keys = np.unique(np.concatenate([due, mine, deletions.key]))
        since, self.until = self.until, max(self.until, until)
        if not len(keys):
            return Changes.empty(2)
        return self._drive(arrivals, deletions, self._advance_of(keys, mine, firsts, since, until))

    def _drive(self, arrivals: Arrivals, deletions: Deletions, advance: Advance) -> Changes:
        tokens, largest = self.sets.tokens(arrivals) if len(arrivals) else (Tokens(np.zeros(1, np.int64), _NONE), 0)
        self.largest = max(self.largest, largest)
        results = Results(self.queries, self.best, self.progress, self.shown_deleted, _pairs(int(self.queries.k.max())))
        rows, written, self.sets.index = driver()(
            *self.tests, self._set_tables, results, advance, deletion_rows(deletions, advance.keys),
            ArrivingSets(tokens, self.sets.rows_of(arrivals, advance.keys), self.largest), self.sets.index, self.work, self.sets.counters,
        )  # fmt: skip
        return self._changes(ChangeRows(rows.fields[:written], rows.score[:written]))

    @property
    def _set_tables(self) -> SetTables:
        return SetTables(self.settings, self.sets.function, self.windows.until_row, self.windows.keys, self.windows.objects)

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return lists, next seqs, steps, due boundaries, shown lists and deletions. O(keys + lists)."""
        self.tombs = self.tombs.alive(self.windows.keys[:, NEXT_SEQ], self.until, self.configuration.window)
        key, place = self._entries()
        return {
            "until": np.array([self.until], np.int64), "next": self.windows.keys[:, NEXT_SEQ].copy(),
            **self._saved_progress(),
            **{f"best_{name}": getattr(self.best, name).copy() for name in _BY_QUERY}, "best_key": key, "best_place": place,
            **{f"best_{name}": getattr(self.best, name)[key, place] for name in _PLACES}, "shown_deleted": self.shown_deleted.copy(),
            **saved(self.tombs),
        }  # fmt: skip

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._grow(len(a["next"]))
        self.windows.restore(state.rows, np.asarray(a["next"], np.int64), self.until)
        self.until = int(a["until"][0])
        self._restore_progress(a)
        by_query: dict[str, Any] = {name: np.array(a[f"best_{name}"], getattr(self.best, name).dtype) for name in _BY_QUERY}
        self.best, self.shown_deleted = self.best._replace(**by_query), np.array(a["shown_deleted"])
        for name in _PLACES:
            getattr(self.best, name)[a["best_key"], a["best_place"]] = a[f"best_{name}"]
        self.sets.restore(self.settings, self.windows, state.rows, self.until)
        self.largest = int(np.diff(state.rows.ragged[self.sets.column].start).max(initial=0)) if len(state.rows) else 0
        self.tombs = loaded(a)
        self.windows.delete(self.tombs.key, self.tombs.seq, 0)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k pairs of any window n <= N within the query's score bounds, in rank order. Joins the window."""
        if not 1 <= k <= self.settings.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.settings.keep_k}")
        check_window(window, self.configuration.window, "snapshot")
        if not 0 <= key < len(self.windows.keys):
            return Items(_NONE, np.empty((0, 2), np.int64), np.empty(0))
        own = window.within(self.configuration.window)
        newest, pairs = int(self.windows.keys[key, NEXT_SEQ]) - 1, _pairs(k)
        seqs = np.arange(max(0, newest + 1 - min(count_of(own), newest + 1)), newest + 1)
        alive = self.windows.alive(np.full(len(seqs), key), seqs, window, self.until)
        asked = JoinedWindow(key, newest + 1 - int(np.count_nonzero(alive)), newest, float(self.queries.worst[query]))
        n = joiner()(*self.tests, self._set_tables, asked, self.largest, self.sets.index, pairs, self.sets.counters.copy())
        return Items(np.full(n, key), self._items(pairs.older[:n], pairs.newer[:n]), self._external(pairs.score[:n]))

    def _entries(self) -> tuple[I64, I64]:
        """Return the keys and the places of all entries of lists, by key. O(keys + lists)."""
        length = self.best.length.T.ravel()  # by key, then by query
        entry = np.repeat(np.arange(len(length)), length)
        queries = len(self.queries.k)
        return entry // queries, ranges(np.tile(self.queries.list_start, len(length) // queries), length)

    def skyband(self) -> Items:
        """Return the pairs of all lists that are alive, each once, grouped by key."""
        key, place = self._entries()
        rows = np.stack([key, self.best.older[key, place], self.best.newer[key, place]], axis=1)
        rows, first = np.unique(rows, axis=0, return_index=True)
        score = self.best.score[key, place][first]
        alive = self.windows.alive(rows[:, 0], rows[:, 1], self.configuration.window, self.until)
        rows, score = rows[alive], score[alive]
        return Items(rows[:, 0].copy(), self._items(rows[:, 1], rows[:, 2]), self._external(score))
