"""The Spark session of Skyband: Delta, RocksDB state, quiet logs, settings for small machines.

Measured choices are explained in the architecture notes of the README ("How it works"). Jars come through Spark's own
package mechanism, once, then from its cache; those that Spark already ships are left out of the download.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from skyband.framework.errors import SkybandError
from skyband.framework.failpoints import die_with
from skyband.framework.java import find_java_home
from skyband.framework.streaming.scratch import remove_leftovers, scratch_folder

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"

# Dependencies of Delta's that Spark's own jars folder holds already: 28 MB to download instead of 87, and no class twice.
SHIPPED = (
    "org.slf4j:slf4j-api", "org.apache.logging.log4j:log4j-slf4j2-impl", "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core", "com.google.code.findbugs:jsr305", "org.roaringbitmap:RoaringBitmap",
    "org.roaringbitmap:shims", "com.fasterxml.jackson.core:jackson-databind", "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-annotations", "com.fasterxml.jackson.datatype:jackson-datatype-jdk8",
    "org.apache.hadoop:hadoop-client-runtime", "org.apache.hadoop:hadoop-client-api", "org.apache.parquet:parquet-hadoop",
    "org.apache.parquet:parquet-column", "org.apache.parquet:parquet-format-structures", "org.apache.parquet:parquet-common",
    "org.apache.parquet:parquet-encoding", "org.apache.parquet:parquet-jackson", "org.xerial.snappy:snappy-java",
    "io.airlift:aircompressor", "commons-pool:commons-pool", "com.github.luben:zstd-jni", "commons-logging:commons-logging",
)  # fmt: skip


def log_file() -> Path:
    """Where the engine's own log goes: out of the user's sight, kept for those who ask."""
    return Path(os.environ.get("SKYBAND_LOG", str(Path(tempfile.gettempdir()) / f"skyband-{os.getpid()}.log")))


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """File descriptor 2 is ``path`` inside: the JVM and its Python workers, started there, inherit it for good."""
    sys.stderr.flush()
    saved = os.dup(2)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(fd, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(fd)


def get_session(
    app_name: str = "skyband", shuffle_partitions: int | None = None, master: str | None = None, packages: tuple[str, ...] = ()
) -> SparkSession:
    """The process's Spark session, started on first call.

    ``shuffle_partitions`` defaults to 2 (fixed for a checkpoint's life); ``master`` to ``$SKYBAND_MASTER`` or ``local[*]``.
    Raises SkybandError SKY-E200 (no Java) or SKY-E300 (the engine did not start; its log is named).
    """
    java = find_java_home()
    if java is None:
        raise SkybandError(
            "SKY-E200", "Spark needs Java 17 or 21 and none was found", hint="install a Java 17 runtime or set JAVA_HOME to one"
        )
    os.environ["JAVA_HOME"] = str(java)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    remove_leftovers()
    scratch = scratch_folder()
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "conf")
    settings: dict[str, Any] = {
        "spark.jars.packages": ",".join((DELTA, *packages)),
        "spark.jars.excludes": ",".join(SHIPPED),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": shuffle_partitions or int(os.environ.get("SKYBAND_SHUFFLE_PARTITIONS", "2")),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "10",
        # The list of files taken is written anew as a whole every 100 batches (10 is the default), and old ones go a minute later (10).
        "spark.sql.streaming.fileSource.log.compactInterval": "100",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "1m",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # Many small files share a task.
        "spark.sql.files.openCostInBytes": "131072",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.maxResultSize": "0",
        "spark.driver.memory": os.environ.get("SKYBAND_DRIVER_MEMORY", "2g"),
        # Stopping a query in the middle of a batch overflows the default stack inside a JDK regular expression.
        "spark.driver.extraJavaOptions": f'-Xss16m -XX:+UseParallelGC -Djava.net.preferIPv4Stack=true "-Djava.io.tmpdir={scratch}"',
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "skyband-warehouse"),
        "spark.python.worker.reuse": "true",
    }
    if not os.environ.get("SKYBAND_MASTER", "").startswith("spark"):
        settings["spark.master"] = master or os.environ.get("SKYBAND_MASTER", "local[*]")
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    log = log_file()
    try:
        with _stderr_to(log):
            spark = builder.getOrCreate()
    except Exception as e:
        raise SkybandError("SKY-E300", f"Spark did not start: {str(e).splitlines()[0]}", hint=f"the engine's log is {log}") from e
    die_with(lambda: [spark.sparkContext._gateway.proc.pid])  # type: ignore[union-attr]
    spark.sparkContext.setLogLevel(os.environ.get("SKYBAND_LOG_LEVEL", "ERROR"))
    return spark
