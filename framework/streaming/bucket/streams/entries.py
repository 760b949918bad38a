"""The entries of one query's result as rows of a stream: an item that enters is a row, one that leaves a deletion.

Values of an item that vary with time are columns of its row: where one changes, another row takes the place of the item's row. An
entry that stays for long is entered again, so that the window of its stream can be bounded (docs/semantics 15).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.streaming.bucket.sequence import grown, number_rows
from skyband.operators.base import NEVER, NULL, Window

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

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
