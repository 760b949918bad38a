"""The queries that take the result of another one, in one bucket: the result's changes become rows, and operators run over them.

Rows have keys of their own, numbered in the order in which they have entries. All that a query's result does before an instant is taken
before the operators advance to it, so changes depend on how rows are cut into batches no more than those of the query that is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.items import SCORE
from skyband.framework.base.types import STAMP
from skyband.framework.streaming.bucket.item_rows import KeyValues, Result
from skyband.framework.streaming.bucket.objects import ObjectNumbers
from skyband.framework.streaming.bucket.operator_host import OperatorHost
from skyband.framework.streaming.bucket.sequence import grown, number_rows
from skyband.framework.streaming.bucket.sequencer import Sequenced
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.config import StreamConfig
from skyband.framework.streaming.rows.outbox import Outbox
from skyband.operators.base import NEVER, NULL, Window

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# The members of one query's result as reports on objects: an object goes on with its first entry, and off with its last one.
#
# Several items of one object may be in a result at a time. What enters and leaves in one step of the query is one change of its members.


class Switches(NamedTuple):
    """Objects that go on or off: ``change`` (m,), the last change of the step; ``on`` (m,)."""

    change: I64
    on: Bool


class Members:
    """The objects with entries in the result of a query, by how many there are. ``columns`` name an object."""

    def __init__(self, columns: tuple[str, ...], schema: pa.Schema) -> None:
        self.objects = ObjectNumbers(columns, schema)
        self.counts: I64 = np.empty(0, np.int64)
        """Entries of each of the known objects."""
        self.next_seq: I64 = np.zeros(16, np.int64)

    def take(self, key: I64, step: I64, sign: I64, rows: pa.Table) -> Switches:
        """Return who goes on or off, in the order of the changes, which are sorted by (key, step). ``rows``: their columns.

        Items with a null among the naming columns have no object. O(n log n + objects).
        """
        number = self.objects.number(key, rows)
        known = self.objects.numbers
        self.counts = np.append(self.counts, np.zeros(len(known) - len(self.counts), np.int64))
        order = np.argsort(number, kind="stable")
        order = order[number[order] != NULL]
        of, when = number[order], step[order]
        starts = np.append(True, of[1:] != of[:-1])[: len(of)]
        place = np.searchsorted(known, of)
        total = np.cumsum(sign[order])
        before_call = self.counts[place] - (total - sign[order])[np.maximum.accumulate(np.where(starts, np.arange(len(of)), 0))]
        after = total + before_call
        last = np.append(starts[1:] | (when[1:] != when[:-1]), True)[: len(of)]
        ends = np.flatnonzero(last)
        first_end = starts[np.append(0, ends[:-1] + 1)] if len(ends) else np.empty(0, bool)
        was = np.where(first_end, self.counts[place[ends]], np.append(0, after[ends[:-1]])[: len(ends)])
        switched = (was > 0) != (after[ends] > 0)
        self._count(place, np.append(starts[1:], True)[: len(of)], after)
        found = order[ends[switched]]
        by_change = np.argsort(found)
        return Switches(found[by_change], (after[ends[switched]] > 0)[by_change])

    def numbered(self, key: I64) -> I64:
        """Return the seq of each report; ``key`` is sorted. O(n)."""
        self.next_seq = grown(self.next_seq, int(key.max(initial=-1)) + 1)
        return number_rows(self.next_seq, key)

    def saved(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the arguments of ``restore``."""
        return {"counts": self.counts, "next_seq": self.next_seq}, self.objects.saved()

    def restore(self, arrays: dict[str, Any], known: pa.Table) -> None:
        """Continue from the result of ``saved``."""
        self.counts, self.next_seq = arrays["counts"].copy(), arrays["next_seq"].copy()
        self.objects.restore(known)

    def _count(self, place: I64, ends: Bool, after: I64) -> None:
        """Note the entries of each object, and remove the objects that have none."""
        self.counts[place[ends]] = after[ends]
        kept = self.counts > 0
        self.objects.keep([self.objects.numbers[kept]])
        self.counts = self.counts[kept]


