"""One bucket of keys: orders its rows, runs its operators, and saves both as one state. Knows nothing of Spark.

Per call: blocks of rows in, blocks for tables out; ``save`` gives what changed in state. A bucket read back from
state continues byte for byte.

A bucket that holds much and gets little saves its input (``journal``) and defers its rows of ``heads`` and skybands; now and then, and when
a row of the control source asks for it, it saves its whole state and sends what it has deferred.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from skyband.framework.base.messages import ACCEPTED, CHANGED, DEFERRED, FRONTIER, Tally, kept_count, time_count
from skyband.framework.base.reasons import DUPLICATE_ID, LATE
from skyband.framework.streaming.bucket.item_rows import KeyValues
from skyband.framework.streaming.bucket.journal import Entry, Journal, entries
from skyband.framework.streaming.bucket.operator_host import OperatorHost
from skyband.framework.streaming.bucket.search_host import SearchHost
from skyband.framework.streaming.bucket.sequencer import Sequencer
from skyband.framework.streaming.bucket.state_names import STREAM, written_once
from skyband.framework.streaming.bucket.statistics import RowStatistics
from skyband.framework.streaming.bucket.streams.stream_host import StreamHost
from skyband.framework.streaming.rows.config import HostConfig, StreamConfig
from skyband.framework.streaming.rows.outbox import Block, Outbox
from skyband.framework.streaming.rows.shards.found import Taken, pairs_found


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
