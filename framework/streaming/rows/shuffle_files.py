"""Shuffle files: pass large blocks from the packing task to that of their bucket by file, and from shards to their bucket.

The driver moves only their names: the blocks themselves would be copied some ten times. On one machine they are in the scratch directory,
on a cluster beside the states of buckets, which all tasks reach. They are removed after the batch; a repeated batch writes new ones.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext, TaskContext

from skyband.framework.base.messages import BATCH, FOUND, ROWS, file_message, parse_file_message
from skyband.framework.storage.location import Location, is_object, location, remove_tree
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.outbox import Block, as_block, least_in_file
from skyband.framework.streaming.spark.scratch import scratch_directory


class ShuffleFiles:
    """The files of blocks of at least ``least`` bytes, below ``directory``."""

    def __init__(self, directory: str, least: int) -> None:
        self._directory, self._least = directory, least
        self._made = 0

    def __call__(self, rows: pa.Table) -> Block:
        """Return the rows, or the message with the name of the file that contains them."""
        if rows.nbytes < self._least:
            return as_block(rows)
        path = self._new_file()
        if is_object(path):
            path.write_bytes(blocks.table_bytes(rows))
        else:
            blocks.write_table(rows, Path(str(path)))
        return file_message(ROWS, {"path": str(path)})

    def message(self, kind: str, data: bytes) -> Block:
        """Return a message of a shard, or the one with the name of the file that contains it."""
        if kind != FOUND or len(data) < self._least:
            return kind, data
        path = self._new_file()
        path.write_bytes(data)
        return file_message(kind, {"path": str(path)})

    def _new_file(self) -> Location:
        task = TaskContext.get()
        assert task is not None
        batch = location(self._directory) / (task.getLocalProperty(BATCH) or "")
        batch.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._made += 1
        return batch / f"{task.taskAttemptId()}-{self._made}"

    def begin(self) -> None:
        """Remove the files of an earlier query, before a query's first batch."""
        remove_tree(location(self._directory))

    def done(self, batch: int) -> None:
        """Remove the files of a batch whose tasks have run."""
        remove_tree(location(self._directory) / str(batch))


def shuffle_files_of(context: SparkContext, home: Location) -> ShuffleFiles:
    """Return the shuffle files of the job whose own files are below ``home``.

    Two jobs in one JVM have batches with the same numbers, so each has its own directory.
    """
    if (context.master or "").startswith("local"):
        made = scratch_directory() / "rows" / hashlib.sha256(str(home).encode()).hexdigest()[:16]
        return ShuffleFiles(str(made), least_in_file())
    return ShuffleFiles(str(home / "shuffle"), least_in_file())


def opened(kind: str, data: bytes) -> bytes | pa.Buffer:
    """Return the argument of ``blocks.bytes_table`` for a message of rows."""
    file = parse_file_message(kind, data)
    if file is None:
        return data
    path = location(file[1]["path"])
    if is_object(path):
        return path.read_bytes()
    with pa.OSFile(str(path)) as source:
        return source.read_buffer()
