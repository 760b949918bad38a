"""One bucket of keys: orders its rows, runs its operators, and saves both as one state. Knows nothing of Spark.

Per call: blocks of rows in, blocks for tables out; ``save`` gives what changed in state. A bucket read back from
state continues byte for byte.

A bucket that holds much and gets little saves its input (``journal``) and defers its rows of ``heads`` and skybands; now and then, and when
a row of the control source asks for it, it saves its whole state and sends what it has deferred.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.messages import ACCEPTED, CHANGED, DEFERRED, FRONTIER, Tally, kept_count, time_count
from skyband.framework.base.reasons import DUPLICATE_ID, LATE
from skyband.framework.streaming.bucket.item_rows import KeyValues
from skyband.framework.streaming.bucket.operator_host import OperatorHost
from skyband.framework.streaming.bucket.search_host import SearchHost
from skyband.framework.streaming.bucket.sequencer import Sequencer
from skyband.framework.streaming.bucket.state_names import JOURNAL, STREAM, written_once
from skyband.framework.streaming.bucket.statistics import RowStatistics
from skyband.framework.streaming.bucket.stream_host import StreamHost
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.framework.streaming.rows.config import HostConfig, StreamConfig
from skyband.framework.streaming.rows.outbox import Block, Outbox
from skyband.framework.streaming.rows.shards import Taken, pairs_found

# The inputs of a bucket since its last whole state. A restore reads that state and runs them again. Does not import Spark.
#
# A whole state takes time and space in proportion to all keys of a bucket. A bucket with many keys that gets few rows saves its inputs
# only, until they add up to a share of the state, or are many. So what a row costs, of state as of time, hardly depends on the number of
# keys.

LEAST: Final = 1 << 20
"""Bytes that a whole state writes, without the window's rows, from which a bucket keeps a journal."""
SHARE: Final = 2
"""A whole state is saved when the journal would take this fraction, 1/2, of its bytes."""
BATCH: Final = 1 << 17
"""Bytes that an entry counts for at the least: a restore takes time for a batch, however few rows it has."""
ENTRIES: Final = 1024
"""The greatest number of batches in a journal: a restore runs them all again."""

_OFFSET: Final = 4
"""Bytes that Arrow takes for a text or a list, besides its content."""


@dataclass(frozen=True)
class Entry:
    """The input of one batch: its blocks of rows, the frontiers before and after it, and what shards have found.

    In microseconds: rows before ``late`` are late (None: none is), what is before ``frontier`` is due (None: what its rows make due).
    """

    data: Sequence[bytes | pa.Buffer]
    late: int | None
    frontier: int | None
    found: Sequence[bytes | pa.Buffer] = ()

    @cached_property
    def size(self) -> int:
        """Return the bytes that it counts for: those of its values, however the rows are cut into blocks.

        A batch may be repeated by other tasks, when tables have what it sent first. So it has to be saved in the same way again.
        """
        return max(BATCH, sum(_bytes(column) for block in self.data for column in bytes_table(block).columns))

    def value(self) -> bytes:
        """Return the value in state: a JSON header with its length before it, then the blocks."""
        both = [*self.data, *self.found]
        said: dict[str, Any] = {"late": self.late, "frontier": self.frontier, "sizes": [len(block) for block in both]}
        said |= {"found": len(self.found)} if self.found else {}
        header = json.dumps(said).encode()
        return b"".join([len(header).to_bytes(8, "little"), header, *(bytes(block) for block in both)])

    @classmethod
    def of(cls, value: bytes) -> Entry:
        """Return the entry of a ``value``. Its blocks point into it."""
        at = 8 + int.from_bytes(value[:8], "little")
        header = json.loads(value[8:at])
        data = []
        for size in header["sizes"]:
            data.append(pa.py_buffer(value).slice(at, size))
            at += size
        rows = len(data) - header.get("found", 0)
        # Entries of earlier versions have the frontier before the batch alone.
        late, frontier = (header["late"], header["frontier"]) if "late" in header else (header["frontier"], None)
        return cls(data[:rows], late, frontier, tuple(data[rows:]))


