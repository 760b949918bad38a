"""The work of a batch in this process: its files are read and packed, its buckets run and saved."""

from __future__ import annotations

import os
import time as clock
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from skyband.framework.base.messages import COUNTS, FLUSH, HOST, ROWS_IN, STATE, Tally, time_count
from skyband.framework.base.reasons import CONTROL
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.bucket import fill_files
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.fill_files import FILLED
from skyband.framework.streaming.bucket.state_files import BucketFiles, StateFiles
from skyband.framework.streaming.job.bucket_states import NO_STATES, BucketState, States, message
from skyband.framework.streaming.rows.arrow_intake import Readable, capped, judged
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.rows.pack import Pack
from skyband.operators import threads

_TASKS: Final = 4
"""The most threads that read files: Arrow and the kernels let others run meanwhile."""


Blocks = tuple[int | None, list[dict[str, Any]]]
"""The latest instant that moves the watermark, in microseconds, and blocks of ``Pack``: node, bucket, kind and data."""
OddFiles = Callable[[Mapping[str, str], int | None, WatermarkCaps | None], Blocks]
"""Reads files that Arrow does not read as Spark would: URL -> why. It gets the clock and the caps of the batch."""


class ControlRow(NamedTuple):
    """A row of the control source: the instant to which it moves the watermark, in ms, and whether buckets ``flush``."""

    at_ms: int
    flush: bool


class Input(NamedTuple):
    """What a batch takes. ``watermark_ms``: that of the batches before it, before which rows are late. ``clock``: see ``Pack``."""

    urls: Sequence[str]
    control: Sequence[ControlRow]
    watermark_ms: int
    clock: int | None
    caps: WatermarkCaps | None


@dataclass(slots=True)
class Packed:
    """What reading gives: messages to the driver, blocks of rows by bucket, and the instants that move the watermark, in ms."""

    aside: list[Block] = field(default_factory=list)
    rows: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    reached_ms: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Held:
    """A bucket in memory. ``token``: of its state as it was saved last."""

    bucket: Bucket
    files: BucketFiles
    token: str


