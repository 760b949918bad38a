"""Calls into Spark's JVM through py4j, for what PySpark does not offer in Python."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.storage.location import Location
from skyband.framework.storage.locations import is_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STATE: Final = "org.apache.spark.sql.execution.streaming.state"


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def open_file(spark: SparkSession, path: Location) -> Any:
    """Open a local file in the JVM as a ``java.io.RandomAccessFile``: a lock on it lasts as long as the JVM, not as this process."""
    return _jvm(spark).java.io.RandomAccessFile(str(path), "rw")


def process_id(spark: SparkSession) -> int:
    """Return the JVM's process id as it sees it."""
    return int(_jvm(spark).java.lang.ProcessHandle.current().pid())


def delete_objects(spark: SparkSession, directory: Location) -> None:
    """Delete a directory on object storage, including Hadoop's marker objects; do nothing for a local directory.

    Python's libraries neither list nor remove markers of empty directories, and Spark takes one for a checkpoint.
    """
    if is_object(directory):
        private: Any = spark
        path = _jvm(spark).org.apache.hadoop.fs.Path(str(directory))
        path.getFileSystem(private._jsc.hadoopConfiguration()).delete(path, True)


def scala_context(spark: SparkSession) -> Any:
    """Return Scala's SparkContext: it knows how many executors there are, PySpark's does not."""
    private: Any = spark.sparkContext
    return private._jsc.sc()


def module_options(spark: SparkSession) -> list[str]:
    """Return the JVM options that Spark's launcher adds to open modules of the JDK."""
    return list(_jvm(spark).org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray())


def close_state(spark: SparkSession, query: StreamingQuery, tasks: int, steps: int, write: bool) -> None:
    """Close the state stores of a stopped ``query`` with so many stateful ``steps`` in this JVM; ``write``: write their snapshots first.

    Spark would keep them open, and leave the snapshots to a maintenance thread that runs once a minute.
    """
    stores = state_stores(spark)
    for step, task in product(range(steps), range(tasks)):
        provider = state_provider(spark, query, task, step)
        if write and stores.isLoaded(provider):
            stores.doMaintenanceAndUnload(provider)
        else:
            stores.removeFromLoadedProvidersAndClose(provider, getattr(stores, "removeFromLoadedProvidersAndClose$default$2")())


def state_stores(spark: SparkSession) -> Any:
    """Return Scala's object ``StateStore``, which knows the open state stores of the JVM."""
    return getattr(getattr(_jvm(spark), f"{_STATE}.StateStore$"), "MODULE$")


def state_provider(spark: SparkSession, query: StreamingQuery, task: int, step: int = 0) -> Any:
    """Return Spark's id of the state store of one task of a stateful step of ``query``; the last step is number 0."""
    jvm, execution = _jvm(spark), _execution(query)
    store = getattr(jvm, f"{_STATE}.StateStoreId")(execution.checkpointFile("state"), step, task, "default")
    return getattr(jvm, f"{_STATE}.StateStoreProviderId")(store, execution.runId())


def _execution(query: Any) -> Any:
    return query._jsq.streamingQuery()
