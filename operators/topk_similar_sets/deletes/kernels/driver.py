"""The driver where objects can be deleted: one call takes a whole ``advance``, row by row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import alive_from, side_of
from skyband.operators.pair_rows.kernels.boundaries import mark_shown, note_due
from skyband.operators.pair_rows.kernels.changes import Event, ensure_capacity
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
    Settings,
    history_of,
)
from skyband.operators.set_index.kernels.arrive import first_alive_of, group_of, other_group
from skyband.operators.set_index.kernels.index import insert, lacks_room, look_up, rebuild
from skyband.operators.set_index.kernels.probe import ProbingSet, probe
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index
from skyband.operators.topk_similar_sets.deletes.kernels.best import add, drop_deleted, drop_old, fill_limits
from skyband.operators.topk_similar_sets.deletes.kernels.join import JoinedWindow, JoinTables, condition_of, new_join_tables
from skyband.operators.topk_similar_sets.deletes.kernels.report import (
    Results,
    first_of,
    keep_before,
    pass_time,
    refill,
    set_wake,
    write_changes,
)


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
