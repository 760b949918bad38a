"""Replay of one query and key over a block of arrivals: the event loop that every top-k operator shares (docs/algorithms D1, step 2).

The query's *list* holds every alive candidate that ranks at or above its cutoff: fewer than 2 * limit of them, in rank order. Only rows
that reach the cutoff (*candidates*, found beforehand by a scan or an index) and the departures of the first k are visited; between them
nothing can change. Members after the first k may have expired until they would be promoted, or until the list is long. When fewer than k
are left and other candidates exist, ``replay_on`` stops within the event; the driver refills the list and calls it again.

Work per visit hardly grows with the list: the oldest of the first k is tracked instead of searched for, a departure moves the tail of the
list instead of filtering it, and the time column is not read until needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import DELETE, EXPIRY, NEVER, AnyArray
from skyband.operators.jit import inner
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event
from skyband.operators.single_rows.kernels.net_change import AppliedEvent, Shown, changed, write_boundary, write_event
from skyband.operators.single_rows.kernels.ranked_list import (
    ALWAYS,
    Alive,
    Departure,
    RankedList,
    alive_from,
    delete,
    expire,
    insert,
    oldest,
    place_for,
    purge,
)
from skyband.operators.single_rows.kernels.replay_state import (
    BASE,
    CUT,
    DELETION,
    DONE,
    FULL,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    REFILL,
    ROOM,
    ROW,
    ROWS,
    SIZE,
    VISITS,
    Candidates,
    Moment,
    Progress,
    Query,
    Records,
    Span,
    resume,
    suspend,
)
from skyband.operators.windows import UNBOUNDED

# Kinds of events: none, an expiry by time, a deletion, an arrival, an arrival that makes the oldest expire by count.
NOTHING, EXPIRES, DELETED, ARRIVES, LEAVES = range(5)


@inner
def next_moment(
    query: Query, span: Span, block: Block, ranked: RankedList, first: int, row: int, deletion: int, candidate: int, known: int
) -> Moment:
    """Return the next event of a list, from ``row`` and ``deletion`` on.

    The oldest of the first k is at place ``first``; ``candidate`` is the next row that reaches the cutoff (``known``: none before it)."""
    expiry: Any = np.int64(NEVER)
    at_row, kind = candidate, ARRIVES
    if first >= 0:
        if query.micros < UNBOUNDED:
            expiry = ranked.time[first] + query.micros
        leaves = span.begin + (ranked.seq[first] + query.count - span.first_seq)
        if leaves <= at_row and leaves < known:
            at_row, kind = leaves, LEAVES
    if deletion < span.deletions_end and block.deletion_row[deletion] <= at_row:
        at_row, kind = block.deletion_row[deletion], DELETED
    elif at_row == known:
        kind = NOTHING
    at = at_row
    if span.timed:
        if kind == DELETED:
            at = block.deletion_time[deletion]
        elif at_row < span.end:
            at = block.time[at_row]
        else:
            at = span.until
        if expiry < at or (expiry == at and (kind == DELETED or at_row < span.end)):
            return Moment(int(lower_bound(block.time, row, at_row, expiry)), expiry, EXPIRES)
        if kind == NOTHING:
            at = span.until
    return Moment(at_row, at, kind)


@inner
def write_due_boundary(
    query: Query, span: Span, block: Block, ranked: RankedList, size: int, records: Records, row: int, before: int,
    changes: ChangeRows, out: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the changes of a boundary that falls before row ``before``. Returns the first row after it and the next change to write."""
    number, key, now, column = query.number, span.key, min(query.k, size), query.column
    at = records.due[number, key]
    row = int(lower_bound(block.time, row, before, at + 1))
    columns = slice(column, column + query.k)
    shown = Shown(
        records.shown_score[key, columns], records.shown_seq[key, columns], records.shown_time[key, columns],
        records.shown_deleted[key, columns],
    )  # fmt: skip
    event = Event(number, key, at, records.step[number, key] + 1)
    alive = Alive(span.first_seq + (row - span.begin) - query.count, alive_from(at, query.micros))
    begin = out
    out = write_boundary(changes, out, event, ranked, now, shown, records.shown[number, key], alive.seq, alive.time)
    records.shown[number, key] = now
    records.due[number, key] = NEVER
    if out > begin:
        records.step[number, key] += 1
    return row, out


