"""What the engine does for the first time with a job's first batch, done before: while it plans that batch, which takes it a second and
one core.

For the first time it takes some hundred milliseconds each to load its library of state, to look into Scala's types, to compile, and to
read what a snapshot of a state holds; and a task waits for each of them. What it compiles for the values of a state are the same lines for
every job, and it keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.streaming.scratch import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SNAPSHOT: Final = 'v1\n{"sstFiles":[],"numKeys":0}\n'
"""What a snapshot says of itself, of a state that holds nothing."""


def engine_ahead(spark: SparkSession) -> None:
    """Does all of it; what cannot be done ahead is done, or goes wrong, where it matters."""
    jvm: Any = spark.sparkContext._jvm
    steps: tuple[Callable[[], object], ...] = (
        jvm.scala.reflect.runtime.package.universe,
        lambda: _compile(spark, jvm),
        jvm.org.rocksdb.RocksDB.loadLibrary,
        lambda: _read_snapshot(jvm),
    )
    for step in steps:
        with suppress(Exception):
            step()


def _compile(spark: SparkSession, jvm: Any) -> None:
    """Anything: the compiler itself is what has to be loaded."""
    jvm.org.apache.spark.sql.catalyst.expressions.UnsafeProjection.create(
        spark._jsparkSession.parseDataType('{"type":"struct","fields":[]}')
    )


def _read_snapshot(jvm: Any) -> None:
    file = scratch_folder() / "snapshot"
    file.write_text(_SNAPSHOT)
    try:
        jvm.org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata.readFromFile(jvm.java.io.File(str(file)))
    finally:
        file.unlink()
