"""One query's events: time that passes, and the net changes of its list, where objects can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from skyband.operators.base import DELETE, I64, NEVER
from skyband.operators.jit import inner
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.changes import Event, difference
from skyband.operators.pair_rows.kernels.lists import oldest
from skyband.operators.pair_rows.kernels.replay import copy_pairs
from skyband.operators.pair_rows.kernels.tables import (
    CAUSE,
    NEWER,
    OLDER,
    SIGN,
    ChangeRows,
    History,
    Pairs,
    Progress,
    Queries,
)
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
from skyband.operators.windows import UNBOUNDED


class Results(NamedTuple):
    """The results of all keys and queries."""

    queries: Queries
    best: Best
    progress: Progress
    shown_deleted: I64
    """int64 (keys, shown pairs): 1 where an object of a pair last shown at a boundary was deleted since."""
    before: Pairs
    """Scratch for a list of k pairs before an event."""


@inner
def shown_list(results: Results, query: int, key: int) -> Pairs:
    """Return a view of the list that a query with boundaries showed last."""
    progress, start = results.progress, results.queries.shown_start[query]
    stop = start + results.queries.k[query]
    return Pairs(progress.shown_score[key, start:stop], progress.shown_older[key, start:stop], progress.shown_newer[key, start:stop])


@inner
def boundary_after(at: int, every: int) -> int:
    """Return the first boundary at ``at`` or later."""
    return -((-at) // every) * every


@inner
def set_due(results: Results, query: int, key: int, at: int) -> None:
    """Note that the result of a query with boundaries may change at the next one."""
    due = boundary_after(at, results.queries.every[query])
    results.progress.due[query, key] = min(results.progress.due[query, key], due)


@inner
def set_wake(results: Results, query: int, key: int, history: History) -> None:
    """Note the next expiry by time of a member, or the boundary that is due, whichever is earlier. O(k)."""
    queries, best, wake = results.queries, results.best, results.progress.due[query, key]
    length = min(best.length[query, key], queries.k[query])
    if queries.window_micros[query] < UNBOUNDED and length > 0:
        first_out = oldest(entries(best, queries, query, key).older, length)
        wake = min(wake, history.times[first_out - history.first_stored] + queries.window_micros[query])
    results.progress.wake[query, key] = wake


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
def write_changes(results: Results, event: Event, gone: int, length_before: int, rows: ChangeRows, written: int) -> int:
    """Write the difference from the list before an event; ``gone``: the object that it deletes, or -1. Return the next free row. O(k)."""
    query, key = event.query, event.key
    pairs = entries(results.best, results.queries, query, key)
    length = min(results.best.length[query, key], results.queries.k[query])
    end = difference(rows, written, event, results.before, length_before, pairs, length)
    for row in range(written, end):
        fields = rows.fields[row]
        if fields[SIGN] < 0 and gone >= 0 and (fields[OLDER] == gone or fields[NEWER] >> 1 == gone):
            fields[CAUSE] = DELETE
    if end > written:
        results.progress.step[query, key] += 1
    return end


@inner
def write_boundary(results: Results, event: Event, rows: ChangeRows, written: int) -> int:
    """Write the difference from the list last shown, and show the list. Return the next free row. O(k)."""
    query, key, progress = event.query, event.key, results.progress
    pairs, shown = entries(results.best, results.queries, query, key), shown_list(results, query, key)
    length = min(results.best.length[query, key], results.queries.k[query])
    start, count = results.queries.shown_start[query], progress.shown[query, key]
    end = difference(rows, written, event, shown, count, pairs, length)
    row = written
    for i in range(count):
        # The pairs that left are in the order of the list.
        fields = rows.fields[min(row, end - 1)]
        if row < end and fields[SIGN] < 0 and fields[OLDER] == shown.older[i] and fields[NEWER] == shown.newer[i]:
            if results.shown_deleted[key, start + i] == 1:
                fields[CAUSE] = DELETE
            row += 1
    for i in range(results.queries.k[query]):
        results.shown_deleted[key, start + i] = 0
    copy_pairs(pairs, length, shown)
    progress.shown[query, key] = length
    if end > written:
        progress.step[query, key] += 1
    return end


@inner
def mark_shown(results: Results, query: int, key: int, gone: int) -> bool:
    """Mark the pairs with the object ``gone`` in the list last shown, and return whether there are any."""
    shown, found = shown_list(results, query, key), False
    start = results.queries.shown_start[query]
    for i in range(results.progress.shown[query, key]):
        if shown.older[i] == gone or shown.newer[i] >> 1 == gone:
            results.shown_deleted[key, start + i] = 1
            found = True
    return found


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
            event = Event(query, key, at, progress.step[query, key] + 1, first_alive, -1, False)
            written = write_changes(results, event, -1, length_before, rows, written)
    elif dropped:
        set_due(results, query, key, at)
    if boundary and progress.due[query, key] == at:
        progress.due[query, key] = NEVER
        joins += refill(test_as_a, test_as_b, results, query, window, tables, index, counters)
        event = Event(query, key, at, progress.step[query, key] + 1, first_alive, -1, True)
        written = write_boundary(results, event, rows, written)
    set_wake(results, query, key, history)
    return written, joins
