"""One bucket of keys: orders its rows, runs its operators, and saves both as one state. Knows nothing of Spark.

Per call: blocks of rows in, blocks for tables out; ``save`` gives what changed in state. A bucket read back from
state continues byte for byte.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from skyband.framework.base.messages import ACCEPTED, CHANGED, FRONTIER, Tally, time_count
from skyband.framework.base.reasons import DUPLICATE_ID, LATE
from skyband.framework.streaming.bucket.operator_host import OperatorHost
from skyband.framework.streaming.bucket.sequencer import Sequencer
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block, Outbox


class Bucket:
    """``run`` takes one batch's rows for this bucket (or none, when a timer fires) and returns the messages for the driver."""

    def __init__(self, config: HostConfig, number: int, sequencer: Sequencer | None = None, host: OperatorHost | None = None) -> None:
        self.config = config
        self.number = number
        self.sequencer = sequencer or Sequencer(config)
        self.host = host or OperatorHost.new(config)

    def run(self, data: Sequence[bytes | pa.Buffer], watermark_ms: int) -> list[Block]:
        """Process everything that is due: rows below the frontier in order, and the expiries and boundaries between them."""
        started = clock.perf_counter()
        out = Outbox(counts=Tally({LATE: 0, DUPLICATE_ID: 0, ACCEPTED: 0, CHANGED: 0}))
        frontier = self.config.frontier(watermark_ms)
        rows, limit = self.sequencer.due_rows(data, frontier, out)
        decoded = clock.perf_counter()
        taken = self.sequencer.sequence(rows, self.host.codes, out)
        sequenced = clock.perf_counter()
        self.host.run(taken, limit, self.sequencer.key_values, self.number, out)
        operated = clock.perf_counter()
        self.sequencer.close(taken, limit, self.number, out)
        if frontier is not None:
            out.counts[FRONTIER] = frontier
        for what, seconds in (("decode", decoded - started), ("order", sequenced - decoded), ("operator", operated - sequenced)):
            out.counts[time_count(what)] = int(1e6 * seconds)
        self.host.count(out)
        return out.all()

    @property
    def crowded(self) -> bool:
        """True if it keeps too many texts that may be unused: reading the bucket back from state drops them."""
        return self.host.crowded

    @property
    def until(self) -> int:
        """All events before this time have been processed."""
        return self.sequencer.until

    def due(self) -> int | None:
        """Return the earliest time at which something is due: a pending row, an expiry of a result item, a boundary."""
        return min([*self.host.wakes(), *self.sequencer.waiting()], default=None)

    def save(self) -> tuple[dict[str, bytes], list[str]]:
        """Return (values to write, names to delete). Small values are written every time, chunks of the window once."""
        core: dict[str, Any] = {}
        values = self.sequencer.save(core)
        kept, dropped = self.host.save(core, self.sequencer.keys.next_seq, self.sequencer.until)
        return {"core": json.dumps(core).encode(), **values, **kept}, dropped

    @classmethod
    def restore(cls, config: HostConfig, number: int, read: Callable[[str], bytes | None]) -> Bucket:
        """Return the bucket whose values ``read`` returns by name (None: no such value)."""
        value = read("core")
        if value is None:
            return cls(config, number)
        core: dict[str, Any] = json.loads(value)
        sequencer = Sequencer.restore(config, core, read)
        now = sequencer.keys.next_seq, sequencer.until
        host = OperatorHost.restore(config, core, read, *now)
        sequencer.recognise(host.seen.alive(config.window, *now), read("deleted"))
        return cls(config, number, sequencer, host)
