"""Spark's open state, closed with its query.

Spark would keep it in its process, and have a thread that comes by once a minute write what it has not written yet: snapshots, without
which the next run replays all changes since the last one. A run that takes less than a minute would never write any; and of a job that was
reset they would come into the checkpoint of the one that took its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.framework.sources.logs import last_batch
from skyband.framework.spark_adapter.jvm import close_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@contextmanager
def closed_after(spark: SparkSession, query: StreamingQuery, checkpoint: Path, tasks: int) -> Iterator[None]:
    """The state of ``query``, which has ended when the block does, is closed if its ``tasks`` run in this process's engine.

    Written first, but for that of a batch that is not done: it may be repeated with a file that has been mended.
    """
    try:
        yield
    finally:
        # What cannot be written now is written by a later run; the changes are all there.
        with suppress(Exception):
            if (spark.sparkContext.master or "").startswith("local"):
                done = last_batch(checkpoint / "offsets") == last_batch(checkpoint / "commits")
                close_state(spark, query, tasks, write=done)