# The entries of one query's result as rows of a stream: an item that enters is a row, one that leaves a deletion.
#
# Values of an item that vary with time are columns of its row: where one changes, another row takes the place of the item's row. An
# entry that stays for long is entered again, so that the window of its stream can be bounded (docs/semantics 15).

F64 = npt.NDArray[np.float64]

_HELD, _ENTERS, _LEAVES, _POINT, _RENEWED = range(5)
"""What happens to an item: it has been in the result before, enters, leaves, has another value, is entered again."""
_RANK_BITS: Final = 40
_ARRAYS: Final = ("key", "items", "seq", "at", "value", "row")
_PHASE: Final = np.array([0, 1, 1, 2, 3])
"""The order of what happens at one instant, by kind: changes before values."""


class ItemEvents(NamedTuple):
    """Events of items in the order in which they happen, per key. ``key``, ``at`` (n,), ``items`` (n, w) as in ``Changes``.

    ``value``: float64, the item's value that varies with time; 0 if none does. ``carried`` (n, v): further such values, equal where their
    numbers are (``compared``).
    """

    key: I64
    at: I64
    items: I64
    value: F64
    carried: I64


class EntryRows(NamedTuple):
    """Rows of the stream, sorted by key, in the order of events. Arrays of shape (m,).

    ``seq`` is -1 for a deletion, whose target is in ``target``. ``columns``: m rows.
    """

    key: I64
    at: I64
    seq: I64
    target: I64
    columns: pa.Table


