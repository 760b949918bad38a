"""The queries that take the result of another one, in one bucket: the result's changes become rows, and operators run over them.

Rows have keys of their own, numbered in the order in which they have entries. All that a query's result does before an instant is taken
before the operators advance to it, so changes depend on how rows are cut into batches no more than those of the query that is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.items import SCORE
from skyband.framework.base.types import STAMP
from skyband.framework.streaming.bucket.item_rows import KeyValues, Result
from skyband.framework.streaming.bucket.operator_host import OperatorHost
from skyband.framework.streaming.bucket.sequence import grown
from skyband.framework.streaming.bucket.sequencer import Sequenced
from skyband.framework.streaming.bucket.streams.entries import Entries, ItemEvents, compared
from skyband.framework.streaming.bucket.streams.members import Members
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.config import StreamConfig
from skyband.framework.streaming.rows.outbox import Outbox
from skyband.operators.base import NULL

I64 = npt.NDArray[np.int64]

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
