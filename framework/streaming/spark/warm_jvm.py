"""What Spark does for the first time with a job's first batch, done before: while it plans that batch, which takes it a second and
one core.

It takes some hundred milliseconds each to look into Scala's types, to load its compiler and its library of state, and to read for the
first time what a snapshot of a state says of itself; and a task would wait for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.sources.structs import struct
from skyband.framework.streaming.spark.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SNAPSHOT: Final = 'v1\n{"sstFiles":[],"numKeys":0}\n'
"""What the snapshot of a state that holds nothing says of itself."""


def warm(spark: SparkSession) -> None:
    """Does all of it; what cannot be done ahead is done, or goes wrong, where it matters."""
    for step in steps(spark):
        with suppress(Exception):
            step()


def steps(spark: SparkSession) -> tuple[Callable[[], object], ...]:
    """Each thing that is done, in the order in which tasks need them."""
    jvm: Any = spark.sparkContext._jvm
    return (
        jvm.scala.reflect.runtime.package.universe,
        lambda: _compile(spark, jvm),
        jvm.org.rocksdb.RocksDB.loadLibrary,
        lambda: _read_snapshot(jvm),
    )


def _compile(spark: SparkSession, jvm: Any) -> Any:
    """Something, whatever it is: the compiler has to be loaded."""
    schema = spark._jsparkSession.parseDataType(struct().json())
    return jvm.org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(schema)


def _read_snapshot(jvm: Any) -> Any:
    file = scratch_directory() / "snapshot"
    file.write_text(_SNAPSHOT)
    try:
        return jvm.org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata.readFromFile(jvm.java.io.File(str(file)))
    finally:
        file.unlink()
