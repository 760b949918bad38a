"""Close the state stores of a query when it ends.

Spark would keep them open, and leave snapshots to a maintenance thread that runs once a minute. A run of less than a minute would never
write one, and the next run would replay all changes since the last snapshot. After a reset of the job, late snapshots would get into the
new checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from skyband.framework.sources.logs import last_batch
from skyband.framework.spark_adapter.jvm import close_state
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@contextmanager
def closed_after(spark: SparkSession, query: StreamingQuery, checkpoint: Location, tasks: int, steps: int = 1) -> Iterator[None]:
    """Close the state of ``query``, which has stopped by the end of the block, if the ``tasks`` of its ``steps`` run in this process's JVM.

    Write its snapshots first, unless the last batch is incomplete: that batch may be repeated with a file that has been fixed.
    """
    try:
        yield
    finally:
        # A later run writes the snapshots that cannot be written now: the changelogs are complete.
        with suppress(Exception):
            if (spark.sparkContext.master or "").startswith("local"):
                done = last_batch(checkpoint / "offsets") == last_batch(checkpoint / "commits")
                close_state(spark, query, tasks, steps, write=done)


def state_bytes(spark: SparkSession) -> dict[str, int]:
    """Return the bytes of the state store in ``memory`` and on ``disk``, as the active query last reported them; {} if it has not yet."""
    found: dict[str, int] = {}
    for query in spark.streams.active:
        progress = query.lastProgress
        for step in () if progress is None else progress.stateOperators:
            found["memory"] = found.get("memory", 0) + step.memoryUsedBytes
            found["disk"] = found.get("disk", 0) + step.customMetrics.get("rocksdbSstFileSize", 0)
    return found
