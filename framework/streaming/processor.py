"""The stateful step: one bucket of keys a grouping key, state as named binary values, a cache of decoded state in the worker."""

from __future__ import annotations

import os
import pickle
import time as clock
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skyband.framework.messages import ASIDE, COUNTS, WAKE, Tally, time_of
from skyband.framework.sources.structs import struct
from skyband.framework.streaming.collector import spare
from skyband.framework.streaming.executors import as_the_driver
from skyband.operators import threads

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.streaming.bucket import Bucket
    from skyband.framework.streaming.config import HostConfig
    from skyband.framework.streaming.outbox import Deliver

_PIECE = 1 << 20

_MARK = struct(token="string", timer="bigint")
_NAME = struct(name="string", piece="int")
_DATA = struct(data="binary")

# Decoded state of this worker process: the processor itself is unpickled anew for every task. An entry is good only if its token is the one
# saved with the state that the engine hands over.
_CACHE: dict[tuple[str, int], tuple[str, Bucket, dict[str, bytes]]] = {}


class HostProcessor(StatefulProcessor):
    """Runs ``Bucket`` inside ``transformWithState``: rows and timers in, blocks for tables out.

    Buckets, and the configuration, are imported by those who run one: before a query's first batch the engine starts a process that
    calls ``init`` alone, and waits for it.
    """

    def __init__(self, config: HostConfig, deliver: Deliver) -> None:
        self._parts = pickle.dumps((config, deliver))

    @cached_property
    def _unpacked(self) -> tuple[HostConfig, Deliver]:
        made: tuple[HostConfig, Deliver] = pickle.loads(self._parts)
        return made

    @property
    def config(self) -> HostConfig:
        """What all buckets of the job have in common."""
        return self._unpacked[0]

    @property
    def deliver(self) -> Deliver:
        """What becomes of blocks on their way to the driver."""
        return self._unpacked[1]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares the state: a token with the current timer, and values by name in pieces of 1 MB."""
        as_the_driver()
        self.handle = handle
        self.mark = handle.getValueState("mark", _MARK)
        self.values = handle.getMapState("values", _NAME, _DATA)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        """One batch's blocks of one bucket, in any order."""
        node, number = int(key[0]), int(key[1])
        if node == ASIDE:
            for row in rows:
                yield Row(kind=row["kind"], data=bytes(row["data"]))
            return
        from skyband.framework.streaming.parcels import opened

        data = [opened(row["kind"], row["data"]) for row in rows if row["kind"] != WAKE]
        yield from self._run(number, data, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has passed something that waits in this bucket."""
        yield from self._run(int(key[1]), [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Nothing to close."""

    def _run(self, number: int, data: Sequence[bytes | pa.Buffer], watermark_ms: int) -> Iterator[Row]:
        from skyband.framework.streaming.bucket import Bucket
        from skyband.framework.streaming.operator_host import CHUNK, SEEN

        started = clock.perf_counter()
        spare()
        threads.allow(self.config.threads)
        mark = self.mark.get()
        slot = (self.config.cache_key, number)
        cached = _CACHE.pop(slot, None)
        written: dict[str, bytes] = {}
        filled = self._filled(number)
        if filled is not None:
            self._replace(filled)
            bucket = Bucket.restore(self.config, number, filled.get)
        elif mark is None:
            bucket = Bucket(self.config, number)
        elif cached is not None and cached[0] == mark[0]:
            _, bucket, written = cached
            # The configuration of this run: since the state was cached a finish may have been declared.
            bucket.config = self.config
        else:
            bucket = Bucket.restore(self.config, number, self._read)
        loaded = clock.perf_counter()
        out = bucket.run(data, watermark_ms)
        ran = clock.perf_counter()
        values, dropped = bucket.save()
        for name, value in values.items():
            if name.startswith((f"{CHUNK}/", f"{SEEN}/")):
                self._write(name, value)
            elif written.get(name) != value:
                self._write(name, value)
                written[name] = value
        for name in dropped:
            self._drop(name)
        token = os.urandom(8).hex()
        self._set_timer(bucket, mark[1] if mark is not None else None, token, watermark_ms)
        if not bucket.crowded:
            _CACHE[slot] = (token, bucket, written)
        saved = clock.perf_counter()
        for block in out:
            kind, message = self.deliver(*block)
            yield Row(kind=kind, data=message)
        times = Tally({time_of("load"): int(1e6 * (loaded - started)), time_of("state"): int(1e6 * (saved - ran))})
        yield Row(kind=COUNTS, data=times.message())

    def _filled(self, number: int) -> dict[str, bytes] | None:
        """The state that is to take the place of the one in the store, if it has not yet: a batch that is repeated does it again."""
        filling = self.config.filling
        if filling is None or number not in filling.buckets:
            return None
        from skyband.framework.streaming.fill_files import FILLED, read_state

        if self._read(FILLED) == filling.token.encode():
            return None
        return read_state(Path(filling.folder), number) | {FILLED: filling.token.encode()}

    def _replace(self, values: dict[str, bytes]) -> None:
        """All of the bucket's state but its timer."""
        for name in {str(key[0]) for key in self.values.keys()}:  # noqa: SIM118 - the engine's map, not a dict
            self._drop(name)
        for name, value in values.items():
            self._write(name, value)

    def _set_timer(self, bucket: Bucket, before: int | None, token: str, watermark_ms: int) -> None:
        due = bucket.due()
        # Something at instant e is due once the watermark is past e; timers fire at <= the watermark. What is still due now waits
        # for a later watermark than this one (F of a finish lies within its millisecond).
        timer = None if due is None else max(due // 1000 + 1, watermark_ms + 1)
        if timer != before:
            timers = list(self.handle.listTimers())
            if before is not None and before in timers:
                self.handle.deleteTimer(before)
            if timer is not None and timer not in timers:
                self.handle.registerTimer(timer)
        elif timer is not None and timer not in list(self.handle.listTimers()):
            self.handle.registerTimer(timer)
        self.mark.update((token, timer))

    def _read(self, name: str) -> bytes | None:
        first = self.values.getValue((name, 0))
        if first is None:
            return None
        data = bytes(first[0])
        size = int.from_bytes(data[:8], "little")
        parts, held, piece = [data[8:]], len(data) - 8, 1
        while held < size:
            part = bytes(self.values.getValue((name, piece))[0])  # type: ignore[index]
            parts.append(part)
            held += len(part)
            piece += 1
        return b"".join(parts)

    def _write(self, name: str, value: bytes) -> None:
        self._drop(name, keep=-(-max(len(value), 1) // _PIECE))
        self.values.updateValue((name, 0), (len(value).to_bytes(8, "little") + value[:_PIECE],))
        for piece in range(1, -(-len(value) // _PIECE)):
            self.values.updateValue((name, piece), (value[piece * _PIECE : (piece + 1) * _PIECE],))

    def _drop(self, name: str, keep: int = 0) -> None:
        """Removes the pieces of a value from number ``keep`` on."""
        piece = keep
        while self.values.containsKey((name, piece)):
            self.values.removeKey((name, piece))
            piece += 1