def _bytes(column: pa.ChunkedArray) -> int:
    """Return the bytes of the values of a column, without what every block adds. O(rows) for texts and lists."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _bytes(column.cast(kind.value_type))
    if pa.types.is_nested(kind):
        return _OFFSET * len(column) + _bytes(pc.list_flatten(column))
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return _OFFSET * len(column) + int(pc.sum(pc.binary_length(column)).as_py() or 0)
    return 0 if pa.types.is_null(kind) else len(column) * -(-kind.bit_width // 8)


class Journal:
    """The journal since a whole state of so many bytes (0: none). What it decides follows from state and input alone."""

    def __init__(self, state_bytes: int = 0) -> None:
        self._state_bytes = state_bytes
        self._size = 0
        self.entries = 0
        self._unsaved: list[Entry] = []

    def takes(self, entry: Entry) -> bool:
        """Return True if a batch is to be saved as an entry, False if with the whole state."""
        return self._state_bytes >= LEAST and self.entries < ENTRIES and SHARE * (self._size + entry.size) < self._state_bytes

    def note(self, entry: Entry, saved: bool = False) -> None:
        """Add an entry, which ``unsaved`` then returns unless it is ``saved`` already."""
        self._size += entry.size
        self.entries += 1
        if not saved:
            self._unsaved.append(entry)

    def unsaved(self) -> dict[str, bytes]:
        """Return the values of entries that have not been saved, by name."""
        first = self.entries - len(self._unsaved)
        values = {f"{JOURNAL}/{first + i}": entry.value() for i, entry in enumerate(self._unsaved)}
        self._unsaved = []
        return values

    def names(self) -> list[str]:
        """Return the names of the values that have been saved."""
        return [f"{JOURNAL}/{i}" for i in range(self.entries - len(self._unsaved))]


def entries(read: Callable[[str], bytes | None]) -> Iterator[Entry]:
    """Yield the entries whose values ``read`` returns by name (None: no such value)."""
    number = 0
    while (value := read(f"{JOURNAL}/{number}")) is not None:
        yield Entry.of(value)
        number += 1


class Bucket:
    """``run`` takes one batch's rows for this bucket (or none, when something is due) and returns the messages for the driver."""

    def __init__(
        self, config: HostConfig, number: int, sequencer: Sequencer | None = None, host: OperatorHost | None = None, state_bytes: int = 0,
        streams: list[StreamHost] | None = None,
    ) -> None:  # fmt: skip
        self.config = config
        self.number = number
        self.sequencer = sequencer or Sequencer(config)
        self.host = host or _host(config).new(config)
        self.streams = [StreamHost(stream) for stream in config.streams] if streams is None else streams
        self.statistics = RowStatistics(config)
        self._journal = Journal(state_bytes)
        self._whole = False
        """Whether ``save`` has to save the whole state."""

    def run(
        self,
        data: Sequence[bytes | pa.Buffer],
        watermark_ms: int,
        reached_ms: int | None = None,
        flush: bool = False,
        found: Sequence[bytes | pa.Buffer] = (),
    ) -> list[Block]:
        """Process everything that is due: rows below the frontier in order, and the expiries and boundaries between them.

        ``watermark_ms``: that of the batches before this one, before which its rows are late. ``reached_ms``: that of the next batch,
        before which everything is due; None: that to which these rows alone move it. ``flush``: also send all rows of tables that have
        been deferred. ``found``: what the bucket's shards have found of these rows.
        """
        frontier = None if reached_ms is None else self.config.frontier(max(watermark_ms, reached_ms))
        entry = Entry(data, self.config.frontier(watermark_ms), frontier, found)
        self._whole = self._whole or flush or self.crowded or not self._journal.takes(entry)
        out = self._run(entry, self._whole)
        if not self._whole:
            self._journal.note(entry)
            out.counts[DEFERRED] = 1
        return out.all()

    def _run(self, entry: Entry, whole: bool) -> Outbox:
        """Process one batch. Unless ``whole``, what a table has of every key is deferred."""
        started = clock.perf_counter()
        out = Outbox(counts=Tally({LATE: 0, DUPLICATE_ID: 0, ACCEPTED: 0, CHANGED: 0}))
        self.statistics.tidy(self.host.store, self.sequencer)
        rows, limit = self.sequencer.due_rows(entry.data, entry.late, entry.frontier, out)
        decoded = clock.perf_counter()
        taken = self.sequencer.sequence(rows, self.host.codes, out)
        sequenced = clock.perf_counter()
        taken = self.statistics.added(taken)
        found = pairs_found(entry.found, Taken(len(taken.seq), limit)) if self.config.merges and len(taken.seq) else {}
        self.host.run(taken, limit, self.sequencer.key_values, self.number, out, whole, found)
        results = self.host.results
        keys_of: dict[str, KeyValues] = {q.name: self.sequencer.key_values for q in self.config.queries}
        for stream in self.streams:
            of = stream.config.of
            keys = stream.key_values(keys_of[of])
            stream.run(results.get(of), limit, keys, self.number, out, whole)
            results = results | stream.results
            keys_of |= {q.name: keys for q in stream.config.host.queries}
        operated = clock.perf_counter()
        self.sequencer.close(taken, limit, self.number, out, whole)
        if (frontier := entry.late if entry.frontier is None else entry.frontier) is not None:
            out.counts[FRONTIER] = frontier
        for what, seconds in (("decode", decoded - started), ("order", sequenced - decoded), ("operator", operated - sequenced)):
            out.counts[time_count(what)] = int(1e6 * seconds)
        for host in self._hosts():
            host.count(out)
        out.counts[kept_count(self.number)] = self.rows
        return out

    @property
    def crowded(self) -> bool:
        """True if it keeps too many texts that may be unused: reading the bucket back from state drops them."""
        return any(host.crowded for host in self._hosts())

    @property
    def rows(self) -> int:
        """Return the number of rows that the bucket keeps for its operators or until they are due. Expired ones may be among them."""
        return int(self.sequencer.pending.num_rows) + sum(len(s.at) for host in self._hosts() for s in host.store.segments)

    def _hosts(self) -> list[OperatorHost]:
        return [self.host, *(stream.host for stream in self.streams)]

    @property
    def until(self) -> int:
        """All events before this time have been processed."""
        return self.sequencer.until

    def due(self) -> int | None:
        """Return the earliest time at which something is due: a pending row, an expiry of a result item, a boundary."""
        waits = [w for stream in self.streams for w in stream.wakes()]
        return min([*waits, *self.host.wakes(), *self.sequencer.waiting()], default=None)

    def save(self) -> tuple[dict[str, bytes], list[str]]:
        """Return (values to write, names to delete). Of a whole state small values are written every time, chunks of the window once."""
        if not self._whole and self._journal.entries:
            return self._journal.unsaved(), []
        ended = self._journal.names()
        core: dict[str, Any] = {}
        values = self.sequencer.save(core)
        kept, dropped = self.host.save(core, self.sequencer.keys.next_seq, self.sequencer.until)
        values |= kept
        for stream in self.streams:
            name = f"{STREAM}{stream.config.name}/"
            more, gone = stream.save(core.setdefault("streams", {}).setdefault(stream.config.name, {}), self.sequencer.until)
            values |= {name + value: data for value, data in more.items()}
            dropped += [name + value for value in gone]
        core["bytes"] = sum(len(value) for name, value in values.items() if not written_once(name))
        self._journal, self._whole = Journal(core["bytes"]), False
        return {"core": json.dumps(core).encode(), **values}, [*dropped, *ended]

    @classmethod
    def restore(cls, config: HostConfig, number: int, read: Callable[[str], bytes | None]) -> Bucket:
        """Return the bucket whose values ``read`` returns by name (None: no such value)."""
        value = read("core")
        if value is None:
            return cls(config, number)
        core: dict[str, Any] = json.loads(value)
        sequencer = Sequencer.restore(config, core, read)
        now = sequencer.keys.next_seq, sequencer.until
        host = _host(config).restore(config, core, read, *now)
        sequencer.recognise(host.seen.alive(config.window, *now), read("deleted"))
        streams = [_restored(stream, core["streams"][stream.name], read, sequencer.until) for stream in config.streams]
        bucket = cls(config, number, sequencer, host, core.get("bytes", 0), streams)
        bucket.statistics.load(host.store, sequencer)
        for entry in entries(read):
            bucket._run(entry, False)
            bucket._journal.note(entry, saved=True)
        return bucket


def _host(config: HostConfig) -> type[OperatorHost]:
    return OperatorHost if config.share is None else SearchHost


def _restored(stream: StreamConfig, core: dict[str, Any], read: Callable[[str], bytes | None], until: int) -> StreamHost:
    return StreamHost.restore(stream, core, lambda name: read(f"{STREAM}{stream.name}/{name}"), until)
