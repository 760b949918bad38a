"""Threshold queries: replay of the objects that pass, first in first out (a result set has no k, so there is nothing to refill).

A query takes the items whose internal score lies in its interval; each enters when it arrives and leaves at its expiry or deletion.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, EXPIRY, F64, I64, NEVER, NULL, AnyArray
from skyband.operators.jit import inner, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, change_rows, more_rows, put
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.windows import UNBOUNDED

Plain = tuple[Any, ...]


class ThresholdQueries(NamedTuple):
    """(queries,) each: float64 ``low``, ``high``, the closed interval of internal scores that pass; int64 ``count`` and ``micros`` of the
    window (``UNBOUNDED``: none) and ``every`` (0: per event)."""

    low: F64
    high: F64
    count: I64  # type: ignore[assignment]  # a window's count, not the tuple's method
    micros: I64
    every: I64


class Query(NamedTuple):
    """One of the queries, by its number."""

    number: int
    count: int  # type: ignore[assignment]  # a window's count, not the tuple's method
    micros: int
    every: int


class PassingItems(NamedTuple):
    """The kept objects of earlier blocks and the passing ones of this one, by key and then in seq order.

    ``begin`` int64 (keys of the block + 1,): those of key g are begin[g]..begin[g + 1]. (items,) each: internal ``score`` float64, ``seq``
    int64, ``time`` int64, ``deleted_at`` int64, the instant of deletion or ``NEVER``.
    """

    begin: I64
    score: F64
    seq: I64
    time: I64
    deleted_at: I64


class ThresholdRecords(NamedTuple):
    """What a query has reported of a key, kept between blocks: int64 (queries, keys) each.

    ``step``, ``wake`` and ``due`` as in top-k's ``Records``; ``shown_at`` the last boundary (``NULL``: none) and ``shown_seq`` the last seq
    by then. Together they determine the result shown.
    """

    step: I64
    wake: I64
    due: I64
    shown_at: I64
    shown_seq: I64


class KeyVisit(NamedTuple):
    """One query's passing items of one key in a block, in seq order.

    ``item`` int64 (room,): which; ``gone`` int8 (room,): 1 once it has left; ``leaving``: room to put some in rank order. ``places`` int64
    (6,): see below.
    """

    item: I64
    gone: AnyArray
    leaving: Heap
    places: I64


# Places of ``KeyVisit.places``: how many items there are, how many of them have arrived, the first that may still be in the result, the
# next deletion, the next change to write, and the key's part of the block.
SIZE, ARRIVED, HEAD, DELETION, OUT, GROUP = range(6)

# What happens at a moment: nothing more, an expiry by time, a deletion, a row's arrival (of an item or of one that pushes the head out).
NOTHING, EXPIRES, DELETED, ARRIVES, LEAVES = range(5)


class Moment(NamedTuple):
    """The next event: its row of the block, its instant, and what happens."""

    row: int
    at: int
    kind: int


@inner
def was_shown(items: PassingItems, item: int, query: Query, records: ThresholdRecords, key: int) -> bool:
    """Return True if an item was in the result as of the last boundary."""
    boundary, newest = records.shown_at[query.number, key], records.shown_seq[query.number, key]
    if boundary == NULL or items.time[item] > boundary or items.seq[item] <= newest - query.count:
        return False
    alive = query.micros >= UNBOUNDED or items.time[item] > boundary - query.micros
    return bool(alive and items.deleted_at[item] > boundary)


@inner
def collect(
    queries: ThresholdQueries,
    query: Query,
    block: Block,
    group: int,
    items: PassingItems,
    records: ThresholdRecords,
    since: int,
    visit: KeyVisit,
) -> None:
    """Find the items of a key that the query takes: those alive at ``since``, those still to be reported as gone, those to arrive."""
    low, high, key, first_seq = queries.low[query.number], queries.high[query.number], block.keys[group], block.first_seq[group]
    size, arrived = 0, 0
    for i in range(items.begin[group], items.begin[group + 1]):
        if not low <= items.score[i] <= high:
            continue
        gone = 0
        if items.seq[i] < first_seq:
            alive = items.seq[i] >= first_seq - query.count and items.deleted_at[i] >= since
            alive = alive and (query.micros >= UNBOUNDED or items.time[i] + query.micros >= since)
            if not alive and not (query.every > 0 and was_shown(items, i, query, records, key)):
                continue
            gone = 0 if alive else 1
            arrived = size + 1
        visit.item[size], visit.gone[size] = i, gone
        size += 1
    places = visit.places
    places[SIZE], places[ARRIVED], places[HEAD], places[DELETION], places[GROUP] = size, arrived, 0, block.deletion_begin[group], group


@inner
def next_moment(query: Query, block: Block, items: PassingItems, visit: KeyVisit, until: int) -> Moment:
    """Return the next event of a key; the head is alive or there is none."""
    places = visit.places
    group, arrived, head, deletion = places[GROUP], places[ARRIVED], places[HEAD], places[DELETION]
    begin, end, first_seq = block.begin[group], block.end[group], block.first_seq[group]
    row, kind = end, NOTHING
    expiry: Any = np.int64(NEVER)
    if arrived < places[SIZE]:
        row, kind = begin + (items.seq[visit.item[arrived]] - first_seq), ARRIVES
    if head < arrived:
        oldest = visit.item[head]
        if query.micros < UNBOUNDED:
            expiry = items.time[oldest] + query.micros
        leaves = begin + (items.seq[oldest] + query.count - first_seq)
        if leaves <= row and leaves < end:
            row, kind = leaves, LEAVES
    if deletion < block.deletion_end[group] and block.deletion_row[deletion] <= row:
        at, kind = block.deletion_time[deletion], DELETED
    elif row < end:
        at = block.time[row]
    else:
        at = until
    if expiry < at or (expiry == at and kind != NOTHING):
        return Moment(row, expiry, EXPIRES)
    return Moment(row, at, kind)


@inner
def write_leaving(changes: ChangeRows, out: int, event: Event, cause: int, visit: KeyVisit, count: int, items: PassingItems) -> int:
    """Write that the ``count`` items of ``visit.leaving`` leave, in rank order, from change ``out`` on; the next change to write."""
    leaving = visit.leaving
    heap_to_order(leaving, count)
    for i in range(count):
        item = leaving.place[i]
        out = put(changes, out, event, i, -1, cause, items.seq[item], leaving.score[i])
    return out


@inner
def write_boundary(
    query: Query, block: Block, items: PassingItems, visit: KeyVisit, records: ThresholdRecords, changes: ChangeRows
) -> None:
    """Write the net change of the boundary that is due. O(items log items)."""
    places, leaving, number, key = visit.places, visit.leaving, query.number, block.keys[visit.places[GROUP]]
    boundary, begin, pos = records.due[number, key], places[OUT], 0
    event = Event(number, key, boundary, records.step[number, key] + 1)
    for sign in (-1, 1):
        count = 0
        for x in range(places[ARRIVED]):
            item = visit.item[x]
            was = was_shown(items, item, query, records, key)
            if (sign < 0 and was and visit.gone[x] != 0) or (sign > 0 and not was and visit.gone[x] == 0):
                count = heap_push(leaving, count, items.score[item], item)
        heap_to_order(leaving, count)
        for x in range(count):
            item = leaving.place[x]
            cause = BOUNDARY if sign > 0 else (DELETE if items.deleted_at[item] <= boundary else EXPIRY)
            places[OUT] = put(changes, places[OUT], event, pos, sign, cause, items.seq[item], leaving.score[x])
            pos += 1
    records.due[number, key] = NEVER
    records.step[number, key] += 1 if places[OUT] > begin else 0
    group = places[GROUP]
    last = lower_bound(block.time, block.begin[group], block.end[group], boundary + 1)
    records.shown_at[number, key], records.shown_seq[number, key] = boundary, block.first_seq[group] + (last - block.begin[group]) - 1


@inner
def expire(query: Query, items: PassingItems, visit: KeyVisit, at: int) -> int:
    """Let leave what expires by time at an instant; return how many, in ``visit.leaving``."""
    places, count = visit.places, 0
    x = places[HEAD]
    while x < places[ARRIVED] and items.time[visit.item[x]] + query.micros <= at:
        if visit.gone[x] == 0:
            count = heap_push(visit.leaving, count, items.score[visit.item[x]], visit.item[x])
            visit.gone[x] = 1
        x += 1
    return count


@inner
def delete(items: PassingItems, visit: KeyVisit, seq: int) -> int:
    """Let leave the item of ``seq`` if it is in the result; return how many did, in ``visit.leaving``. O(log items)."""
    x, end = visit.places[HEAD], visit.places[ARRIVED]
    while x < end:
        middle = (x + end) >> 1
        if items.seq[visit.item[middle]] < seq:
            x = middle + 1
        else:
            end = middle
    if x < visit.places[ARRIVED] and items.seq[visit.item[x]] == seq and visit.gone[x] == 0:
        visit.gone[x] = 1
        return int(heap_push(visit.leaving, 0, items.score[visit.item[x]], visit.item[x]))
    return 0


@inner
def apply_event(query: Query, block: Block, items: PassingItems, visit: KeyVisit, moment: Moment) -> tuple[int, int, int]:
    """Apply an event; return how many items left (in ``visit.leaving``), why, and which item arrived (-1: none)."""
    places = visit.places
    if moment.kind == EXPIRES:
        return expire(query, items, visit, moment.at), EXPIRY, -1
    if moment.kind == DELETED:
        places[DELETION] += 1
        return delete(items, visit, block.deletion_seq[places[DELETION] - 1]), DELETE, -1
    count, arrival, group = 0, -1, places[GROUP]
    if moment.kind == LEAVES:
        oldest = visit.item[places[HEAD]]
        count = heap_push(visit.leaving, count, items.score[oldest], oldest)
        visit.gone[places[HEAD]] = 1
    if places[ARRIVED] < places[SIZE]:
        item = visit.item[places[ARRIVED]]
        if block.begin[group] + (items.seq[item] - block.first_seq[group]) == moment.row:
            arrival = item
            places[ARRIVED] += 1
    return count, EXPIRY, arrival


@inner
def most_changes(query: Query, items: PassingItems, visit: KeyVisit, moment: Moment, boundary: bool) -> int:
    """Return a bound on the changes of a boundary or event. O(changes)."""
    places, most = visit.places, 2
    if boundary:
        return 2 * int(places[ARRIVED])
    if moment.kind == EXPIRES:
        x = places[HEAD]
        while x < places[ARRIVED] and items.time[visit.item[x]] + query.micros <= moment.at:
            x += 1
        most += x - places[HEAD]
    return most


@inner
def replay_key(
    query: Query, block: Block, items: PassingItems, visit: KeyVisit, records: ThresholdRecords, until: int, changes: ChangeRows
) -> bool:
    """Take the events of a key for one query, from ``visit`` on. False if there is too little room for changes."""
    places, number, key = visit.places, query.number, block.keys[visit.places[GROUP]]
    while True:
        while places[HEAD] < places[ARRIVED] and visit.gone[places[HEAD]] != 0:
            places[HEAD] += 1
        moment = next_moment(query, block, items, visit, until)
        if moment.kind == NOTHING and (query.every == 0 or records.due[number, key] >= until):
            return True
        boundary = query.every > 0 and records.due[number, key] < moment.at
        if places[OUT] + most_changes(query, items, visit, moment, boundary) > len(changes.score):
            return False
        if boundary:
            write_boundary(query, block, items, visit, records, changes)
            continue
        left, cause, arrival = apply_event(query, block, items, visit, moment)
        if left == 0 and arrival < 0:
            continue
        if query.every > 0:
            if records.due[number, key] == NEVER:
                records.due[number, key] = -((-moment.at) // query.every) * query.every
            continue
        records.step[number, key] += 1
        event = Event(number, key, moment.at, records.step[number, key])
        places[OUT] = write_leaving(changes, places[OUT], event, cause, visit, left, items)
        if arrival >= 0:
            places[OUT] = put(changes, places[OUT], event, left, 1, ARRIVAL, items.seq[arrival], items.score[arrival])


@inner
def next_wake(query: Query, key: int, items: PassingItems, visit: KeyVisit, records: ThresholdRecords) -> int:
    """Return the next expiry by time or boundary of a key, or NEVER."""
    places = visit.places
    wake: int = records.due[query.number, key]
    if query.micros < UNBOUNDED and places[HEAD] < places[ARRIVED]:
        wake = min(wake, items.time[visit.item[places[HEAD]]] + query.micros)
    return wake


@maker
def new_visit(room: int) -> KeyVisit:
    """Return room for ``room`` items."""
    heap = Heap(np.empty(room, np.float64), np.empty(room, np.int64))
    return KeyVisit(np.empty(room, np.int64), np.empty(room, np.int8), heap, np.zeros(6, np.int64))


@jit
def replay_block(queries: Plain, block: Plain, items: Plain, records: Plain, since: int, until: int) -> tuple[Plain, int]:
    """Replay the events of [since, until) for every query and every key of the block: the changes (grouped by query, then key) and their
    number. O(items) per query plus O(log) per key.

    Groups of arrays come and go as plain tuples, in the order of the fields of ``ThresholdQueries``, ``Block``, ``PassingItems``,
    ``ThresholdRecords`` and ``ChangeRows``: that costs less than NamedTuples for a call from Python.
    """
    table, rows, passed, reported = ThresholdQueries(*queries), Block(*block), PassingItems(*items), ThresholdRecords(*records)
    changes, visit, out = change_rows(1024), new_visit(1024), 0
    keys, first, wake, places = rows.keys, passed.begin, reported.wake, visit.places
    rows_begin, rows_end, deletion_begin, deletion_end = rows.begin, rows.end, rows.deletion_begin, rows.deletion_end
    room = 1024
    for number in range(len(table.low)):
        query = Query(number, table.count[number], table.micros[number], table.every[number])
        for group in range(len(keys)):
            key, size = keys[group], first[group + 1] - first[group]
            idle = rows_begin[group] == rows_end[group] and deletion_begin[group] == deletion_end[group]
            if idle and wake[number, key] >= until:
                continue
            if room < size:
                room = 2 * size
                visit = new_visit(room)
                places = visit.places
            collect(table, query, rows, group, passed, reported, since, visit)
            places[OUT] = out
            while not replay_key(query, rows, passed, visit, reported, until, changes):
                changes = more_rows(changes, 2 * len(changes.score))
            out = places[OUT]
            wake[number, key] = next_wake(query, key, passed, visit, reported)
    return (changes.numbers, changes.score), out
