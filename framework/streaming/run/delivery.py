"""Deliver rows from tasks to tables: small blocks through the driver, large ones in files that tasks write and the driver commits.

Tasks reach object storage by their own environment (``storage.settings``), so no credentials are sent to them. A file of a failed
attempt or of a repeated batch is in no version of the table; upkeep removes it like a replaced file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark import SparkContext, TaskContext

from skyband.framework.base.messages import BATCH, CLOCK, HEADS, REJECTED, SOURCES_NEWEST, file_message
from skyband.framework.storage import delta_read
from skyband.framework.storage.delta_read import to_schema
from skyband.framework.storage.location import location
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.outbox import Block, least_in_file
from skyband.framework.tables.delta.data_files import write
from skyband.framework.tables.writing.sink import Sink, merged_heads, stamped, table_of
from skyband.framework.tables.writing.table_properties import partition_text


@dataclass(slots=True)
class Delivery:
    """What tasks need of the tables below ``root``: schemas and partitions by name, and the key columns. Each task has a copy."""

    root: str
    specs: Mapping[str, tuple[pa.Schema, tuple[str, ...]]]
    keys: tuple[str, ...]
    least: int
    mark: str
    """A part of the names of all files of the job, by which upkeep recognizes files that no commit names."""
    _heads: dict[int, pa.Table] = field(default_factory=dict)
    """The rows of ``heads`` that this task has sent, by bucket."""
    _opened: DeltaTable | None = None

    @classmethod
    def of(cls, sink: Sink) -> Delivery | None:
        """Return the delivery for a job's tables; None if only the driver may write them."""
        root = sink.writer.task_root
        if root is None:
            return None
        specs = {s.name: (s.schema, s.partition_by) for s in sink.specs.values()}
        return cls(root, specs, sink.plan.intake.partition_by, least_in_file(), sink.writer.file_mark)

    def __call__(self, kind: str, data: bytes) -> Block:
        """Return the message of a block: the block itself, or the file to which its rows were written. Only for tasks of a batch."""
        table = table_of(kind)
        if table is None:
            return kind, data
        rows = blocks.bytes_table(data)
        if kind == HEADS:
            rows = self._touched(rows)
        if not rows.num_rows or rows.nbytes < self.least:
            return kind, data
        task = TaskContext.get()
        assert task is not None
        batch = int(task.getLocalProperty(BATCH) or "")
        schema, partition_by = self.specs[table]
        if kind == HEADS:
            rows = merged_heads(self._heads_before(rows["bucket"][0].as_py()), rows, schema, self.keys)
        partition = {name: partition_text(rows[name][0].as_py()) for name in partition_by}
        rows = to_schema(rows if partition else stamped(rows, batch), schema).drop_columns(list(partition))
        file = write(location(self.root), table, rows, partition, prefix=f"part-{batch:08}-{task.taskAttemptId()}-{self.mark}")
        reasons = pc.value_counts(rows["reason"]).to_pylist() if kind == REJECTED else []
        return file_message(kind, {**asdict(file), "reasons": {x["values"]: x["counts"] for x in reasons}})

    def _touched(self, rows: pa.Table) -> pa.Table:
        """Return all rows that this task has sent for the bucket's keys: its file always holds the whole bucket."""
        if rows.num_rows:
            bucket = rows["bucket"][0].as_py()
            rows = self._heads[bucket] = pa.concat_tables([*([self._heads[bucket]] if bucket in self._heads else []), rows])
        return rows

    def _heads_before(self, bucket: int) -> pa.Table:
        """Return the bucket's rows of ``heads`` before the batch. Opens the table once: nothing is committed while tasks run."""
        if self._opened is None:
            self._opened = delta_read.open_table(self.root, HEADS)
        return delta_read.read(self._opened, where=pc.field("bucket") == bucket)


def number_batch(context: SparkContext, batch_id: int, clock: int | None, newest: Mapping[str, int]) -> None:
    """Set the batch number for the tasks of this thread's jobs from now on, and what else they have to know of the batch.

    ``clock``: at which it was planned, in microseconds, if there is one. ``newest``: how far each of several sources had come before.
    """
    context.setLocalProperty(BATCH, str(batch_id))
    context.setLocalProperty(CLOCK, "" if clock is None else str(clock))
    context.setLocalProperty(SOURCES_NEWEST, json.dumps(dict(newest)))
