"""Order one bucket's rows: reject late ones, buffer early ones, number the rest key by key and check their ids.

Rows in, accepted arrivals out. Its part of the state: the instant all events before which have been taken, the keys, the rows that wait,
the deletions whose objects would still be in the window. Ids are not its own part: they come back with the window's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.messages import ACCEPTED, DELETED, HEADS, KEPT_FIRST, NEWEST, PENDING, REJECTED, REPLACED
from skyband.framework.base.reasons import DUPLICATE_ID, FILTERED, LATE, NO_TARGET
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.streaming.bucket.operations import KEEP_FIRST, OPERATION, Operations
from skyband.framework.streaming.bucket.sequence import Ids, Keys, number_rows
from skyband.framework.streaming.bucket.store import Segment, address, distinct, split_address
from skyband.framework.streaming.rows import blocks, rejects
from skyband.framework.streaming.rows.columns import TextCodes, ints, micros
from skyband.framework.streaming.rows.config import CAPPED, ID_HASHES, KEY_HASHES, HostConfig
from skyband.framework.streaming.rows.outbox import Outbox
from skyband.framework.streaming.rows.rejects import comparable
from skyband.framework.tables.render import order_by
from skyband.operators.base import NEVER, NULL, Window

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# Track the objects that leave the window early: deleted, or replaced by another row of their id.
#
# A deletion takes no number and moves no other expiry (docs/semantics 10).


class Deletions:
    """One bucket's deletions. Unless ``active`` every method is a no-op."""

    def __init__(self, active: bool, window: Window) -> None:
        self.active = active
        self.window = window
        self.at: I64 = np.empty(0, np.int64)
        self.time: I64 = np.empty(0, np.int64)

    def add(self, key: I64, time: I64, target: I64) -> None:
        """Note the objects that accepted rows delete: targets >= 0."""
        if self.active:
            gone = target >= 0
            self.at = np.append(self.at, address(key[gone], target[gone]))
            self.time = np.append(self.time, time[gone])

    def arrays(self, next_seq: I64, until: int) -> dict[str, I64]:
        """Addresses and instants of the deletions whose objects would still be in the window; the others are forgotten."""
        keep = np.ones(len(self.at), bool)
        if self.window.micros:
            keep &= self.time >= until - self.window.micros  # an object is no newer than its deletion
        if self.window.count:
            key, seq = split_address(self.at)
            keep &= seq >= next_seq[key] - self.window.count
        self.at, self.time = self.at[keep], self.time[keep]
        return {"at": self.at, "time": self.time}

    def restore(self, value: bytes | None, held: I64) -> Bool:
        """Takes back what ``arrays`` gave; which of the addresses ``held`` (sorted) have not been deleted."""
        if self.active and value:
            arrays = blocks.bytes_arrays(value)
            self.at, self.time = arrays["at"].copy(), arrays["time"].copy()
        return ~np.isin(held, self.at)


_STAMP = pa.timestamp("us", "UTC")


@dataclass(slots=True)
class Sequenced:
    """What accepted rows do, in canonical order. Arrays of shape (n,): dense key, microseconds, position in the key's order, target.

    A deletion has seq -1 and the seq of the object it deletes as its target; the others' is NULL. A row that replaces an object is a
    deletion, then a new object.
    """

    key: I64
    time: I64
    seq: I64
    target: I64
    rows: pa.Table


