"""Decide which buckets run in a batch, with which rows, and run those that this process keeps from batch to batch.

A batch is read and packed first. Then it is known how far its rows move the watermark, and each bucket that has rows, or in which something
is due by then, runs once. A bucket's shards run before it.
"""

from __future__ import annotations

import time as clock
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from skyband.framework.base.messages import ASIDE, COUNTS, FLUSH, FOUND, STATE, TIMES, Tally, time_count
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.bucket_states import NO_STATES, BucketState, States, message
from skyband.framework.streaming.bucket.state_files import BucketFiles, StateFiles
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
from skyband.operators import threads

Open = Callable[[str, bytes], "bytes | pa.Buffer"]
"""Returns the rows of a message (``shuffle_files.opened``)."""


class Watermarks(NamedTuple):
    """Holds the two watermarks of a batch, in ms: rows earlier than ``before`` are late, all that is earlier than ``after`` is due."""

    before: int
    after: int


class Call(NamedTuple):
    """Describes a call of a bucket, or of a shard (``state_names.number_of_shard``): its ``state`` before it, and its messages of rows.

    ``found``: the messages of its shards. ``flush``: it sends all that it has deferred.
    """

    number: int
    state: BucketState | None
    rows: Sequence[Block]
    found: Sequence[Block] = ()
    flush: bool = False


@dataclass(slots=True)
class Packed:
    """Collects what reading gives: messages to the driver, those with rows by bucket, and how far the watermark moves, in ms.

    ``flush``: whether a row of the control source asks buckets to flush.
    """

    aside: list[Block] = field(default_factory=list)
    rows: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    reached_ms: int | None = None
    flush: bool = False

    def add(self, node: int, number: int, kind: str, data: bytes) -> None:
        """Add a message of ``Pack``."""
        if node != ASIDE:
            self.rows[number].append((kind, data))
            return
        self.aside.append((kind, data))
        if kind == COUNTS:
            counts = Tally()
            counts.add(data)
            self.flush = self.flush or FLUSH in counts

    def reaches(self, instant_ms: int) -> None:
        """Note an instant that moves the watermark, in ms."""
        self.reached_ms = instant_ms if self.reached_ms is None else max(self.reached_ms, instant_ms)

    def watermarks(self, before: int, delay_ms: int) -> Watermarks:
        """Return the watermarks of the batch."""
        return Watermarks(before, before if self.reached_ms is None else max(before, self.reached_ms - delay_ms))


def calls(packed: Packed, states: States | None, config: HostConfig, watermarks: Watermarks) -> Iterator[Call]:
    """Yield the calls of a batch, those of shards among them.

    Those run that have rows, or something that is due by now, or have to send what they have deferred.
    """
    states = states or NO_STATES
    for number in config.numbers():
        state = states.get(number)
        flush = packed.flush and number >= 0
        due = state is not None and (flush or (state.wakes_ms is not None and state.wakes_ms <= watermarks.after))
        if due or number in packed.rows:
            yield Call(number, state, packed.rows.get(number, ()), flush=flush)


@dataclass(slots=True)
class _Held:
    """A bucket in memory. ``token``: of its state as it was saved last."""

    bucket: Bucket
    files: BucketFiles
    token: str


class HeldBuckets:
    """Runs buckets, and keeps them in memory from call to call: one that was saved under another token meanwhile is read again."""

    def __init__(self, config: HostConfig, files: StateFiles, opened: Open = lambda _, data: data) -> None:
        self.config, self._files, self._opened = config, files, opened
        self._held: dict[int, _Held] = {}

    def run(self, call: Call, watermarks: Watermarks) -> Iterator[Block]:
        """Yield the messages of a call; the state after it is on the disk then. Raises SkybandError SKY-E303, OSError."""
        started = clock.perf_counter()
        config = self.config if call.number >= 0 else self.config.of_shard(self.config.shard_of(call.number))
        threads.allow(config.threads)
        held = self._held.pop(call.number, None)
        if held is None or call.state is None or held.token != call.state.token:
            held = self._load(config, call)
        held.bucket.config = config
        rows, found = ([self._opened(*block) for block in blocks] for blocks in (call.rows, call.found))
        loaded = clock.perf_counter()
        out = held.bucket.run(rows, *watermarks, call.flush, found)
        ran = clock.perf_counter()
        values, dropped = held.bucket.save()
        for name, value in values.items():
            held.files.put(name, value)
        for name in dropped:
            held.files.drop(name)
        held.token = held.files.save()
        due = held.bucket.due()
        # An event at e is due once the watermark is past e; what is still due now waits for a later watermark than this one.
        wakes_ms = None if due is None else max(due // 1000 + 1, watermarks.after + 1)
        if not held.bucket.crowded:
            self._held[call.number] = held
        times = {time_count("load"): int(1e6 * (loaded - started)), time_count("state"): int(1e6 * (clock.perf_counter() - ran))}
        yield from out if call.number >= 0 else _of_shard(out, config)
        yield COUNTS, Tally(times).message()
        yield STATE, message(call.number, BucketState(held.token, wakes_ms))

    def _load(self, config: HostConfig, call: Call) -> _Held:
        if call.state is None:
            return _Held(Bucket(config, call.number), BucketFiles(self._files.of(call.number)), "")
        files, values = self._files.read(call.number, call.state.token)
        return _Held(Bucket.restore(config, call.number, values.get), files, call.state.token)


_OF_BUCKETS: Final = frozenset(map(time_count, TIMES))


def _of_shard(out: Sequence[Block], config: HostConfig) -> Iterator[Block]:
    """Yield what a shard sends. Of what its bucket counts, too, only the work is the shard's own."""
    assert config.share is not None
    counts = Tally()
    for kind, data in out:
        if kind == COUNTS:
            counts.add(data)
        elif kind.endswith(FOUND):
            yield kind, data
    own = {name: n for name, n in counts.items() if "." in name or name in _OF_BUCKETS}
    yield COUNTS, Tally(own | {f"shard.{config.share.number}.us": counts[time_count("operator")]}).message()