class LocalTasks:
    """Runs batches. Buckets stay in memory from batch to batch: one that was saved under another token is read again."""

    def __init__(self, config: HostConfig, reader: Readable, states: StateFiles, odd: OddFiles) -> None:
        self.config, self._reader, self._files, self._odd = config, reader, states, odd
        self._held: dict[int, _Held] = {}
        self.saved: dict[int, str] = {}
        """The tokens of the states that these batches have saved last, by bucket."""
        self._threads = max(1, min(_TASKS, os.cpu_count() or 1))
        self.reached_ms: int | None = None
        """The latest instant that moves the watermark, in ms, of the last batch; None if it had none."""

    def run(self, batch: Input, states: States | None) -> Iterator[Block]:
        """Yield the messages of a batch to the driver. ``states``: those of buckets before it. Raises the errors of ``odd``."""
        packed = self._packed(batch)
        self.reached_ms = max(packed.reached_ms, default=None)
        yield from packed.aside
        threads.allow(self.config.threads)
        flush = any(row.flush for row in batch.control)
        for number, state in self._due(packed, batch, states or NO_STATES):
            yield from self._run(number, state, packed.rows.get(number, []), batch.watermark_ms, flush)

    def _due(self, packed: Packed, batch: Input, states: States) -> Iterator[tuple[int, BucketState | None]]:
        """Yield the buckets that have to run, each with its state.

        They have rows, or something that is due at the watermark, or have to send what they have deferred, or to take up another state.
        """
        flush = any(row.flush for row in batch.control)
        fill = set(self.config.filling.buckets) if self.config.filling is not None and batch.control else set()
        for number in range(self.config.buckets):
            state = states.get(number)
            waits = state is not None and (flush or (state.wakes_ms is not None and state.wakes_ms <= batch.watermark_ms))
            if waits or number in packed.rows or number in fill:
                yield number, state

    def _packed(self, batch: Input) -> Packed:
        found = Packed()
        for row in batch.control:
            found.aside.append((COUNTS, Tally({ROWS_IN: 0, FLUSH if row.flush else CONTROL: 1}).message()))
            found.reached_ms.append(row.at_ms)
        odd: dict[str, str] = {}
        shares = [s for i in range(self._threads) if (s := batch.urls[i :: self._threads])]
        if len(shares) < 2:
            made = [self._read(share, batch, odd) for share in shares]
        else:
            with ThreadPoolExecutor(len(shares)) as pool:
                made = list(pool.map(lambda share: self._read(share, batch, odd), shares))
        if odd:
            # In the order of the batch, whichever thread found them.
            made.append(self._odd({url: odd[url] for url in batch.urls if url in odd}, batch.clock, batch.caps))
        for latest, messages in made:
            found.reached_ms += [] if latest is None else [latest // 1000]
            for m in messages:
                if m["node"] == HOST:
                    found.rows[m["bucket"]].append(m["data"])
                else:
                    found.aside.append((m["kind"], m["data"]))
        return found

    def _read(self, urls: Sequence[str], batch: Input, odd: dict[str, str]) -> Blocks:
        """Read files by Arrow. Those that it does not read as Spark would get into ``odd``, with the reason."""
        pack = Pack(self.config, clock=lambda: batch.clock)
        blocks = pack.packed(chain.from_iterable(self._tables(url, batch.caps, odd) for url in urls))
        messages = [m for made in blocks for m in made.to_pylist()]
        return pack.latest, messages

    def _tables(self, url: str, caps: WatermarkCaps | None, odd: dict[str, str]) -> list[pa.Table]:
        origin = url.rsplit("/", 1)[-1]
        made = []
        try:
            # All of a file before any of it counts: its end may show that Arrow cannot read it.
            for rows in self._reader.tables(url):
                judged_rows = judged(self.config.intake, rows, origin)
                made.append(judged_rows if caps is None else capped(self.config.intake, judged_rows, caps.cap(url)))
        except UnsupportedFile as e:
            odd[url] = str(e)
            return []
        return made

    def _run(self, number: int, state: BucketState | None, data: Sequence[bytes], watermark_ms: int, flush: bool) -> Iterator[Block]:
        started = clock.perf_counter()
        held = self._held.pop(number, None)
        if held is None or state is None or held.token != state.token:
            held = self._load(number, state)
        held.bucket.config = self.config
        loaded = clock.perf_counter()
        out = held.bucket.run(data, watermark_ms, flush)
        ran = clock.perf_counter()
        values, dropped = held.bucket.save()
        for name, value in values.items():
            held.files.put(name, value)
        for name in dropped:
            held.files.drop(name)
        held.token = self.saved[number] = held.files.save()
        due = held.bucket.due()
        # An event at e is due once the watermark is past e; what is still due now waits for a later watermark than this one.
        wakes_ms = None if due is None else max(due // 1000 + 1, watermark_ms + 1)
        if not held.bucket.crowded:
            self._held[number] = held
        yield from out
        times = {"load": loaded - started, "state": clock.perf_counter() - ran}
        yield COUNTS, Tally({time_count(what): int(1e6 * seconds) for what, seconds in times.items()}).message()
        yield STATE, message(number, BucketState(held.token, wakes_ms))

    def _load(self, number: int, state: BucketState | None) -> _Held:
        """Read the bucket's state, or the one that takes its place (``job.filling``)."""
        fill = self.config.filling
        files, values = self._files.read(number, state.token) if state is not None else (BucketFiles(self._files.of(number)), {})
        if fill is not None and number in fill.buckets and values.get(FILLED) != fill.token.encode():
            files, values = BucketFiles(self._files.of(number)), fill_files.read_state(Path(fill.directory), number)
            values[FILLED] = fill.token.encode()
            for name, value in values.items():
                files.put(name, value)
        bucket = Bucket.restore(self.config, number, values.get) if values else Bucket(self.config, number)
        return _Held(bucket, files, "" if state is None else state.token)
