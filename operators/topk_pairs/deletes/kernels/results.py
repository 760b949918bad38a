"""The results of the queries of one reserve, and the changes from one to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.boundaries import mark_shown, note_due, write_shown
from skyband.operators.pair_rows.kernels.changes import Event, difference
from skyband.operators.pair_rows.kernels.lists import copy_pairs
from skyband.operators.pair_rows.kernels.tables import ChangeRows, Pairs, Progress, Queries, new_pairs, part
from skyband.operators.topk_pairs.deletes.kernels.tables import DEPTH, LENGTH, SHORT, Layout, Reserve


class Results(NamedTuple):
    """The results of all queries for the key at hand."""

    now: Pairs
    """Side by side (``Queries.list_start``)."""
    before: Pairs
    """Those before the present event."""
    length: I64
    """int64 (queries,): pairs of each result."""
    length_before: I64
    """int64 (queries,), likewise."""
    gone: I64
    """int64 (keys, shown pairs): the ``marks`` of ``boundaries``."""


@maker
def no_results(queries: Queries, gone: I64) -> Results:
    """Return empty results."""
    width = queries.list_room.sum()
    n = len(queries.k)
    return Results(new_pairs(width), new_pairs(width), np.zeros(n, np.int64), np.zeros(n, np.int64), gone)


@inner
def take(reserve: Reserve, k: int, worst: float, most: int, marks: I64, first: int, best: Pairs) -> tuple[int, int]:
    """Fill ``best`` with a result; return how many it has and how many pairs were looked at.

    ``most`` > 0: passing over pairs with an object in so many taken ones; ``marks`` (objects from seq ``first`` on,) are then all 0, and
    are so again afterwards.
    """
    scores, olders, newers, taken, i = reserve.pairs.score, reserve.pairs.older, reserve.pairs.newer, 0, 0
    while i < reserve.fields[LENGTH] and taken < k and scores[i] <= worst:
        older, newer = olders[i] - first, (newers[i] >> 1) - first
        if most == 0 or (marks[older] < most and marks[newer] < most):
            best.score[taken], best.older[taken], best.newer[taken] = scores[i], olders[i], newers[i]
            taken += 1
            if most > 0:
                marks[older] += 1
                marks[newer] += 1
        i += 1
    if most > 0:
        for j in range(taken):
            marks[best.older[j] - first] = 0
            marks[(best.newer[j] >> 1) - first] = 0
    return taken, i


@inner
def take_all(
    layout: Layout, queries: Queries, of_query: I64, which: int, reserve: Reserve, marks: I64, first: int, results: Results
) -> bool:
    """Take the results of the queries of reserve ``which``; return True if they may lack pairs behind the floor."""
    fields, lacking = reserve.fields, False
    fields[DEPTH], fields[SHORT] = 0, 0
    for query in range(len(queries.k)):
        if of_query[query] != which:
            continue
        start, k = queries.list_start[query], queries.k[query]
        best = part(results.now, start, k)
        taken, looked = take(reserve, k, queries.worst[query], layout.max_per_object, marks, first, best)
        results.length[query] = taken
        fields[DEPTH] = max(fields[DEPTH], looked)
        if taken < k:
            fields[SHORT] = 1
            lacking = lacking or (looked == fields[LENGTH] and reserve.floor[0] <= queries.worst[query])
    return lacking


@inner
def keep_before(queries: Queries, of_query: I64, which: int, results: Results) -> None:
    """Copy the results of the queries of reserve ``which`` to those before the event."""
    for query in range(len(queries.k)):
        if of_query[query] == which:
            start, k = queries.list_start[query], queries.k[query]
            results.length_before[query] = results.length[query]
            copy_pairs(part(results.now, start, k), results.length[query], part(results.before, start, k))


@inner
def write_changes(
    queries: Queries, of_query: I64, which: int, key: int, at: int, first: int, arriving: int, deleted: int, progress: Progress,
    results: Results, rows: ChangeRows, written: int,
) -> int:  # fmt: skip
    """Write the changes of the queries of reserve ``which`` by an event, or note their next boundary. Return the next free row.

    ``first``: the first object alive. ``arriving``, ``deleted``: the object that arrives or is deleted, or -1.
    """
    for query in range(len(queries.k)):
        if of_query[query] != which:
            continue
        start, every = queries.list_start[query], queries.every[query]
        if every > 0:
            note_due(query, key, every, at, progress)
            continue
        now, before = part(results.now, start, queries.k[query]), part(results.before, start, queries.k[query])
        event = Event(query, key, at, progress.step[query, key] + 1, first, arriving, False, deleted)
        end = difference(rows, written, event, before, results.length_before[query], now, results.length[query])
        if end > written:
            progress.step[query, key] += 1
        written = end
    return written


@inner
def mark_deleted(queries: Queries, of_query: I64, which: int, key: int, gone: int, progress: Progress, results: Results) -> None:
    """Mark the pairs of the object ``gone`` that the queries of reserve ``which`` showed at their last boundaries."""
    for query in range(len(queries.k)):
        if of_query[query] == which and queries.every[query] > 0:
            mark_shown(query, key, gone, queries, progress, results.gone)


@inner
def write_boundary(
    query: int, key: int, first: int, queries: Queries, progress: Progress, results: Results, rows: ChangeRows, written: int
) -> int:  # fmt: skip
    """Write the changes of a query at the boundary that is due; return the next free row. ``first``: the first object alive."""
    event = Event(query, key, progress.due[query, key], progress.step[query, key] + 1, first, -1, True, -1)
    progress.due[query, key] = NEVER
    now = part(results.now, queries.list_start[query], queries.k[query])
    return write_shown(event, now, results.length[query], queries, progress, results.gone, rows, written)
