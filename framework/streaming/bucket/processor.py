"""The stateful step: a bucket of keys per grouping key, state as named binary values, and a cache of decoded state in the worker."""

from __future__ import annotations

import os
import pickle
import time as clock
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skyband.framework.base.messages import ASIDE, COUNTS, FLUSH, FOUND, WAKE, Tally, time_count
from skyband.framework.sources.structs import struct
from skyband.framework.spark_adapter.workers import pickle_state_plainly
from skyband.framework.streaming.bucket.state_values import StateValues
from skyband.framework.streaming.spark.executors import require_driver_versions
from skyband.framework.streaming.spark.worker_pools import freeze_loaded_objects
from skyband.operators import threads

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.streaming.bucket.bucket import Bucket
    from skyband.framework.streaming.bucket.kept_bucket import KeptBucket
    from skyband.framework.streaming.rows.config import HostConfig
    from skyband.framework.streaming.rows.outbox import Block, Deliver

_MARK = struct(token="string", timer="bigint")
_NAME = struct(name="string", piece="int")
_DATA = struct(data="binary")

# Decoded state of this worker process: the processor is unpickled again for every task. An entry is good only if its token is the one
# saved with the state that Spark hands over.
_CACHE: dict[tuple[str, bool, int], tuple[str, KeptBucket]] = {}


@dataclass(slots=True)
class Inputs:
    """What a bucket gets in a call: blocks of rows, what its shards have found, and whether it has to flush."""

    data: list[bytes | pa.Buffer] = field(default_factory=list)
    found: list[bytes | pa.Buffer] = field(default_factory=list)
    flush: bool = False


def inputs_of(rows: Any) -> Inputs:
    """Return the inputs of a call from Spark's rows."""
    from skyband.framework.streaming.rows.shuffle_files import opened

    inputs = Inputs()
    for row in rows:
        kind, data = row["kind"], row["data"]
        inputs.flush = inputs.flush or kind == FLUSH
        if kind not in (FLUSH, WAKE):
            (inputs.found if kind.endswith(FOUND) else inputs.data).append(opened(kind, data))
    return inputs


class HostProcessor(StatefulProcessor):
    """Runs ``Bucket`` inside ``transformWithState``: rows and timers in, blocks for tables out.

    Buckets, and the configuration, are imported by those who run one: before a query's first batch Spark starts a process that
    calls ``init`` alone, and waits for it. ``hand_off_root``: the directory of hand-off files.
    """

    def __init__(self, config: HostConfig, deliver: Deliver, hand_off_root: Path | None = None) -> None:
        self._parts = pickle.dumps((config, deliver))
        self.hand_off_root = hand_off_root

    @cached_property
    def _unpacked(self) -> tuple[HostConfig, Deliver]:
        made: tuple[HostConfig, Deliver] = pickle.loads(self._parts)
        return made

    @property
    def config(self) -> HostConfig:
        """The configuration of all buckets of the job."""
        return self._unpacked[0]

    @property
    def deliver(self) -> Deliver:
        """What becomes of blocks on their way to the driver."""
        return self._unpacked[1]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: a token with the current timer, and values by name in pieces of 1 MB."""
        require_driver_versions()
        pickle_state_plainly(handle)
        self.handle = handle
        self.mark = handle.getValueState("mark", _MARK)
        self.values = handle.getMapState("values", _NAME, _DATA)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        """Process one batch's blocks of one bucket, in any order."""
        node, number = int(key[0]), int(key[1])
        if node == ASIDE:
            for row in rows:
                yield Row(kind=row["kind"], data=bytes(row["data"]))
            return
        for kind, message in self._run(number, inputs_of(rows), timerValues.getCurrentWatermarkInMs()):
            yield Row(kind=kind, data=message)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Process what became due in this bucket when the watermark advanced."""
        for kind, message in self._run(int(key[1]), Inputs(), timerValues.getCurrentWatermarkInMs()):
            yield Row(kind=kind, data=message)

    def close(self) -> None:
        """Do nothing."""

    def _run(self, number: int, inputs: Inputs, watermark_ms: int) -> Iterator[Block]:
        """Run a bucket over one call's inputs; yield what it sends, and the times of the call."""
        started = clock.perf_counter()
        freeze_loaded_objects()
        config = self._config_of(number)
        threads.allow(config.threads)
        mark = self.mark.get()
        slot = (config.cache_key, config.share is not None, number)
        kept = self._kept_bucket(number, _CACHE.pop(slot, None), mark[0] if mark is not None else None)
        bucket = kept.bucket
        loaded = clock.perf_counter()
        out = bucket.run(inputs.data, watermark_ms, inputs.flush, inputs.found)
        ran = clock.perf_counter()
        kept.save(StateValues(self.values))
        token = os.urandom(8).hex()
        self._set_timer(bucket, mark[1] if mark is not None else None, token, watermark_ms)
        kept.hand_off.commit(token)
        if not bucket.crowded:
            _CACHE[slot] = (token, kept)
        saved = clock.perf_counter()
        for block in out:
            yield self.deliver(*block)
        times = Tally({time_count("load"): int(1e6 * (loaded - started)), time_count("state"): int(1e6 * (saved - ran))})
        yield COUNTS, times.message()

    def _config_of(self, number: int) -> HostConfig:
        """Return the configuration of a bucket."""
        return self.config

    def _number_of(self, number: int) -> int:
        """Return the number of the bucket whose state file a grouping key takes up."""
        return number

    def _state_of(self, values: dict[str, bytes]) -> dict[str, bytes]:
        """Return what it takes up of the values of a bucket's state."""
        return values

    def _directory(self, number: int) -> Path | None:
        return None if self.hand_off_root is None else self.hand_off_root / str(number)

    def _kept_bucket(self, number: int, cached: tuple[str, KeptBucket] | None, token: str | None) -> KeptBucket:
        """Return the bucket that was saved with ``token`` (None: a new one), from the cache, hand-off files or state store."""
        from skyband.framework.streaming.bucket.kept_bucket import KeptBucket

        values, directory, config = StateValues(self.values), self._directory(number), self._config_of(number)
        filled = self._filled(number, values)
        if filled is not None:
            for name in values.names():
                values.drop(name)
            return KeptBucket.filled(config, number, filled, values, directory)
        if token is None:
            return KeptBucket.new(config, number, directory)
        if cached is not None and cached[0] == token:
            # The configuration of this run: since the state was cached a finish may have been declared.
            cached[1].bucket.config = config
            return cached[1]
        return KeptBucket.read(config, number, token, values, directory)

    def _filled(self, number: int, values: StateValues) -> dict[str, bytes] | None:
        """The state that is to take the place of the one in the store, if it has not yet: a batch that is repeated does it again."""
        filling, bucket = self.config.filling, self._number_of(number)
        if filling is None or bucket not in filling.buckets:
            return None
        from skyband.framework.streaming.bucket.fill_files import FILLED, read_state

        if values.read(FILLED) == filling.token.encode():
            return None
        return self._state_of(read_state(Path(filling.directory), bucket)) | {FILLED: filling.token.encode()}

    def _set_timer(self, bucket: Bucket, before: int | None, token: str, watermark_ms: int) -> None:
        due = bucket.due()
        # An event at e is due once the watermark is past e; timers fire at <= the watermark. Whatever is still due now waits
        # for a later watermark than this one (F of a finish is within its millisecond).
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