class Sequencer:
    """A batch goes through ``due_rows``, ``sequence`` and, when the operators have run, ``close``."""

    def __init__(self, config: HostConfig) -> None:
        self.window = config.window
        self.intake = config.intake
        self.schema = config.row_schema()
        self.keys = Keys()
        self.key_rows: list[pa.Table] = []
        self.until = -NEVER
        self.pending = self.schema.empty_table()
        self.ids = Ids(config.window) if config.intake.unique == "checked" else None
        self.operations = Operations(config.intake, config.texts)
        self.deletions = Deletions(config.intake.has_deletions, config.window)
        self._waited = 0
        self._touched: list[I64] = []
        """Keys that have got rows since ``heads`` rows were last sent."""
        self._tie_columns = self._order_columns()
        if not config.intake.partition_by:
            self.keys.single()

    def due_rows(
        self, data: Sequence[bytes | pa.Buffer], late_before: int | None, frontier: int | None, out: Outbox
    ) -> tuple[pa.Table, int]:
        """Return the rows that may be processed, and the limit below which they may: ``frontier``, unless that is past already.

        Rows before ``late_before`` go to ``rejected``, those from the limit on to ``pending``. Instants in microseconds. ``frontier``
        None: that of the job if it gets no other rows than these.
        """
        self._waited = self.pending.num_rows
        event_time = self.intake.event_time
        # Tasks read files side by side: blocks in order of their times are mostly rows in order of theirs.
        tables = sorted((blocks.bytes_table(d) for d in data), key=lambda table: int(table[event_time][0].value))
        # Spark says of columns that they have no nulls, Arrow of none: a batch may have rows that either has read.
        came = pa.concat_tables(tables, promote_options="default") if tables else self.schema.empty_table()
        fresh = came.select(self.schema.names).cast(self.schema)
        floor = self.until if late_before is None else max(late_before, self.until)
        limit = floor if frontier is None else max(floor, frontier)
        if fresh.num_rows:
            newest = pc.max(came[CAPPED if CAPPED in came.column_names else event_time].cast(pa.int64())).as_py()
            if frontier is None and newest is not None:
                limit = max(limit, (newest // 1000 - self.intake.delay_ms) * 1000)
            late = pc.less(fresh[event_time].cast(pa.int64()), pa.scalar(floor, pa.int64()))
            if pc.any(late).as_py():
                self._reject(fresh.filter(late), LATE, out)
                fresh = fresh.filter(pc.invert(late))
        rows = pa.concat_tables([self.pending, fresh]) if self.pending.num_rows else fresh
        if not rows.num_rows:
            return rows, limit
        ready = pc.less(rows[event_time].cast(pa.int64()), pa.scalar(limit, pa.int64()))
        if pc.all(ready).as_py():
            self.pending = self.schema.empty_table()
            return rows, limit
        due = int(pc.sum(ready).as_py())
        if pc.all(ready.slice(0, due)).as_py():
            self.pending = rows.slice(due).combine_chunks()
            return rows.slice(0, due), limit
        self.pending = rows.filter(pc.invert(ready)).combine_chunks()
        return rows.filter(ready), limit

    def sequence(self, rows: pa.Table, codes: TextCodes, out: Outbox) -> Sequenced:
        """What the accepted of ``rows`` do, in canonical order; duplicates and deletions of nothing go to ``rejected``."""
        if not rows.num_rows:
            empty = np.empty(0, np.int64)
            return Sequenced(empty, empty, empty, empty, rows)
        time = micros(rows[self.intake.event_time])
        key = self._key(rows)
        rows = self.operations.marked(rows, codes)
        order = canonical_order(key, time, rows, self._tie_columns)
        if not np.array_equal(order, np.arange(len(order))):
            key, time, rows = key[order], time[order], rows.take(pa.array(order))
        if self.ids is None:
            seq = number_rows(self.keys.next_seq, key)
            target = np.full(len(seq), NULL)
        else:
            hashes = ints(rows[ID_HASHES[0]]), ints(rows[ID_HASHES[1]])
            what = self.operations
            seq, target = self.ids.accept(self.keys, key, time, *hashes, self.until, what.of(rows), what.on_duplicate)
            for reason, bad in ((DUPLICATE_ID, (seq < 0) & (target == NULL)), (NO_TARGET, target == -1)):
                if not bad.any():
                    continue
                if reason == DUPLICATE_ID and what.on_duplicate == KEEP_FIRST:
                    out.counts[FILTERED] = out.counts[KEPT_FIRST] = int(bad.sum())
                else:
                    self._reject(rows.filter(pa.array(bad)), reason, out)
            good = (seq >= 0) | (target >= 0)
            if not good.all():
                rows, key, time, seq, target = rows.filter(pa.array(good)), key[good], time[good], seq[good], target[good]
        made = seq >= 0
        self.keys.last_time[key[made]] = time[made]
        self.deletions.add(key, time, target)
        out.counts[ACCEPTED] = len(seq)
        if not made.all():
            out.counts[DELETED] = int((~made).sum())
        if self.deletions.active and (replaces := made & (target >= 0)).any():
            out.counts[REPLACED] = int(replaces.sum())
            return _two_events(Sequenced(key, time, seq, target, rows), replaces)
        return Sequenced(key, time, seq, target, rows.combine_chunks())

    def close(self, taken: Sequenced, limit: int, bucket: int, out: Outbox, whole: bool) -> None:
        """All events before ``limit`` have been taken: a ``heads`` row for every key that got rows, and what waits and is newest.

        Unless ``whole``, the rows of ``heads`` are deferred.
        """
        self.until = limit
        if len(taken.key):
            self._touched.append(distinct(taken.key))
        if whole and self._touched:
            self._heads(distinct(np.concatenate(self._touched)), bucket, out)
            self._touched = []
        out.counts[PENDING] = self.pending.num_rows - self._waited
        newest = [int(taken.time.max())] if len(taken.time) else []
        if self.pending.num_rows:
            newest.append(int(pc.max(self.pending[self.intake.event_time].cast(pa.int64())).as_py()))
        if newest:
            out.counts[NEWEST] = max(newest)

    def waiting(self) -> list[int]:
        """Return the earliest event time of the buffered rows, if there are any."""
        if not self.pending.num_rows:
            return []
        return [int(pc.min(self.pending[self.intake.event_time].cast(pa.int64())).as_py())]

    def key_values(self, key: I64) -> pa.Table:
        """The ``partition_by`` columns of dense key numbers."""
        self.key_rows = [pa.concat_tables(self.key_rows).combine_chunks()] if len(self.key_rows) > 1 else self.key_rows
        if not self.key_rows:
            return pa.table({})
        return self.key_rows[0].take(pa.array(key))

    def save(self, core: dict[str, Any]) -> dict[str, bytes]:
        """The values of its part of the state; adds its own to the fields of ``core``."""
        core["until"] = self.until
        values = {"keys": blocks.arrays_bytes(self.keys.arrays())}
        if self.intake.partition_by and self.key_rows:
            self.key_rows = [pa.concat_tables(self.key_rows).combine_chunks()]
            values["key_rows"] = blocks.table_bytes(self.key_rows[0])
        values["pending"] = blocks.table_bytes(self.pending)
        if self.intake.has_deletions:
            values["deleted"] = blocks.arrays_bytes(self.deletions.arrays(self.keys.next_seq, self.until))
        return values

    @classmethod
    def restore(cls, config: HostConfig, core: dict[str, Any], read: Callable[[str], bytes | None]) -> Sequencer:
        """The sequencer of what ``save`` gave, without ids: those come with ``recognise``."""
        sequencer = cls(config)
        sequencer.until = core["until"]
        sequencer.keys = Keys.restore(blocks.bytes_arrays(read("keys") or b""))
        key_rows = read("key_rows")
        sequencer.key_rows = [blocks.bytes_table(key_rows)] if key_rows else []
        sequencer.pending = blocks.bytes_table(read("pending") or b"").select(sequencer.schema.names)
        return sequencer

    def recognise(self, seen: Segment, deleted: bytes | None) -> None:
        """Knows again the ids of the window's rows ``seen`` (with the columns ``ID_HASHES``) less those that have been ``deleted``."""
        if self.ids is None:
            return
        live = np.nonzero(self.deletions.restore(deleted, seen.at))[0]
        key, seq = split_address(seen.at[live])
        hashes = ints(seen.rows[ID_HASHES[0]])[live], ints(seen.rows[ID_HASHES[1]])[live]
        self.ids.load(self.keys, key, seq, seen.time[live], *hashes)

    def _key(self, rows: pa.Table) -> I64:
        """Dense key numbers of rows; the values of new keys are noted."""
        if not self.intake.partition_by:
            return np.zeros(rows.num_rows, np.int64)
        key, first = self.keys.number(ints(rows[KEY_HASHES[0]]), ints(rows[KEY_HASHES[1]]))
        if len(first):
            self.key_rows.append(rows.select(list(self.intake.partition_by)).take(pa.array(first)).combine_chunks())
        return key

    def _heads(self, touched: I64, bucket: int, out: Outbox) -> None:
        table = self.key_values(touched)
        for name, values, kind in (
            ("bucket", np.full(len(touched), bucket, np.int32), pa.int32()),
            ("last_seq", self.keys.next_seq[touched] - 1, pa.int64()),
            ("last_time", self.keys.last_time[touched], _STAMP),
            ("as_of", np.full(len(touched), self.until - 1, np.int64), _STAMP),
        ):
            column = pa.array(values).cast(kind)
            table = table.append_column(name, column) if table.num_columns else pa.table({name: column})
        out.put(HEADS, table)

    def _reject(self, rows: pa.Table, reason: str, out: Outbox) -> None:
        out.counts[reason] = rows.num_rows
        columns = [f.name for f in self.intake.fields]
        out.put(REJECTED, rejects.rejected(rows.combine_chunks(), columns, reason, self.intake.event_time, ORIGIN))

    def _order_columns(self) -> list[str]:
        intake = self.intake
        # The rest by name: their order in the spec must not matter.
        operation = [OPERATION] if intake.deletes is not None or intake.operations is not None else []
        names = [*intake.tie_break, *intake.id, *operation, *sorted(f.name for f in intake.fields)]
        return [n for n in dict.fromkeys(names) if n != intake.event_time and n not in intake.partition_by]


def _two_events(taken: Sequenced, replaces: Bool) -> Sequenced:
    """Return ``taken`` with a deletion before each row that ``replaces`` an object. O(rows)."""
    at = np.repeat(np.arange(len(replaces)), np.where(replaces, 2, 1))
    deletion = np.append(at[1:] == at[:-1], False)
    seq = np.where(deletion, -1, taken.seq[at])
    target = np.where(seq < 0, taken.target[at], NULL)
    return Sequenced(taken.key[at], taken.time[at], seq, target, taken.rows.take(pa.array(at)).combine_chunks())


def canonical_order(key: I64, time: I64, table: pa.Table, tie_columns: list[str]) -> I64:
    """Return row numbers in (key, time, ``tie_columns``...) order: the canonical order of objects within a key (docs/semantics 1).

    Nulls come first; texts are in the order of their UTF-8 bytes, numbers of their values, lists of their JSON texts.

    ``key`` and ``time`` have shape (n,), ``table`` n rows. Only rows that tie on (key, time) are compared further, so a stream without ties
    costs one sort of integers: O(n log n).
    """
    order = order_by(key, time)
    k, t = key[order], time[order]
    tie = (k[1:] == k[:-1]) & (t[1:] == t[:-1])
    if not tie.any() or not tie_columns:
        return order.astype(np.int64)
    tied = np.zeros(len(order), bool)
    tied[1:] |= tie
    tied[:-1] |= tie
    group = np.zeros(len(order), np.int64)
    group[1:] = np.cumsum(~tie)
    where = np.nonzero(tied)[0]
    names = [f"c{i}" for i in range(len(tie_columns))]
    rows = comparable(table.select(tie_columns).take(pa.array(order[where]))).rename_columns(names)
    rows = rows.append_column("g", pa.array(group[where]))
    keys = [(n, "ascending", "at_start") for n in ("g", *names)]
    inner = pc.sort_indices(rows, sort_keys=keys).to_numpy()
    order[where] = order[where][inner]
    return order.astype(np.int64)
