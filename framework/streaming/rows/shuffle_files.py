"""Blocks of rows on their way from the task that packs them to the one that runs their bucket.

Spark would copy a block some ten times, between its processes and through its shuffle, which takes longer than most operators. On one
machine a large block lies in a file of Spark's scratch directory instead, and Spark moves its name. A batch's files live until its
tasks have run; a batch that is repeated makes new ones.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext, TaskContext

from skyband.framework.base.messages import BATCH, ROWS, file_message, parse_file_message
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.outbox import Block, as_block, least_in_file
from skyband.framework.streaming.spark.scratch import scratch_directory


class Parcels:
    """Files of blocks of ``least`` bytes and more, below ``directory``; of tasks of a batch only."""

    def __init__(self, directory: Path, least: int) -> None:
        self._directory, self._least = directory, least
        self._made = 0

    def __call__(self, rows: pa.Table) -> Block:
        """The rows, or the message of the file in which they lie."""
        if rows.nbytes < self._least:
            return as_block(rows)
        task = TaskContext.get()
        assert task is not None
        batch = self._directory / (task.getLocalProperty(BATCH) or "")
        batch.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = batch / f"{task.taskAttemptId()}-{self._made}"
        self._made += 1
        blocks.write_table(rows, path)
        return file_message(ROWS, {"path": str(path)})

    def begin(self) -> None:
        """Before a query's first batch: what an earlier query left is removed."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def done(self, batch: int) -> None:
        """The tasks of a batch have run."""
        shutil.rmtree(self._directory / str(batch), ignore_errors=True)


def parcels(context: SparkContext, job: str) -> Parcels | None:
    """Those of ``job``, by the name of its checkpoint; None if Spark's tasks do not share this machine's files.

    A program may run two jobs at once, in one engine: they have batches of the same numbers.
    """
    if not (context.master or "").startswith("local"):
        return None
    return Parcels(scratch_directory() / "rows" / hashlib.sha256(job.encode()).hexdigest()[:16], least_in_file())


def opened(kind: str, data: bytes) -> bytes | pa.Buffer:
    """What ``blocks.bytes_table`` takes of a message of rows."""
    file = parse_file_message(kind, data)
    if file is None:
        return data
    with pa.OSFile(file[1]["path"]) as source:
        return source.read_buffer()
