"""Rows on their way from a task to a table: small blocks by way of the driver, large ones straight into a file that the driver commits.

The same in a directory and on object storage, which tasks reach by their environment (``storage.settings``): no credentials travel to them.
A file of an attempt that failed, or of a batch that is repeated, is in no version of the table: upkeep removes it like a replaced one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark import SparkContext, TaskContext

from skyband.framework.base.messages import BATCH, HEADS, REJECTED, file_message
from skyband.framework.storage.locations import location
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.outbox import Block, least_in_file
from skyband.framework.tables.delta import delta_read
from skyband.framework.tables.delta.data_files import write
from skyband.framework.tables.delta.delta_read import to_schema
from skyband.framework.tables.writing.sink import Sink, merged_heads, stamped, table_of
from skyband.framework.tables.writing.table_properties import partition_text


@dataclass(slots=True)
class Delivery:
    """What tasks know of the tables below ``root``: their schemas and partitions by name, the columns of keys. Each task has its own."""

    root: str
    specs: Mapping[str, tuple[pa.Schema, tuple[str, ...]]]
    keys: tuple[str, ...]
    least: int
    mark: str
    """What the names of the job's files have in them, by which upkeep knows one that no commit names."""
    _heads: dict[int, pa.Table] = field(default_factory=dict)
    """By bucket, the rows of ``heads`` that this task has sent."""
    _opened: DeltaTable | None = None

    @classmethod
    def of(cls, sink: Sink) -> Delivery | None:
        """That of a job's tables; None if only the driver may write them."""
        root = sink.writer.task_root
        if root is None:
            return None
        specs = {s.name: (s.schema, s.partition_by) for s in sink.specs.values()}
        return cls(root, specs, sink.plan.intake.partition_by, least_in_file(), sink.writer.file_mark)

    def __call__(self, kind: str, data: bytes) -> Block:
        """The message of a block: the block itself, or that of the file in which its rows now lie. For tasks of a batch only."""
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
        """All that this task has to say of the bucket's keys: a file of it is the whole bucket's, however often it is asked for."""
        if rows.num_rows:
            bucket = rows["bucket"][0].as_py()
            rows = self._heads[bucket] = pa.concat_tables([*([self._heads[bucket]] if bucket in self._heads else []), rows])
        return rows

    def _heads_before(self, bucket: int) -> pa.Table:
        """Nothing is committed while a batch's tasks run: the table is opened once."""
        if self._opened is None:
            self._opened = delta_read.open_table(self.root, HEADS)
        return delta_read.read(self._opened, where=pc.field("bucket") == bucket)


def number_batch(context: SparkContext, batch_id: int) -> None:
    """Tells the tasks of this thread's jobs, from now on, which batch they are of."""
    context.setLocalProperty(BATCH, str(batch_id))
