"""Boundaries of queries with ``every``: the one that is due, the list last shown, and what has been deleted of it since.

Where objects can be deleted, ``marks`` has a 1 for each shown pair (``Progress.shown_score``) of which an object was deleted since, and
else a 0. It is int64 (keys, shown pairs).
"""

from __future__ import annotations

from skyband.operators.base import DELETE, I64, NEVER
from skyband.operators.jit import inner
from skyband.operators.pair_rows.kernels.changes import Event, difference
from skyband.operators.pair_rows.kernels.lists import copy_pairs, oldest
from skyband.operators.pair_rows.kernels.tables import CAUSE, NEWER, OLDER, SIGN, ChangeRows, History, Pairs, Progress, Queries
from skyband.operators.windows import UNBOUNDED


@inner
def note_due(query: int, key: int, every: int, at: int, progress: Progress) -> None:
    """Note that the result of a query has changed: the first boundary at ``at`` or later is due, unless an earlier one is."""
    if progress.due[query, key] == NEVER:
        progress.due[query, key] = -(-at // every) * every


@inner
def note_wake(query: int, key: int, micros: int, olders: I64, length: int, history: History, progress: Progress) -> None:
    """Note the next expiry by time of one of the first ``length`` pairs, or the boundary that is due, whichever is earlier. O(length)."""
    wake = progress.due[query, key]
    if micros < UNBOUNDED and length > 0:
        wake = min(wake, history.times[oldest(olders, length) - history.first_stored] + micros)
    progress.wake[query, key] = wake


@inner
def shown_list(query: int, key: int, queries: Queries, progress: Progress) -> Pairs:
    """Return a view of the list that a query showed last; ``Progress.shown`` has its length."""
    start, stop = queries.shown_start[query], queries.shown_start[query] + queries.k[query]
    return Pairs(progress.shown_score[key, start:stop], progress.shown_older[key, start:stop], progress.shown_newer[key, start:stop])


@inner
def show(event: Event, best: Pairs, length: int, changed: bool, shown: Pairs, progress: Progress) -> None:
    """Store the list that a query shows now in ``shown``, and count a step if it has ``changed``."""
    copy_pairs(best, length, shown)
    progress.shown[event.query, event.key] = length
    if changed:
        progress.step[event.query, event.key] += 1


@inner
def mark_shown(query: int, key: int, gone: int, queries: Queries, progress: Progress, marks: I64) -> bool:
    """Mark the pairs with the object ``gone`` in the list last shown; return True if there are any."""
    shown, found = shown_list(query, key, queries, progress), False
    for i in range(progress.shown[query, key]):
        if shown.older[i] == gone or shown.newer[i] >> 1 == gone:
            marks[key, queries.shown_start[query] + i] = 1
            found = True
    return found


@inner
def name_deleted(rows: ChangeRows, written: int, end: int, shown: Pairs, marks: I64) -> None:
    """Let ``DELETE`` be the cause where change rows [``written``, ``end``) remove a marked pair of ``shown``; ``marks``: of its pairs."""
    row = written
    for i in range(len(marks)):
        if row == end or rows.fields[row, SIGN] > 0:
            break
        # The pairs that leave are in the order of the list.
        if rows.fields[row, OLDER] == shown.older[i] and rows.fields[row, NEWER] == shown.newer[i]:
            if marks[i] == 1:
                rows.fields[row, CAUSE] = DELETE
            row += 1


@inner
def write_shown(
    event: Event, best: Pairs, length: int, queries: Queries, progress: Progress, marks: I64, rows: ChangeRows, written: int
) -> int:  # fmt: skip
    """Write the changes since the list last shown, where objects can be deleted, and show ``best``. Return the next free row. O(k)."""
    query, key = event.query, event.key
    shown, count, start = shown_list(query, key, queries, progress), progress.shown[query, key], queries.shown_start[query]
    end = difference(rows, written, event, shown, count, best, length)
    name_deleted(rows, written, end, shown, marks[key, start : start + count])
    for i in range(queries.k[query]):
        marks[key, start + i] = 0
    show(event, best, length, end > written, shown, progress)
    return end
