"""Shuffle files: pass large blocks from the packing task to the stateful task by file, and from shards to their bucket.

Spark would copy a block some ten times, between its processes and through its shuffle, which takes longer than most operators. On one
machine a large block is written to a file in the scratch directory instead, and Spark moves only its name. The files are removed after the
batch; a repeated batch writes new ones.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext, TaskContext

from skyband.framework.base.messages import BATCH, FOUND, ROWS, file_message, parse_file_message
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.outbox import Block, as_block, least_in_file
from skyband.framework.streaming.spark.scratch import scratch_directory


class ShuffleFiles:
    """The files of blocks of at least ``least`` bytes, below ``directory``, for one batch."""

    def __init__(self, directory: Path, least: int) -> None:
        self._directory, self._least = directory, least
        self._made = 0

    def __call__(self, rows: pa.Table) -> Block:
        """Return the rows, or the message with the name of the file that contains them."""
        if rows.nbytes < self._least:
            return as_block(rows)
        path = self._new_file()
        blocks.write_table(rows, path)
        return file_message(ROWS, {"path": str(path)})

    def message(self, kind: str, data: bytes) -> Block:
        """Return a message of a shard, or the one with the name of the file that contains it."""
        if kind != FOUND or len(data) < self._least:
            return kind, data
        path = self._new_file()
        path.write_bytes(data)
        return file_message(kind, {"path": str(path)})

    def _new_file(self) -> Path:
        task = TaskContext.get()
        assert task is not None
        batch = self._directory / (task.getLocalProperty(BATCH) or "")
        batch.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._made += 1
        return batch / f"{task.taskAttemptId()}-{self._made}"

    def begin(self) -> None:
        """Remove the files of an earlier query, before a query's first batch."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def done(self, batch: int) -> None:
        """Remove the files of a batch whose tasks have run."""
        shutil.rmtree(self._directory / str(batch), ignore_errors=True)


def shuffle_files_of(context: SparkContext, job: str) -> ShuffleFiles | None:
    """Return the shuffle files of ``job`` (the name of its checkpoint); None if Spark's tasks do not share this machine's files.

    Two jobs in one JVM have batches with the same numbers, so each has its own directory.
    """
    if not (context.master or "").startswith("local"):
        return None
    return ShuffleFiles(scratch_directory() / "rows" / hashlib.sha256(job.encode()).hexdigest()[:16], least_in_file())


def opened(kind: str, data: bytes) -> bytes | pa.Buffer:
    """Return the argument of ``blocks.bytes_table`` for a message of rows."""
    file = parse_file_message(kind, data)
    if file is None:
        return data
    with pa.OSFile(file[1]["path"]) as source:
        return source.read_buffer()
