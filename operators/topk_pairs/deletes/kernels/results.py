"""The results of the queries of one reserve, and the changes from one to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, I64, NEVER, PROMOTED
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.changes import first_not_before
from skyband.operators.pair_rows.kernels.tables import (
    AT,
    CAUSE,
    KEY,
    NEWER,
    OLDER,
    POSITION,
    QUERY,
    SIGN,
    STEP,
    ChangeRows,
    Pairs,
    Progress,
    Queries,
    new_pairs,
    part,
)
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
    """int64 (keys, shown pairs): 1 for a pair shown at the last boundary (``Progress.shown_score``) with an object deleted since."""


class Event(NamedTuple):
    """What makes results change. All int64."""

    key: int
    at: int
    arriving: int
    """The object that arrives, or -1."""
    deleted: int
    """The object that is deleted, or -1."""


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
            results.length_before[query] = results.length[query]
            for i in range(queries.list_start[query], queries.list_start[query] + results.length[query]):
                results.before.score[i], results.before.older[i] = results.now.score[i], results.now.older[i]
                results.before.newer[i] = results.now.newer[i]


@inner
def put(
    rows: ChangeRows, row: int, query: int, event: Event, step: int, position: int, sign: int, cause: int, pairs: Pairs, i: int
) -> None:
    """Write change ``row``: pair ``i`` of a list enters or leaves."""
    fields = rows.fields[row]
    fields[QUERY], fields[KEY], fields[AT], fields[STEP] = query, event.key, event.at, step
    fields[POSITION], fields[SIGN], fields[CAUSE] = position, sign, cause
    fields[OLDER], fields[NEWER] = pairs.older[i], pairs.newer[i]
    rows.score[row] = pairs.score[i]


@inner
def difference(
    rows: ChangeRows, written: int, query: int, event: Event, step: int, first: int, gone: I64, before: Pairs, length_before: int,
    after: Pairs, length: int,
) -> int:  # fmt: skip
    """Write the net difference between two lists; return the next free row, for which there must be room. O(both lengths).

    ``first``: the first object alive. ``gone`` (pairs of ``before``,): 1 for deleted ones; for an event without a boundary (0,).
    """
    position, j, boundary = 0, 0, len(gone) > 0
    for i in range(length_before):
        older, newer = before.older[i], before.newer[i]
        j = first_not_before(after, j, length, before.score[i], older, newer)
        if j < length and after.older[j] == older and after.newer[j] == newer:
            continue
        deleted = gone[i] > 0 if boundary else older == event.deleted or newer >> 1 == event.deleted
        cause = DELETE if deleted else (EXPIRY if older < first else DISPLACED)
        put(rows, written, query, event, step, position, -1, cause, before, i)
        position += 1
        written += 1
    j = 0
    for i in range(length):
        older, newer = after.older[i], after.newer[i]
        j = first_not_before(before, j, length_before, after.score[i], older, newer)
        if j < length_before and before.older[j] == older and before.newer[j] == newer:
            continue
        cause = BOUNDARY if boundary else (ARRIVAL if newer >> 1 == event.arriving else PROMOTED)
        put(rows, written, query, event, step, position, 1, cause, after, i)
        position += 1
        written += 1
    return written


@inner
def write_changes(
    queries: Queries, of_query: I64, which: int, event: Event, first: int, progress: Progress, results: Results, none: I64,
    rows: ChangeRows, written: int,
) -> int:  # fmt: skip
    """Write the changes of the queries of reserve ``which`` by an event; with boundaries, note the next one. Return the next free row."""
    for query in range(len(queries.k)):
        if of_query[query] != which:
            continue
        start, every = queries.list_start[query], queries.every[query]
        if every > 0:
            if progress.due[query, event.key] == NEVER:
                progress.due[query, event.key] = -(-event.at // every) * every
            continue
        now, before = part(results.now, start, queries.k[query]), part(results.before, start, queries.k[query])
        step = progress.step[query, event.key] + 1
        more = difference(
            rows, written, query, event, step, first, none, before, results.length_before[query], now, results.length[query]
        )  # fmt: skip
        if more > written:
            progress.step[query, event.key] = step
        written = more
    return written


@inner
def mark_shown(queries: Queries, of_query: I64, which: int, key: int, deleted: int, progress: Progress, results: Results) -> None:
    """Mark the pairs of an object that were shown at the last boundary and are to leave as deleted."""
    for query in range(len(queries.k)):
        if of_query[query] == which and queries.every[query] > 0:
            start = queries.shown_start[query]
            for i in range(progress.shown[query, key]):
                if progress.shown_older[key, start + i] == deleted or progress.shown_newer[key, start + i] >> 1 == deleted:
                    results.gone[key, start + i] = 1


@inner
def write_boundary(
    query: int, key: int, first: int, queries: Queries, progress: Progress, results: Results, rows: ChangeRows, written: int
) -> int:
    """Write the changes of a query at the boundary that is due; return the next free row."""
    start, k, shown_start = queries.list_start[query], queries.k[query], queries.shown_start[query]
    at, shown = progress.due[query, key], progress.shown[query, key]
    progress.due[query, key] = NEVER
    before = Pairs(
        progress.shown_score[key, shown_start : shown_start + k], progress.shown_older[key, shown_start : shown_start + k],
        progress.shown_newer[key, shown_start : shown_start + k],
    )  # fmt: skip
    now, gone = part(results.now, start, k), results.gone[key, shown_start : shown_start + k]
    step = progress.step[query, key] + 1
    more = difference(rows, written, query, Event(key, at, -1, -1), step, first, gone, before, shown, now, results.length[query])
    if more > written:
        progress.step[query, key] = step
    for i in range(results.length[query]):
        before.score[i], before.older[i], before.newer[i], gone[i] = now.score[i], now.older[i], now.newer[i], 0
    progress.shown[query, key] = results.length[query]
    return more
