"""The work of a batch in this process: its files are read and packed, its buckets run and saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa

from skyband.framework.base.messages import ASIDE, COUNTS, FLUSH, ROWS_IN, Tally
from skyband.framework.base.reasons import CONTROL
from skyband.framework.lookups.join import Tables
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.bucket.bucket_states import States
from skyband.framework.streaming.bucket.calls import HeldBuckets, Packed, calls
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake, Readable, capped
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.rows.pack import Pack

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


class LocalTasks:
    """Runs batches. Buckets stay in memory from batch to batch.

    ``origin`` returns the origin of a file's rows by its URL. ``lookups``: the tables of look-ups.
    """

    def __init__(
        self, config: HostConfig, reader: Readable, origin: Callable[[str], str], states: StateFiles, odd: OddFiles, lookups: Tables
    ) -> None:  # fmt: skip
        self._reader, self._origin, self._odd = reader, origin, odd
        self._intake = ArrowIntake(config.intake, lookups)
        self._buckets = HeldBuckets(config, states)
        self._threads = max(1, min(_TASKS, os.cpu_count() or 1))
        self.reached_ms = 0
        """The watermark to which the last batch has moved it, in ms."""

    @property
    def config(self) -> HostConfig:
        """Return the configuration of all buckets of the job."""
        return self._buckets.config

    @config.setter
    def config(self, config: HostConfig) -> None:
        self._buckets.config = config

    def run(self, batch: Input, states: States | None) -> Iterator[Block]:
        """Yield the messages of a batch to the driver. ``states``: those of buckets before it. Raises the errors of ``odd``."""
        packed = self._packed(batch)
        watermarks = packed.watermarks(batch.watermark_ms, self.config.intake.delay_ms)
        self.reached_ms = watermarks.after
        yield from packed.aside
        for call in calls(packed, states, self.config, watermarks):
            yield from self._buckets.run(call, watermarks)
        yield self.config.frontier_count(watermarks.after)

    def _packed(self, batch: Input) -> Packed:
        found = Packed()
        for row in batch.control:
            found.add(ASIDE, 0, COUNTS, Tally({ROWS_IN: 0, FLUSH if row.flush else CONTROL: 1}).message())
            found.reaches(row.at_ms)
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
            if latest is not None:
                found.reaches(latest // 1000)
            for m in messages:
                found.add(m["node"], m["bucket"], m["kind"], m["data"])
        return found

    def _read(self, urls: Sequence[str], batch: Input, odd: dict[str, str]) -> Blocks:
        """Read files by Arrow. Those that it does not read as Spark would get into ``odd``, with the reason."""
        pack = Pack(self.config, clock=lambda: batch.clock)
        blocks = pack.packed(chain.from_iterable(self._tables(url, batch.caps, odd) for url in urls))
        messages = [m for made in blocks for m in made.to_pylist()]
        return pack.latest, messages

    def _tables(self, url: str, caps: WatermarkCaps | None, odd: dict[str, str]) -> list[pa.Table]:
        origin, made = self._origin(url), []
        try:
            # All of a file before any of it counts: its end may show that only Spark can read it.
            for rows in self._reader.tables(url):
                judged = self._intake.judged(rows, origin)
                made.append(judged if caps is None else capped(self.config.intake, judged, caps.cap(url)))
        except UnsupportedFile as e:
            odd[url] = str(e)
            return []
        return made