@inner
def mark_shown_deleted(query: Query, key: int, seq: int, records: Records) -> None:
    """Note that a member a boundary has shown was deleted. O(k)."""
    for i in range(query.column, query.column + records.shown[query.number, key]):
        if records.shown_seq[key, i] == seq:
            records.shown_deleted[key, i] = 1


@inner
def apply_event(
    query: Query, span: Span, moment: Moment, deleted: int, candidates: Candidates, candidate: int, ranked: RankedList, size: int,
    first: int,
) -> tuple[AppliedEvent, int, int]:  # fmt: skip
    """Apply an event to the list of ``size`` whose oldest of the first k stands at ``first``. Returns what became of it, the new size and
    the place of the oldest.

    ``deleted``: the seq a deletion takes away. Entry ``candidate`` of ``candidates`` is the moment's row, or there is none (-1).
    """
    k, timed, seq = query.k, span.timed, span.first_seq + (moment.row - span.begin)
    shown, place, cause = min(k, size), -1, EXPIRY
    gone = Departure(size, 0, first)
    since = alive_from(moment.at, query.micros) if timed else ALWAYS
    if moment.kind == EXPIRES:
        gone = expire(ranked, size, k, first, Alive(seq - query.count, since), timed)
    elif moment.kind == DELETED:
        cause = DELETE
        gone = delete(ranked, size, k, first, deleted, Alive(seq - query.count, since), timed)
    elif moment.kind == LEAVES:
        gone = expire(ranked, size, k, first, Alive(seq - query.count + 1, since), timed)
    size, first = gone.size, gone.oldest
    if candidate >= 0:
        score = candidates.score[candidate]
        place = place_for(ranked, size, score)
        insert(ranked, size, place, score, seq, moment.at, timed)
        size += 1
        if place < k:  # the newest of all: it cannot be the oldest unless it is alone
            first = max(first, 0) if size == 1 else first + (1 if place <= first else 0)
            if first >= k:
                first = int(oldest(ranked.seq, min(k, size)))
    return AppliedEvent(moment.row, moment.at, shown, gone.left, cause, place), size, first


