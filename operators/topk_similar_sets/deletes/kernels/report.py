"""One query's events: time that passes, and the net changes of its list, where objects can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.boundaries import note_due, note_wake, write_shown
from skyband.operators.pair_rows.kernels.changes import Event, difference
from skyband.operators.pair_rows.kernels.lists import copy_pairs
from skyband.operators.pair_rows.kernels.tables import ChangeRows, History, Pairs, Progress, Queries
from skyband.operators.set_index.kernels.tables import Index
from skyband.operators.topk_similar_sets.deletes.kernels.best import (
    Best,
    drop_old,
    entries,
    kept_places,
    note_oldest,
    set_bound,
    set_no_bound,
)
from skyband.operators.topk_similar_sets.deletes.kernels.join import JoinedWindow, JoinTables, join


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
