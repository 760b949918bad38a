"""Spark's open state, closed with its query.

Spark would keep it in its process, and have a thread that comes by once a minute write what it has not written yet: snapshots, without
which the next run replays all changes since the last one. A run that takes less than a minute would never write any; and of a job that was
reset they would come into the checkpoint of the one that took its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.sources.logs import last_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STATE: Final = "org.apache.spark.sql.execution.streaming.state"


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
                _close(spark, query, tasks, write=done)


def _close(spark: SparkSession, query: StreamingQuery, tasks: int, write: bool) -> None:
    stores: Any = getattr(getattr(spark._jvm, f"{_STATE}.StateStore$"), "MODULE$")
    for task in range(tasks):
        known = provider(spark, query, task)
        if write and stores.isLoaded(known):
            stores.doMaintenanceAndUnload(known)
        else:
            stores.removeFromLoadedProvidersAndClose(known, getattr(stores, "removeFromLoadedProvidersAndClose$default$2")())


def provider(spark: SparkSession, query: StreamingQuery, task: int) -> Any:
    """Spark's name for the state of one task of ``query``."""
    jvm: Any = spark._jvm
    engines = query._jsq.streamingQuery()
    store = getattr(jvm, f"{_STATE}.StateStoreId")(engines.checkpointFile("state"), 0, task, "default")
    return getattr(jvm, f"{_STATE}.StateStoreProviderId")(store, engines.runId())