@inner
def report_event(
    query: Query, key: int, applied: AppliedEvent, ranked: RankedList, size: int, records: Records, changes: ChangeRows, out: int
) -> int:
    """Write the net change of an event, or mark the next boundary as due; return the next change to write."""
    number = query.number
    if not changed(query.k, applied, size):
        return out
    if query.every > 0:
        if records.due[number, key] == NEVER:
            records.due[number, key] = -((-applied.at) // query.every) * query.every
        return out
    records.step[number, key] += 1
    return int(write_event(changes, out, Event(number, key, applied.at, records.step[number, key]), query.k, applied, ranked, size))


@inner
def with_arrival_place(applied: AppliedEvent, ranked: RankedList, size: int, seq: int) -> AppliedEvent:
    """Return the event with the place of its object, of ``seq``, which may have come with the refill. O(list)."""
    place = -1
    for i in range(size):
        if ranked.seq[i] == seq:
            place = i
    return AppliedEvent(applied.row, applied.at, applied.shown, applied.left, applied.cause, place)


@inner
def shorten(query: Query, span: Span, row: int, at: int, ranked: RankedList, progress: Progress) -> None:
    """Remove the expired members of a list that has become long, as of ``row`` and ``at``; if it is still long, cut its tail and lower its
    limit. A refill finds again what the cut removes. O(list)."""
    places = progress.places
    since = alive_from(at, query.micros) if span.timed else ALWAYS
    size, _ = purge(ranked, places[SIZE], 0, Alive(span.first_seq + (row - span.begin) - query.count, since))
    limit = places[LIMIT]
    if size > limit + limit // 2:
        limit = max(limit // 2, places[BASE])
        size = min(size, limit)
        progress.cutoff[0], places[CUT], places[FULL] = ranked.score[size - 1], ranked.seq[size - 1], 0
    places[SIZE], places[LIMIT] = size, limit


@inner
def replay_on(
    query: Query, span: Span, block: Block, candidates: Candidates, found: int, known: int,
    ranked: RankedList, progress: Progress, records: Records, changes: ChangeRows,
) -> int:  # fmt: skip
    """Go on from ``progress`` to the end of the block (DONE), to the next refill (REFILL), or to row ``known`` (ROWS): candidates are
    known for rows before it only. Stop also when changes need more room (ROOM). Return the reason.

    ``candidates`` are ``found`` rows of the span, in order. O(k) per change and O(list) moves per visited event.
    """
    places, due, k = progress.places, records.due, query.k
    row, deletion, candidate, out = places[ROW], places[DELETION], places[NEXT], places[OUT]
    size, limit, visits, full, cutoff = places[SIZE], places[LIMIT], places[VISITS], places[FULL] == 1, progress.cutoff[0]
    pending, stop, room = places[PENDING] == 1, DONE, len(changes.score) - 4 * k - 4
    applied = resume(places)
    first = oldest(ranked.seq, min(k, size))
    while True:
        if not pending:
            if out > room:
                stop = ROOM
                break
            while candidate < found and (candidates.row[candidate] < row or not candidates.score[candidate] >= cutoff):
                candidate += 1
            reaches = candidates.row[candidate] if candidate < found else known
            moment = next_moment(query, span, block, ranked, first, row, deletion, reaches, known)
            if moment.kind == NOTHING and known < span.end:
                stop = ROWS
                break
            if moment.kind == NOTHING and (query.every == 0 or due[query.number, span.key] >= span.until):
                break
            if query.every > 0 and due[query.number, span.key] < moment.at:
                row, out = write_due_boundary(query, span, block, ranked, size, records, row, moment.row, changes, out)
                continue
            row, deleted, entry = moment.row, -1, -1
            if moment.kind == DELETED:
                deleted = block.deletion_seq[deletion]
                deletion += 1
                if query.every > 0:
                    mark_shown_deleted(query, span.key, deleted, records)
            elif moment.kind != EXPIRES:
                entry = candidate if candidate < found and reaches == row else -1
                row += 1
            applied, size, first = apply_event(query, span, moment, deleted, candidates, entry, ranked, size, first)
            visits += 1
            if size < k and not full:
                stop = REFILL
                break
        elif row > applied.row and applied.place < 0:
            applied = with_arrival_place(applied, ranked, size, span.first_seq + (applied.row - span.begin))
        pending = False
        out = report_event(query, span.key, applied, ranked, size, records, changes, out)
        if size >= 2 * limit:
            places[SIZE], places[LIMIT], places[FULL], progress.cutoff[0] = size, limit, 1 if full else 0, cutoff
            shorten(query, span, row, applied.at, ranked, progress)
            size, limit, full, cutoff = places[SIZE], places[LIMIT], places[FULL] == 1, progress.cutoff[0]
            first = oldest(ranked.seq, min(k, size))
    places[ROW], places[DELETION], places[NEXT], places[OUT] = row, deletion, candidate, out
    places[SIZE], places[LIMIT], places[VISITS], places[FULL], progress.cutoff[0] = size, limit, visits, 1 if full else 0, cutoff
    suspend(places, stop == REFILL, applied)
    return stop


@inner
def next_capacity(changes: ChangeRows, k: int) -> int:
    """Return the capacity for changes with which to resume a replay that stopped for ROOM."""
    return 2 * len(changes.score) + 4 * k + 4


@inner
def stamp(changes: ChangeRows, begin: int, end: int, time: AnyArray) -> None:
    """Put the times of the rows noted in changes [begin, end) there: all at once, so that the reads overlap."""
    numbers = changes.numbers
    for row in range(begin, end):
        numbers[row, 2] = time[numbers[row, 2]]


@inner
def next_wake(ranked: RankedList, size: int, micros: int) -> int:
    """Return the next expiry by time of the first ``size``, or NEVER."""
    if micros >= UNBOUNDED or size == 0:
        return NEVER
    instant: int = ranked.time[oldest(ranked.seq, size)] + micros
    return instant