@dataclass(slots=True)
class Live:
    """The entries in the result, in no order: ``seq`` and ``at`` of their rows, ``value`` as of now; ``row``: place of their columns.

    What they carry is not kept: their next points have other values than their last ones.
    """

    key: I64
    items: I64
    seq: I64
    at: I64
    value: F64
    row: I64

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the arrays, in the order of the fields."""
        return self.key, self.items, self.seq, self.at, self.value, self.row


class Entries:
    """The live entries of one query; ``take`` turns changes and points into rows.

    ``window``: of the stream; a row that has left it is not deleted. ``renewed``: microseconds after which an entry is entered again,
    None for never. ``width``: parts of an item; ``schema``: of the columns of rows.
    """

    def __init__(self, window: Window, renewed: int | None, width: int, schema: pa.Schema) -> None:
        self.window = window
        self.renewed = renewed
        none = np.empty(0, np.int64)
        self.live = Live(none, np.empty((0, width), np.int64), none, none, np.empty(0), none)
        self.rows = schema.empty_table()
        """The columns of the live entries, if they may be entered again."""
        self.next_seq: I64 = np.zeros(16, np.int64)

    def take(self, changes: ItemEvents, sign: I64, points: ItemEvents, columns: pa.Table, until: int) -> EntryRows:
        """Return the rows of all events before ``until``. ``changes``, with their ``sign``, are sorted by (key, step, pos).

        ``columns``: what rows of the changes have, then what those of the points have.
        Raises ValueError if an item enters twice, or leaves without having entered. O((n + live) log(n + live)).
        """
        log = self._log(changes, sign, points, until)
        if self.renewed is not None:
            log = _with_renewals(log, self.renewed, until)
        opens = _opens(log)
        makes = opens & (log.kind != _HELD)
        closes = (log.kind == _LEAVES) | (makes & (log.kind != _ENTERS))
        seq = self._numbered(log, makes)
        opened = np.maximum.accumulate(np.where(opens, np.arange(len(log.kind)), -1))
        before = np.append(-1, opened[:-1])[: len(opened)]
        target = np.where(closes, seq[np.maximum(before, 0)], NULL)
        began = np.where(closes, log.at[np.maximum(before, 0)], 0)
        there = pa.concat_tables([self.rows, columns]) if self.rows.num_rows else columns
        rows = self._rows(log, makes, seq, target, began, there)
        self._keep(log, opened, seq, there)
        return rows

    def wake(self) -> int | None:
        """Return the next instant at which an entry is entered again."""
        if self.renewed is None or not len(self.live.at):
            return None
        return int(self.live.at.min()) + self.renewed

    def saved(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the arguments of ``restore``."""
        return {name: getattr(self.live, name) for name in _ARRAYS} | {"next_seq": self.next_seq}, self.rows

    def restore(self, arrays: dict[str, Any], rows: pa.Table) -> None:
        """Continue from the result of ``saved``."""
        self.live = Live(*(arrays[name].copy() for name in _ARRAYS))
        self.next_seq, self.rows = arrays["next_seq"].copy(), rows.cast(self.rows.schema)

    def _log(self, changes: ItemEvents, sign: I64, points: ItemEvents, until: int) -> _Log:
        """Return what happens to items, sorted by (key, items) and time. Entries that nothing happens to stay in ``live``."""
        live = self.live
        takes_part = np.isin(live.key, np.concatenate([changes.key, points.key]))
        if self.renewed is not None:
            takes_part |= live.at + self.renewed < until
        held = Live(*(column[takes_part] for column in live.columns))
        self.live = Live(*(column[~takes_part] for column in live.columns))
        first = self.rows.num_rows
        h, n, m = len(held.key), len(changes.key), len(points.key)
        kind = np.concatenate([np.full(h, _HELD), np.where(sign > 0, _ENTERS, _LEAVES), np.full(m, _POINT)])
        log = _Log(
            np.concatenate([held.key, changes.key, points.key]), np.concatenate([held.items, changes.items, points.items]),
            np.concatenate([held.at, changes.at, points.at]), kind, np.concatenate([held.seq, np.arange(n), np.arange(m)]),
            np.concatenate([held.seq, np.full(n + m, NULL)]), np.concatenate([held.value, changes.value, points.value]),
            np.concatenate([held.row, first + np.arange(n + m)]), _carried(h, changes.carried, points.carried),
        )  # fmt: skip
        return _sorted(log)

    def _numbered(self, log: _Log, makes: Bool) -> I64:
        """Return the seq of the row that each event makes, in the order of events of its key; that of the row it found otherwise."""
        seq = log.seq.copy()
        made = np.flatnonzero(makes)
        if len(made):
            order = made[np.lexsort((log.ordinal[made], _PHASE[log.kind[made]], log.at[made], log.key[made]))]
            key = log.key[order]
            self.next_seq = grown(self.next_seq, int(key[-1]) + 1)
            seq[order] = number_rows(self.next_seq, key)
        return seq

    def _rows(self, log: _Log, makes: Bool, seq: I64, target: I64, began: I64, columns: pa.Table) -> EntryRows:
        """Return the rows in the order of events: of each event its deletion, then its row."""
        deletes = (target != NULL) & self._there(log, makes, target, began)
        at = np.concatenate([np.flatnonzero(deletes), np.flatnonzero(makes)])
        deletion = np.arange(len(at)) < int(deletes.sum())
        order = np.lexsort((~deletion, log.ordinal[at], _PHASE[log.kind[at]], log.at[at], log.key[at]))
        at, deletion = at[order], deletion[order]
        of = columns.take(pa.array(log.row[at]))
        return EntryRows(log.key[at], log.at[at], np.where(deletion, -1, seq[at]), np.where(deletion, target[at], NULL), of)

    def _there(self, log: _Log, makes: Bool, target: I64, began: I64) -> Bool:
        """Return which targets are still in the window of the stream when an event deletes them."""
        found = np.ones(len(target), bool)
        if self.window.micros is not None:
            found &= log.at - began < self.window.micros
        if self.window.count is not None:
            order = _order(log)
            flags = makes[order]
            key = log.key[order]
            starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, np.int64)
            first = np.repeat(starts, np.diff(np.append(starts, len(key))))
            made = np.cumsum(flags)
            # Rows of the key before this event: all numbers given so far, less those that this call has yet to give.
            total = self.next_seq[key] - _per_key(flags, starts, len(key))
            so_far = total + made - flags - (made[first] - flags[first])
            ahead = np.empty(len(key), np.int64)
            ahead[order] = so_far
            found &= target >= ahead - self.window.count
        return found

    def _keep(self, log: _Log, opened: I64, seq: I64, columns: pa.Table) -> None:
        last = np.append(~_follows(log)[1:], True)[: len(log.kind)]
        kept = np.flatnonzero(last & (log.kind != _LEAVES))
        of = opened[kept]
        more = Live(log.key[kept], log.items[kept], seq[of], log.at[of], log.value[kept], log.row[of])
        live = Live(*(np.concatenate([a, b]) for a, b in zip(self.live.columns, more.columns, strict=True)))
        if self.renewed is not None:
            self.rows = columns.take(pa.array(live.row)).combine_chunks()
        live.row = np.arange(len(live.key))
        self.live = live


