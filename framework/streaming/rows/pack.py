"""Pack rows into binary blocks per (node, bucket) before the shuffle: Spark moves a few values instead of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.messages import (
    ASIDE,
    COUNTS,
    FLUSH,
    GREATEST,
    HOST,
    REACHED,
    REJECTED,
    ROWS_IN,
    SENT,
    SHARD,
    STOPPING,
    STRETCHES,
    Tally,
    null_count,
    warned_count,
)
from skyband.framework.base.reasons import CONTROL, FILTERED, REASON, STOPS, count_name
from skyband.framework.base.types import STAMP
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.streaming.rows import blocks, operations, rejects, reports, tokens, vectors
from skyband.framework.streaming.rows.config import CAPPED, KEY_HASHES, WARNED, WATERMARK, HostConfig
from skyband.framework.streaming.rows.instants import ahead
from skyband.framework.streaming.rows.instants.source_clocks import with_contributions
from skyband.framework.streaming.rows.instants.stretches import Stretches, limit_of
from skyband.framework.streaming.rows.outbox import Deliver, Send, as_block, as_it_is

_ARROW = pa.schema([("node", pa.int32()), ("bucket", pa.int32()), ("kind", pa.string()), ("data", pa.binary())])
_BLOCK_ROWS = 65536
_ORDERED_ROWS = 8192
"""The number of rows from which a block is closed when the next rows are older than its last."""
_BUFFER_BYTES = 4 << 20
"""The largest number of rejected rows that a task buffers."""


class Pack:
    """The function for ``mapInArrow``. ``send`` makes the messages for hosts, ``deliver`` those for the driver.

    ``clock`` returns the clock at which the batch was planned.
    ``latest`` is the latest event time, in microseconds, of the rows so far that move the watermark: those that no reason rejects here.
    ``newest``: returns the newest event time of each of several sources, as of the batch before.
    """

    def __init__(
        self, config: HostConfig, deliver: Deliver = as_it_is, send: Send = as_block, clock: ahead.Clock = ahead.task_clock,
        newest: Callable[[], Mapping[str, int]] = dict,
    ) -> None:  # fmt: skip
        self._newest = newest
        self.config, self._deliver, self._send, self._clock = config, deliver, send, clock
        self._key = config.token_key
        self.latest: int | None = None
        limit = limit_of(config.intake, config.window)
        self._stretches = None if limit is None else Stretches(limit)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of rows as ``intake`` gives them."""
        return self.packed(pa.Table.from_batches([batch]) for batch in batches)

    def packed(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield blocks of about ``_BLOCK_ROWS`` rows per bucket, then this task's counts, each with ``WATERMARK``."""
        for block in self._packed(tables):
            yield block.append_column(WATERMARK, pa.array([self.latest] * block.num_rows, pa.int64()).cast(STAMP))

    def _packed(self, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        counts = Tally({ROWS_IN: 0})
        held: list[pa.Table] = []
        buffered: list[pa.Table] = []
        rows = 0
        for table in tables:
            good, rejected = self.sort_out(table, counts)
            if rejected is not None:
                buffered.append(rejected)
                if sum(t.nbytes for t in buffered) >= _BUFFER_BYTES:
                    yield self._rejected(buffered)
                    buffered = []
            ordered = self.config.buckets == 1 and rows >= _ORDERED_ROWS
            if ordered and good.num_rows and self._first(good) < self._last(held[-1]):
                # Another file, mostly: what is in order stays so. Of several buckets' rows few are in order anyway.
                yield self._blocks(pa.concat_tables(held))
                held, rows = [], 0
            if good.num_rows:
                self._note_instants(good)
                held.append(good)
            rows += good.num_rows
            if rows >= _BLOCK_ROWS:
                yield self._blocks(pa.concat_tables(held))
                held, rows = [], 0
        if rows:
            yield self._blocks(pa.concat_tables(held))
        if buffered:
            yield self._rejected(buffered)
        if self._stretches is not None and len(self._stretches.first):
            yield _block(ASIDE, 0, STRETCHES, blocks.table_bytes(self._stretches.table()))
        if counts[ROWS_IN] or CONTROL in counts or FLUSH in counts:
            # After all rows: its ``WATERMARK`` is the task's.
            yield _block(ASIDE, 0, COUNTS, counts.message())

    def _first(self, rows: pa.Table) -> int:
        return int(rows[self.config.intake.event_time][0].value)

    def _last(self, rows: pa.Table) -> int:
        return int(rows[self.config.intake.event_time][-1].value)

    def sort_out(self, table: pa.Table, counts: Tally) -> tuple[pa.Table, pa.Table | None]:
        """Return (rows for the host, rows of ``rejected`` or None)."""
        names = self.config.row_schema().names
        if CAPPED in table.column_names or self.config.intake.sources:
            names = [*names, CAPPED]
        table = ahead.judged(table, self.config.intake, self._clock(), self.config.recorded)
        table = operations.judged(table, self.config.intake.operations)
        table = reports.judged(vectors.judged(self._with_tokens(table), self.config.intake.vectors), self.config.intake, self.config.texts)
        if self.config.intake.sources:
            table = self._of_sources(table, counts)
        reason = table[REASON]
        self._note_latest(table, counts)
        data = table.select(names)
        if WARNED in table.column_names:
            _count_warned(table.filter(pc.is_null(reason))[WARNED], counts)
        if reason.null_count == table.num_rows:
            counts[ROWS_IN] += table.num_rows
            self._count_nulls(data, counts)
            return data, None
        for item in pc.value_counts(reason.drop_null()).to_pylist():
            counts[count_name(item["values"])] += item["counts"]
        control = pc.fill_null(pc.is_in(reason, pa.array([CONTROL, FLUSH])), False)
        counts[ROWS_IN] += table.num_rows - int(pc.sum(control).as_py() or 0)
        bad = pc.invert(pc.fill_null(pc.is_in(reason, pa.array([FILTERED, CONTROL, FLUSH, None])), True))
        rejected = table.filter(bad)
        good = data.filter(pc.is_null(reason))
        self._count_nulls(good, counts)
        return good, self._rejected_text(rejected) if rejected.num_rows else None

    def _rejected(self, buffered: list[pa.Table]) -> pa.RecordBatch:
        """The block of rows of ``rejected``."""
        rows = pa.concat_tables(buffered)
        stopping = pc.starts_with(rows["reason"], STOPS)
        if pc.any(stopping).as_py():
            # The run stops and writes nothing of this batch: it shows one of its rows.
            return _block(ASIDE, 0, STOPPING, blocks.table_bytes(rows.filter(stopping).slice(0, 1)))
        return _block(ASIDE, 0, *self._deliver(REJECTED, blocks.table_bytes(rows)))

    def _rejected_text(self, rejected: pa.Table) -> pa.Table:
        """Return rows of ``rejected``: unparsable rows as their own text, the others as JSON."""
        columns = [f.name for f in self.config.intake.fields]
        made = rejects.rejected(rejected, columns, rejected[REASON].combine_chunks(), self.config.intake.event_time, ORIGIN)
        text = pc.coalesce(rejected[CORRUPT].combine_chunks(), made["text"].combine_chunks())
        return made.set_column(made.column_names.index("text"), "text", text)

    def _count_nulls(self, good: pa.Table, counts: Tally) -> None:
        """Count the rows that go to buckets and, by column, the nulls in them: Arrow knows their number."""
        counts[SENT] += good.num_rows
        for f in self.config.intake.fields:
            if nulls := good[f.name].null_count:
                counts[null_count(f.name)] += nulls

    def _note_latest(self, table: pa.Table, counts: Tally) -> None:
        """Note what rows give the watermark: those without a reason by their time, or their cap, those of the control source by theirs."""
        mine = self.config.intake.event_time
        given = [_latest(table, CAPPED if CAPPED in table.column_names else mine, pc.is_null(table[REASON]))]
        if WATERMARK in table.column_names:
            given.append(_latest(table, WATERMARK, None))
        self.latest = max((t for t in (self.latest, *given) if t is not None), default=None)
        if self.config.intake.sources and given[0] is not None:
            counts.include(REACHED, given[0])
        if CAPPED in table.column_names and not self.config.intake.sources:
            # What the watermark would have been given without caps.
            greatest = _latest(table, mine, pc.is_null(table[REASON]))
            if greatest is not None:
                counts.include(GREATEST, greatest)

    def _of_sources(self, table: pa.Table, counts: Tally) -> pa.Table:
        """Return the rows of several sources with what each gives the common watermark; note how far each source has come."""
        intake = self.config.intake
        table, reached = with_contributions(table, self.config.clocks, self._newest(), intake.event_time, intake.delay_ms)
        for name, at in reached.items():
            counts.include(name, at)
        return table

    def _note_instants(self, good: pa.Table) -> None:
        if self._stretches is not None:
            self._stretches.add(good[self.config.intake.event_time].cast(pa.int64()).to_numpy())

    def _with_tokens(self, table: pa.Table) -> pa.Table:
        """The rows with their sets of tokens; where a set cannot be used, that is the reason, if there is none yet."""
        reason = table[REASON]
        for node in self.config.intake.tokens:
            made = tokens.sets(node, table[node.column], self._key)
            table = table.append_column(node.codes, tokens.usable(node, made))
            reason = pc.coalesce(reason, pa.chunked_array([tokens.reasons(node, made)]))
        return table.set_column(table.column_names.index(REASON), REASON, reason) if self.config.intake.tokens else table

    def _blocks(self, rows: pa.Table) -> pa.RecordBatch:
        if self.config.buckets == 1:
            return _batch(self._for_all(0, *self._send(rows)))
        bucket = rows[KEY_HASHES[0]].to_numpy() % self.config.buckets
        order = np.argsort(bucket, kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        cuts = np.searchsorted(bucket[order], np.arange(self.config.buckets + 1))
        mine = [b for b in range(self.config.buckets) if cuts[b + 1] > cuts[b]]
        return _batch(m for b in mine for m in self._for_all(b, *self._send(rows.slice(cuts[b], cuts[b + 1] - cuts[b]))))

    def _for_all(self, bucket: int, kind: str, data: bytes) -> Iterator[tuple[int, int, str, bytes]]:
        """Yield a message for a bucket and for its shards."""
        yield HOST, bucket, kind, data
        if (shards := self.config.shards) is not None:
            for shard in range(shards.of):
                yield SHARD, shards.number(bucket, shard), kind, data


def _latest(table: pa.Table, column: str, which: pa.ChunkedArray | None) -> int | None:
    """Return the latest time in ``column``, in microseconds, of the rows ``which`` (None: all); None if there is none."""
    times = table[column]
    if which is not None and not pc.all(which).as_py():
        times = times.filter(which)
    latest = pc.max(times.cast(pa.int64())).as_py()
    return None if latest is None else int(latest)


def _count_warned(broken: pa.ChunkedArray, counts: Tally) -> None:
    """Count, by rule, the accepted rows that break rules: there are few different sets of rules."""
    if broken.null_count == len(broken):
        return
    for item in pc.value_counts(broken.drop_null()).to_pylist():
        for name in item["values"].split(","):
            counts[warned_count(name)] += item["counts"]


def _block(node: int, bucket: int, kind: str, data: bytes) -> pa.RecordBatch:
    return _batch([(node, bucket, kind, data)])


def _batch(messages: Iterable[tuple[int, int, str, bytes]]) -> pa.RecordBatch:
    columns = map(list, zip(*messages, strict=True))
    return pa.RecordBatch.from_pydict(dict(zip(_ARROW.names, columns, strict=True)), schema=_ARROW)
