"""The kernels, state and logic of threshold queries over one scoring function.

The objects that pass are replayed first in, first out: a result set has no k, so there is nothing to refill. A query takes the items whose
internal score lies in its interval; each enters when it arrives and leaves at its expiry or deletion.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import (
    ARRIVAL,
    BOUNDARY,
    DELETE,
    EXPIRY,
    F64,
    I64,
    NEVER,
    NULL,
    AnyArray,
    Arrivals,
    Changes,
    Instant,
    Items,
    State,
    Window,
)
from skyband.operators.jit import inner, jit, maker
from skyband.operators.single_rows.arrays import changes_of, earliest, external, widened
from skyband.operators.single_rows.blocks import Block, columns_of, cut, last_key
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, change_rows, more_rows, put
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.threshold.one_function_configuration import ThresholdConfiguration
from skyband.operators.windows import UNBOUNDED, check_window, count_of, micros_of

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


# The state and the logic.


class Kept(NamedTuple):
    """Objects between blocks, by key and then in seq order, (objects,) each: int64 ``key``, float64 internal ``score``, int64 ``seq``,
    ``time`` and ``deleted_at``, the instant of deletion or ``NEVER``."""

    key: I64
    score: F64
    seq: I64
    time: I64
    deleted_at: I64


class ThresholdLogic:
    """State of one bucket: per key the passing objects in seq order (score, seq, time, instant of deletion)."""

    _SAVED = ("next_seq", "step", "wake_at", "due", "shown_at", "shown_seq")

    def __init__(self, op: ThresholdConfiguration, state: State | None) -> None:
        self.op = op
        qs = op.queries
        w = [q.window.within(op.window) for q in qs]
        both = np.array([q.interval() for q in qs], np.float64)
        if op.direction == "min":
            both = -both[:, ::-1]
        self.queries = ThresholdQueries(
            np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]), np.array([count_of(x) for x in w], np.int64),
            np.array([micros_of(x) for x in w], np.int64), np.array([q.every_micros or 0 for q in qs], np.int64),
        )  # fmt: skip
        some = self.queries.low <= self.queries.high
        self.hull = (self.queries.low[some].min(), self.queries.high[some].max()) if some.any() else (np.inf, -np.inf)
        self.rows = self.unusable = self.eligible = 0
        empty = np.empty(0, np.int64)
        self.until, self.next_seq = NULL, empty
        self.step, self.wake_at, self.due, self.shown_at, self.shown_seq = (np.empty((len(qs), 0), np.int64) for _ in range(5))
        self.kept = Kept(empty, np.empty(0, np.float64), empty, empty, empty)
        self.tombs = Tombstones.empty()
        if state is not None:
            self._restore(state)

    def _restore(self, state: State) -> None:
        a, rows = state.arrays, state.rows
        self.until = int(a["until"][0])
        for name in self._SAVED:
            setattr(self, name, np.array(a[name]))
        self.tombs = Tombstones(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
        score, _ = self.op.scores({c.name: rows.columns[c.name] for c in self.op.scores.columns}, len(rows))
        key, seq, time = (np.asarray(x, np.int64) for x in (rows.key, rows.seq, rows.time))
        self._keep(key, score, seq, time, self.tombs.times(key, seq))

    def _keep(self, key: I64, score: F64, seq: I64, time: I64, dead: I64) -> None:
        """Keep what is alive or still has to be reported as gone by a query with boundaries."""
        keep = (dead == NEVER) & (seq >= self.next_seq[key] - count_of(self.op.window))
        if self.op.window.micros is not None and len(key):
            keep &= time >= self.until - self.op.window.micros
        for q in np.flatnonzero(self.queries.every):
            b, newest = self.shown_at[q][key], self.shown_seq[q][key]
            was = (self.due[q][key] < NEVER) & (b != NULL) & (time <= b) & (seq > newest - self.queries.count[q]) & (dead > b)
            keep |= was & ((time > b - self.queries.micros[q]) if self.queries.micros[q] < UNBOUNDED else True)
        keep &= self._passes(score)
        self.kept = Kept(key[keep], score[keep], seq[keep], time[keep], dead[keep])

    def _passes(self, score: F64) -> AnyArray:
        """Return True if a score may pass some query (exact for one query, the hull of their intervals for more)."""
        passes: AnyArray = (score >= self.hull[0]) & (score <= self.hull[1])
        return passes

    def _grow(self, keys: int) -> None:
        if keys <= len(self.next_seq):
            return
        self.next_seq = widened(self.next_seq, keys, 0, 0)
        self.step, self.shown_seq = widened(self.step, keys, 0, 1), widened(self.shown_seq, keys, -1, 1)
        self.wake_at, self.due = widened(self.wake_at, keys, NEVER, 1), widened(self.due, keys, NEVER, 1)
        self.shown_at = widened(self.shown_at, keys, NULL, 1)

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``. O(rows) for the scores, then O(passing objects) per query."""
        op = self.op
        self._grow(last_key(arrivals) + 1)
        also = np.flatnonzero(self.wake_at.min(axis=0) < until) if self.next_seq.size else np.empty(0, np.int64)
        block, objects = cut(arrivals, self.next_seq, also, op.deletes)
        rows = len(block.time)
        score, unusable = op.scores(columns_of(arrivals, objects, tuple(c.name for c in op.scores.columns)), rows)
        self.rows += rows
        self.unusable += unusable
        self.eligible += unusable + rows - int(np.count_nonzero(np.isnan(score)))
        key, sc, seq, time, dead = self._items(block, score)
        moff = np.concatenate([np.searchsorted(key, block.keys), [0]])
        moff[-1] = 0 if not len(block.keys) else np.searchsorted(key, block.keys[-1], "right")
        ends = np.searchsorted(key, block.keys, "right")
        mine = np.zeros(len(key) + 1, np.int64)  # only items of the block's keys, packed
        np.add.at(mine, moff[:-1], 1)
        np.subtract.at(mine, ends, 1)
        here = np.flatnonzero(np.cumsum(mine)[:-1] > 0)
        packed = np.concatenate([[0], np.cumsum(ends - moff[:-1])]).astype(np.int64)
        items = (packed, sc[here], seq[here], time[here], dead[here])
        records = (self.step, self.wake_at, self.due, self.shown_at, self.shown_seq)
        found, n = replay_block(tuple(self.queries), tuple(block), items, records, self.until, until)
        self.next_seq[block.keys] = block.first_seq + block.end - block.begin
        self.until = until
        self._keep(key, sc, seq, time, dead)
        return changes_of(ChangeRows(*found), n, op.direction == "min")

    def _items(self, block: Block, score: F64) -> tuple[I64, F64, I64, I64, I64]:
        """Return kept and newly passing objects of all keys by (key, seq), with their instants of deletion."""
        rows = np.flatnonzero(self._passes(score))
        of = np.searchsorted(block.end, rows, "right")
        key = np.concatenate([self.kept.key, block.keys[of]])
        sc = np.concatenate([self.kept.score, score[rows]])
        seq = np.concatenate([self.kept.seq, block.first_seq[of] + rows - block.begin[of]])
        time = np.concatenate([self.kept.time, block.time[rows]])
        dead = np.concatenate([self.kept.deleted_at, np.full(len(rows), NEVER)])
        if len(block.keys) and (len(block.keys) > 1 or len(self.kept.key)):
            order = np.argsort(key, kind="stable")
            key, sc, seq, time, dead = key[order], sc[order], seq[order], time[order], dead[order]
        if len(block.deletion_row):
            new = Tombstones(np.repeat(block.keys, block.deletion_end - block.deletion_begin), block.deletion_seq, block.deletion_time)
            dead = np.minimum(dead, new.times(key, seq))
            self.tombs = self.tombs.with_(new)
        return key, sc, seq, time, dead

    def wake(self) -> Instant | None:
        """Return the next expiry of a result object or the next boundary at which a query has changes."""
        return earliest(self.wake_at)

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return steps, clocks and deleted seqs; scores are computed again from the kept rows."""
        saved = {"until": np.array([self.until], np.int64)}
        saved.update({name: np.array(getattr(self, name)) for name in self._SAVED})
        kept = Tombstones(self.kept.key, self.kept.seq, self.kept.deleted_at)
        self.tombs = kept.where(self.kept.deleted_at < NEVER).with_(self.tombs.alive(self.next_seq, self.until, self.op.window))
        saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        return saved

    def retained(self) -> tuple[I64, I64]:
        """Return the objects that are or may become part of a result, or still have to be reported as gone."""
        return self.kept.key.copy(), self.kept.seq.copy()

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the first k of the result for any window n <= N, in rank order."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        check_window(window, self.op.window, "snapshot")
        w = window.within(self.op.window)
        kept, queries = self.kept, self.queries
        keep = (kept.key == key) & (kept.deleted_at == NEVER) & (kept.score >= queries.low[query]) & (kept.score <= queries.high[query])
        if keep.any():
            keep &= kept.seq >= self.next_seq[key] - count_of(w)
            if w.micros is not None:
                keep &= kept.time >= self.until - w.micros
        score, seq = kept.score[keep], kept.seq[keep]
        best = np.lexsort((seq, score))[::-1][:k]
        return Items(np.full(len(best), key, np.int64), seq[best].reshape(-1, 1), external(score[best], self.op.direction == "min"))

    def skyband(self) -> Items:
        """Return all alive objects that pass some query, grouped by key, in seq order."""
        kept = self.kept
        keep = (kept.deleted_at == NEVER) & (kept.seq >= self.next_seq[kept.key] - count_of(self.op.window))
        if self.op.window.micros is not None and len(keep):
            keep &= kept.time >= self.until - self.op.window.micros
        return Items(kept.key[keep], kept.seq[keep].reshape(-1, 1), external(kept.score[keep], self.op.direction == "min"))

    def counters(self) -> dict[str, int]:
        """Return rows, and objects that queries cannot use, since the last call."""
        found = {"rows": self.rows}
        for i in range(len(self.op.queries)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.eligible}
        self.rows = self.unusable = self.eligible = 0
        return found