class _Log(NamedTuple):
    """What happens to items, sorted by (key, items) and time. ``ordinal``: order at one instant and of one kind, or place among changes,
    or points; ``seq``: of a held entry; ``row``: place of the columns; ``carried`` (n, v + 1): with -1 for a held entry, whose values are
    not known, or (n, 0)."""

    key: I64
    items: I64
    at: I64
    kind: I64
    ordinal: I64
    seq: I64
    value: F64
    row: I64
    carried: I64


def compared(columns: Iterable[npt.NDArray[Any]], n: int) -> I64:
    """Return ``n`` rows of int64 and float64 ``columns`` as numbers (n, v) that are equal where the values are: NaN equals NaN."""
    made = [c if c.dtype == np.int64 else np.where(np.isnan(c), np.nan, c + 0.0).view(np.int64) for c in columns]
    return np.column_stack(made) if made else np.empty((n, 0), np.int64)


def _carried(held: int, changes: I64, points: I64) -> I64:
    """Return what the log has of carried values."""
    known = np.concatenate([changes, points])
    if not known.shape[1]:
        return np.empty((held + len(known), 0), np.int64)
    found = np.zeros((held + len(known), known.shape[1] + 1), np.int64)
    found[:held, -1] = -1
    found[held:, :-1] = known
    return found


