"""Run a job in memory without Spark, batch by batch through its own pack, bucket, sink and derivation of results.

The steps between them are those of a run: rows of a batch are never late because of each other; the watermark is the newest event time so
far less the delay, in whole milliseconds; what it has passed by then is processed in the batch. Results do not depend on the number of
buckets (docs/semantics 4), so there is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.messages import (
    COUNTS,
    FRONTIER,
    HOST,
    NEWEST,
    PENDING,
    RUNS,
    STOPPING,
    STRETCHES,
    Skyband,
    Tally,
    parse_kind,
)
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.finish import FinishAt, finished_frontier
from skyband.framework.plan.model import Plan
from skyband.framework.quality.rejections import stopped_by_rule
from skyband.framework.rehearsal.memory import MemoryWriter
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.job.jumps import stopped_by_jump
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.rows.instants.stretches import limit_of, of_tables
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.sink import Sink

_NAME: Final = "rehearsal"
_NO_TABLES: Final[Tables] = {}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Rehearsal:
    """Runs one job from its first row on.

    ``lookups``: the tables of its look-ups. ``clock``: that of all batches, in microseconds; None: no time is too far ahead of it.
    """

    def __init__(self, plan: Plan, lookups: Tables = _NO_TABLES, clock: int | None = None) -> None:
        self._clock = clock
        self.plan = replace(plan, buckets=1)
        self.counts = Tally()
        self._writer = MemoryWriter()
        self._sink = Sink(self.plan, self._writer, _NAME)
        self._sink.ensure_all()
        self._bucket = Bucket(self._config(()), 0)
        self._state: dict[str, bytes] = {}
        self._watermark = 0
        self._batch = -1
        self._newest: int | None = None
        self._frontier: int | None = None
        self._times = SourceTimes(plan.intake.sources)
        self._rows: Rows | None = None
        self._lookups = lookups

    def drop(self, rows: Sequence[Mapping[str, Any]], reasons: Sequence[str | None] | None = None, texts: Sequence[str] = ()) -> None:
        """Process source rows (see ``Rows.table``) as one batch, and the rows that the watermark then passes.

        Raises SkybandError as ``take`` does, and SKY-E531 if the job has SQL that only Spark can evaluate.
        """
        if self._rows is None:
            self._rows = Rows(self.plan.intake, self._lookups)
        self.take(self._rows.table(rows, reasons, texts))

    def take(self, table: pa.Table) -> None:
        """Process rows that have passed the intake as one batch.

        Raises SkybandError SKY-E502 if a row breaks a rule of severity ``fail``; then no row is processed.
        """
        pack, packed = self._packed(table)
        stopping = [b for kind, b in packed if kind == STOPPING]
        if stopping:
            counts = Tally()
            for kind, message in packed:
                if kind == COUNTS:
                    counts.add(message)
            raise stopped_by_rule(self.plan, self._batch + 1, pa.concat_tables(map(blocks.bytes_table, stopping)), counts[STOPPING])
        limit = limit_of(self.plan.intake, self.plan.window)
        if limit is not None:
            found = of_tables([blocks.bytes_table(b) for kind, b in packed if kind == STRETCHES], limit)
            stopped = stopped_by_jump(self.plan, self._batch + 1, found, self._bucket.config.frontier(self._watermark))
            if stopped is not None:
                raise stopped
        data = [b for kind, b in packed if kind == _HOST]
        before, aside = self._watermark, [p for p in packed if p[0] not in (_HOST, STRETCHES)]
        if self.plan.intake.sources:
            self._commit([*aside, *self._bucket.run(data, before, before, flush=True)])
            self._watermark = max(before, (self._times.due() or 0) // 1000)
            self._commit(self._bucket.run([], before, self._watermark, flush=True))
            return
        if pack.latest is not None:
            self._watermark = max(before, pack.latest // 1000 - self.plan.intake.delay_ms)
        self._commit([*aside, *self._bucket.run(data, before, self._watermark, flush=True)])

    def advance(self, table: pa.Table, frontier: int) -> None:
        """Process rows that have passed the intake, none of which is late, and all that is due before ``frontier`` (microseconds).

        No rule and no jump of the event time stops it.
        """
        _, packed = self._packed(table)
        data = [b for kind, b in packed if kind == _HOST]
        before, self._watermark = self._watermark, max(-(-frontier // 1000), self._watermark)
        self._bucket.config = self._config(((self._watermark, frontier),))
        sent = self._bucket.run(data, before, self._watermark, flush=True)
        self._commit([*(p for p in packed if p[0] not in (_HOST, STRETCHES)), *sent])

    def restart(self) -> None:
        """Stop the job and restart it from its state."""
        values, dropped = self._bucket.save()
        self._state |= values
        for name in dropped:
            self._state.pop(name, None)
        self._bucket = Bucket.restore(self._bucket.config, 0, self._state.get)

    def finish(self, at: FinishAt = "newest") -> None:
        """Declare the input complete up to ``at`` (docs/semantics 5)."""
        if self._newest is None:
            return
        frontier = finished_frontier(self.plan, self._newest, at)
        watermark = max(-(-frontier // 1000), self._watermark)
        self._bucket.config = self._config(((watermark, frontier),))
        self._commit(self._bucket.run([], self._watermark, watermark, flush=True))

    def tables(self, results: bool = True) -> dict[str, pa.Table]:
        """Return the current tables of the job; without ``results``, tables derived from changes stay empty."""
        if results and self._batch >= 0:
            derive(self._sink, self._batch)
        return self._writer.tables

    def _packed(self, table: pa.Table) -> tuple[Pack, list[tuple[str, bytes]]]:
        """Return the pack of one batch, and what it makes of the rows: (kind, data), where the kind of rows for the bucket is ``_HOST``."""
        pack = Pack(self._bucket.config, clock=lambda: self._clock, newest=lambda: self._times.before(self._batch + 1, capped=False))
        made = [m for b in pack(iter(table.to_batches())) for m in b.to_pylist()]
        return pack, [(_HOST if m["node"] == HOST else m["kind"], m["data"]) for m in made]

    def _config(self, finishes: tuple[tuple[int, int], ...]) -> HostConfig:
        return HostConfig.of(self.plan, finishes, _NAME)

    def _commit(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Commit one batch to the tables, except the tables of states, which a rehearsal does not need."""
        self._batch += 1
        parts: dict[str, list[pa.Table]] = defaultdict(list)
        counts = Tally()
        for kind, data in messages:
            if kind == COUNTS:
                counts.add(data)
            elif not isinstance(parse_kind(kind), Skyband):
                parts[kind].append(blocks.bytes_table(data))
        self._times.add(self._batch, counts)
        for name, n in counts.items():
            self.counts.include(name, n)
        self._newest = max((n for n in (self._newest, counts.get(NEWEST)) if n is not None), default=None)
        self._frontier = max((n for n in (self._frontier, counts.get(FRONTIER)) if n is not None), default=None)
        row = {"batch_id": self._batch, "batch_time": datetime.now(UTC), "frontier": self._frontier, "newest": self._newest}
        row |= {"pending": self.counts[PENDING], "unusable": "{}", "warned": "{}", "drift": "[]", "counters": "{}"}
        tables = {kind: pa.concat_tables(t) for kind, t in parts.items()}
        self._sink.commit(self._batch, {**tables, RUNS: self._sink.runs_row(row)})


_HOST: Final = "host"
"""The kind of messages from the pack to the bucket."""