def _with_renewals(log: _Log, renewed: int, until: int) -> _Log:
    """Return ``log`` with the instants at which entries are entered again: every ``renewed`` microseconds of a row's life."""
    if not len(log.key):
        return log
    opens = _opens(log)
    ends = np.minimum(np.append(np.where(_follows(log)[1:], log.at[1:], until), until), until)
    opened = np.maximum.accumulate(np.where(opens, np.arange(len(opens)), 0))
    begin = log.at[opened]
    # A point without another value goes on with the row before it.
    first = np.maximum((log.at - begin - 1) // renewed, 0)
    count = np.where(log.kind == _LEAVES, 0, np.maximum((ends - 1 - begin) // renewed - first, 0))
    if not count.any():
        return log
    of = np.repeat(np.arange(len(count)), count)
    nth = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + 1
    # In the order of the rows before them: of rows renewed at one instant, those that began later have been renewed less often.
    rank = np.empty(len(log.key), np.int64)
    rank[_order(log)] = np.arange(len(rank))
    none = np.full(len(of), NULL)
    at, kind = begin[of] + nth * renewed, np.full(len(of), _RENEWED)
    ordinal = (nth << _RANK_BITS) + rank[opened[of]]
    made = _Log(log.key[of], log.items[of], at, kind, ordinal, none, log.value[of], log.row[opened[of]], log.carried[of])
    return _sorted(_Log._make(np.concatenate([a, b]) for a, b in zip(log, made, strict=True)))


def _order(log: _Log) -> I64:
    """Return the events in the order in which they happen, per key; entries held come first, in the order of their rows."""
    at = np.where(log.kind == _HELD, -NEVER, log.at)
    order: I64 = np.lexsort((log.ordinal, _PHASE[log.kind], at, log.key))
    return order


def _sorted(log: _Log) -> _Log:
    by_item = [log.items[:, i] for i in reversed(range(log.items.shape[1]))]
    order = np.lexsort((log.ordinal, _PHASE[log.kind], np.where(log.kind == _HELD, -NEVER, log.at), *by_item, log.key))
    return _Log._make(column[order] for column in log)


def _follows(log: _Log) -> Bool:
    """Return which events are of the same item as the one before."""
    same = np.zeros(len(log.key), bool)
    same[1:] = (log.key[1:] == log.key[:-1]) & (log.items[1:] == log.items[:-1]).all(axis=1)
    return same


def _opens(log: _Log) -> Bool:
    """Return which events make a row of their item, or found one: a point does if one of its values is another.

    Raises ValueError for changes that do not alternate.
    """
    same = _follows(log)
    before = np.append(_LEAVES, log.kind[:-1])[: len(log.kind)]
    out = ~same | (before == _LEAVES)
    wrong = np.where(log.kind == _ENTERS, ~out, (log.kind == _LEAVES) & out)
    if wrong.any():
        raise ValueError("an item enters the result twice, or leaves it without having entered")
    value = np.append(np.nan, log.value[:-1])[: len(log.value)]
    varied = (log.value != value) & ~(np.isnan(log.value) & np.isnan(value))
    varied[1:] |= (log.carried[1:] != log.carried[:-1]).any(axis=1)
    other = (log.kind == _POINT) & ~out & varied
    opens: Bool = np.isin(log.kind, (_HELD, _ENTERS, _RENEWED)) | other
    return opens


def _per_key(flags: Bool, starts: I64, n: int) -> I64:
    """Return for each row the number of ``flags`` of its key; ``starts``: the first row of each key."""
    if not n:
        return np.empty(0, np.int64)
    found: I64 = np.repeat(np.add.reduceat(flags.astype(np.int64), starts), np.diff(np.append(starts, n)))
    return found


_NONE: Final = np.empty(0, np.int64)
_KEYS, _ENTRIES, _ROWS = "keys", "entries", "rows"
"""Names of state values."""


class StreamKeys:
    """Numbers of keys in a stream of results: 0, 1, 2, ... in the order of their first entries.

    They number the keys of the result that is taken: the bucket's, or those of the stream that the query of that result takes.
    """

    def __init__(self) -> None:
        self.outer: I64 = _NONE
        """The number of each key of the stream in the result that it takes."""
        self._inner: I64 = np.full(16, -1)

    def number(self, key: I64) -> I64:
        """Return the numbers of the keys ``key`` of the result; new ones get the next numbers. O(n log n)."""
        if len(key):
            self._inner = grown(self._inner, int(key.max()) + 1, -1)
            found, first = np.unique(key, return_index=True)
            new = found[np.argsort(first)]
            new = new[self._inner[new] < 0]
            self._inner[new] = len(self.outer) + np.arange(len(new))
            self.outer = np.append(self.outer, new)
        return self._inner[key]

    def restore(self, outer: I64) -> None:
        """Continue from ``outer``."""
        self.outer = outer.copy()
        self._inner = grown(self._inner, int(outer.max(initial=-1)) + 1, -1)
        self._inner[outer] = np.arange(len(outer))


class StreamHost:
    """Runs the operators of ``config`` over the result that they take."""

    def __init__(self, config: StreamConfig, host: OperatorHost | None = None) -> None:
        self.config = config
        self.host = host or OperatorHost.new(config.host)
        self.keys = StreamKeys()
        self.feed = (
            Entries(config.host.window, config.renewed, config.width, config.entry_schema())
            if config.takes == "entries"
            else Members(config.objects, config.entry_schema())
        )
        """What makes rows of the result."""

    @property
    def results(self) -> dict[str, Result]:
        """Return what the last call changed, by query, of the queries that others take."""
        return self.host.results

    def key_values(self, taken: KeyValues) -> KeyValues:
        """Return the values of the stream's keys, by those of the query that it takes, which numbers its keys on its own."""
        return lambda key: taken(self.keys.outer[key])

    def run(self, taken: Result | None, limit: int, keys: KeyValues, bucket: int, out: Outbox, whole: bool) -> None:
        """Take what the result ``taken`` did, None for nothing, and advance to ``limit``.

        ``keys``: those of the stream, see ``key_values``. Other arguments as in ``OperatorHost.run``.
        """
        feed = self.feed
        rows = self._entered(feed, taken, limit) if isinstance(feed, Entries) else self._switches(feed, taken)
        self.host.run(rows, limit, keys, bucket, out, whole)

    def wakes(self) -> list[int]:
        """Return instants at which something waits: as the operators say, or an entry that is entered again."""
        own = self.feed.wake() if isinstance(self.feed, Entries) else None
        return self.host.wakes() if own is None else [own, *self.host.wakes()]

    def save(self, core: dict[str, Any], until: int) -> tuple[dict[str, bytes], list[str]]:
        """Return (values of its part of the state, names to drop), and add its fields to ``core``."""
        values, dropped = self.host.save(core, self.feed.next_seq, until)
        arrays, rows = self.feed.saved()
        mine = {
            _KEYS: blocks.arrays_bytes({"outer": self.keys.outer}),
            _ENTRIES: blocks.arrays_bytes(arrays),
            _ROWS: blocks.table_bytes(rows),
        }
        return values | mine, dropped

    @classmethod
    def restore(cls, config: StreamConfig, core: dict[str, Any], read: Callable[[str], bytes | None], until: int) -> StreamHost:
        """Return the host of what ``save`` gave."""
        arrays = blocks.bytes_arrays(read(_ENTRIES) or b"")
        made = cls(config, OperatorHost.restore(config.host, core, read, arrays["next_seq"], until))
        made.keys.restore(blocks.bytes_arrays(read(_KEYS) or b"")["outer"])
        made.feed.restore(arrays, blocks.bytes_table(read(_ROWS) or b""))
        return made

    def _entered(self, entries: Entries, taken: Result | None, limit: int) -> Sequenced:
        """Return the rows and deletions that the result makes."""
        carried = self.config.carried
        none = ItemEvents(_NONE, _NONE, np.empty((0, self.config.width), np.int64), np.empty(0), np.empty((0, len(carried)), np.int64))
        changes, sign, points, tables = none, _NONE, none, []
        if taken is not None:
            c, t = taken.changes, taken.traces
            value = c.score if self.config.varies else np.zeros(len(c))
            more = compared((c.values[name] for name in carried), len(c))
            changes, sign = ItemEvents(self.keys.number(c.key), c.at, c.items, value, more), c.sign.astype(np.int64)
            order = np.argsort(changes.key, kind="stable")
            changes, sign = ItemEvents._make(column[order] for column in changes), sign[order]
            tables.append(self.config.entry_rows(taken.rows.take(pa.array(order))))
            if self.config.varies and t is not None and taken.points is not None:
                more = compared((t.values[name] for name in carried), len(t))
                points = ItemEvents(self.keys.number(t.key), t.at, t.items, t.values[SCORE], more)
                tables.append(self.config.entry_rows(taken.points))
        columns = pa.concat_tables(tables) if tables else self.config.entry_schema().empty_table()
        rows = entries.take(changes, sign, points, columns, limit)
        return Sequenced(rows.key, rows.at, rows.seq, rows.target, self._stamped(rows.columns, rows.at))

    def _switches(self, members: Members, taken: Result | None) -> Sequenced:
        """Return the reports on objects that go on or off."""
        schema = self.config.entry_schema()
        if taken is None:
            return Sequenced(_NONE, _NONE, _NONE, _NONE, self._stamped(schema.empty_table(), _NONE))
        changes = taken.changes
        key = self.keys.number(changes.key)
        columns = self.config.entry_rows(taken.rows)
        found = members.take(key, changes.step, changes.sign.astype(np.int64), columns)
        order = np.argsort(key[found.change], kind="stable")
        change, on = found.change[order], found.on[order]
        rows = columns.take(pa.array(change))
        rows = rows.set_column(rows.column_names.index(self.config.membership), self.config.membership, pa.array(on)).cast(schema)
        at, key = changes.at[change], key[change]
        return Sequenced(key, at, members.numbered(key), np.full(len(key), NULL), self._stamped(rows, at))

    def _stamped(self, columns: pa.Table, at: I64) -> pa.Table:
        """Return the rows with the instants at which they come."""
        return columns.append_column(self.config.host.intake.event_time, pa.array(at).cast(STAMP)).combine_chunks()
