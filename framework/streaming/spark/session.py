"""Create the Spark session: Delta, quiet logs, settings for small machines.

Spark's package mechanism downloads jars once, then uses its cache. Jars that Spark already ships are excluded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import die_with
from skyband.framework.base.java import find_java_home
from skyband.framework.base.python_path import SAFE
from skyband.framework.console.lines import warning_to_stderr
from skyband.framework.settings.spark import DEFAULT_TASKS, SparkOptions, metastore_limits, requested_tasks, spark_settings
from skyband.framework.sources.logs import local_path
from skyband.framework.spark_adapter.driver import has_context
from skyband.framework.spark_adapter.jvm import module_options
from skyband.framework.storage.location import Location, is_object
from skyband.framework.storage.settings import EXCLUDED_JARS, SPARK_JARS, executors_env, spark_conf, workers_env
from skyband.framework.streaming.spark import cluster, launch
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.streaming.spark.log import spark_log
from skyband.framework.streaming.spark.packages import resolver, with_provider
from skyband.framework.streaming.spark.process import Start
from skyband.framework.streaming.spark.scratch import remove_leftovers, scratch_directory
from skyband.framework.streaming.spark.stop_signal import handlers_kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"

DAEMON = "skyband.framework.streaming.spark.daemon"
"""The module of the daemon from which Spark forks its workers."""

_SOCKETS = 50
"""The longest directory for sockets: with Spark's names for them, paths stay below the limit of operating systems (104)."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

_ON_ONE_MACHINE = dict.fromkeys(
    ("spark.broadcast.compress", "spark.broadcast.checksum", "spark.shuffle.compress", "spark.shuffle.checksum.enabled"), "false"
)
"""On one machine shuffle blocks and broadcasts cross no network: these settings save a tenth of a small batch's time."""

# Dependencies of Delta that are in Spark's own jars directory: 28 MB to download instead of 87, and no duplicate classes.
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


def get_session(
    app_name: str = "skyband",
    shuffle_partitions: int | None = None,
    master: str | None = None,
    packages: tuple[str, ...] = (),
    home: Location | None = None,
    extra: Mapping[str, str] | None = None,
    quick: bool = True,
    make: Path | None = None,
    alone: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> SparkSession:
    """Return the process's Spark session; start it on the first call.

    - ``shuffle_partitions``: tasks that run buckets in a first run, by default ``requested_tasks``;
    - ``master``: by default that of ``spark_settings``, whose ``conf`` applies in any case;
    - ``home``: the sink's own directory, for Spark's log (``spark_log``) if it is local;
    - ``extra``: further settings; ``quick``: the run is short, so the JVM uses its faster compiler;
    - ``make``: the archive of classes to write (``launch``), if results of an earlier start are known;
    - ``alone``: run on this machine, whatever is configured; ``meanwhile``: called while the JVM starts.

    Raise SkybandError SKY-E200 (no Java), SKY-E300 (Spark did not start, or runs already without one of ``packages``), SKY-E610 or
    SKY-E611 (invalid settings), SKY-E612 to SKY-E614 (unusable cluster).
    """
    request = _request(app_name, shuffle_partitions, master, packages, extra, quick, make, alone, meanwhile)
    start, local = request.start, request.local
    first = not has_context()
    if not first and SPARK_JVM.process is not None and (lacking := sorted({*request.packages} - SPARK_JVM.packages)):
        said = f"Spark that runs in this process was started for another job, without {', '.join(lacking)}"
        raise SkybandError("SKY-E300", said, hint="run this job in a process of its own, or as the first one")
    with spark_log(None if home is None or is_object(home) else Path(str(home))) as log, handlers_kept():
        SPARK_JVM.log = log
        if first:
            # A JVM writes the archive of classes when it exits, so it must not be killed.
            SPARK_JVM.scratch = request.scratch if local and make is None else None
            SPARK_JVM.packages = frozenset(request.packages)
        try:
            start.begin()
            spark = _session(start.settings, start)
        except Exception as e:
            raise SkybandError("SKY-E300", f"Spark did not start: {str(e).splitlines()[0]}", hint=f"Spark's log is {log}") from e
    die_with(SPARK_JVM.pids)
    spark.sparkContext.setLogLevel(os.environ.get("SKYBAND_LOG_LEVEL", "ERROR"))
    if start.known is None and request.plain:
        _remember(spark, start.spark_home, request.packages, request.excludes)
    if first and not local:
        from skyband.framework.streaming.spark import executors

        try:
            executors.check(spark, home)
        except BaseException:
            # The next call must not reuse this session.
            spark.stop()
            raise
    return spark


class _Request(NamedTuple):
    """The JVM that a call requests. ``plain``: later starts may reuse the results of its start."""

    start: Start
    local: bool
    plain: bool
    packages: tuple[str, ...]
    excludes: tuple[str, ...]
    scratch: Path


def _request(
    app_name: str, shuffle_partitions: int | None, master: str | None, packages: tuple[str, ...], extra: Mapping[str, str] | None,
    quick: bool, make: Path | None, alone: bool, meanwhile: Callable[[], None],
) -> _Request:  # fmt: skip
    """Combine all settings for ``get_session``."""
    java = find_java_home()
    if java is None:
        raise SkybandError(
            "SKY-E200", "Spark needs Java 17 or 21 and none was found", hint="install a Java 17 runtime or set JAVA_HOME to one"
        )
    os.environ["JAVA_HOME"] = str(java)
    settings_given = spark_settings(SparkOptions(alone=True) if alone else None)
    chosen = master or settings_given.master
    local = chosen.startswith("local")
    os.environ["PYSPARK_PYTHON"] = settings_given.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    network = cluster.network(chosen)
    remove_leftovers()
    scratch = scratch_directory()
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "conf")
    spark_home, packages = launch.spark_home(), (DELTA, *packages)
    plain = local and not cluster.changes_class_path(settings_given.conf)
    on_s3 = bool(set(SPARK_JARS["s3"]) & set(packages))
    excludes = SHIPPED + (EXCLUDED_JARS if on_s3 else ())
    known = launch.known(spark_home, packages, excludes) if plain else None
    settings: dict[str, Any] = {
        **({} if known else {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": ",".join(excludes)}),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": shuffle_partitions or requested_tasks() or DEFAULT_TASKS,
        "spark.sql.session.timeZone": "UTC",
        # Of jobs of earlier versions, which are taken over.
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        # The default deletes a file before it renames the new one, and forks a readlink for each of some 40 lookups per batch. This one
        # only renames, which is atomic on a local file system.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        "spark.sql.streaming.minBatchesToRetain": "10",
        # Compact the file source log every 100 batches instead of 10, and remove old logs after one minute instead of ten.
        "spark.sql.streaming.fileSource.log.compactInterval": "100",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "1m",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # Many small files share a task.
        "spark.sql.files.openCostInBytes": "131072",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        # With substitution ${env:NAME} in a spec's SQL could read the environment, and ${spark...} Spark's configuration.
        "spark.sql.variable.substitute": "false",
        "spark.ui.enabled": "false",
        # Spark formats each batch's plan for its UI: keep it short.
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.showConsoleProgress": "false",
        **network,
        **metastore_limits(settings_given.conf),
        **(spark_conf() if on_s3 else {}),
        **({f"spark.executorEnv.{name}": value for name, value in executors_env().items()} if on_s3 and not local else {}),
        "spark.driver.maxResultSize": "0",
        "spark.driver.memory": "2g",
        # Stopping a query during a batch overflows the default stack in a JDK regular expression. A JVM crash is written to the log.
        # A driver that runs no tasks only plans and commits: it needs little memory and no second compiler.
        "spark.driver.extraJavaOptions": (
            f"-Xss16m -XX:+{'UseParallelGC' if local else 'UseSerialGC'} -XX:+ExitOnOutOfMemoryError -XX:+ErrorFileToStderr "
            f'-Djava.net.preferIPv4Stack=true "-Djava.io.tmpdir={scratch}"{" " + launch.QUICK if quick or not local else ""}'
        ),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.python.worker.reuse": "true",
        # On a cluster, workers may get Skyband only after their daemon has started.
        **({"spark.python.daemon.module": DAEMON} if local else {}),
        # Sockets between the JVM and its workers: no other user can connect.
        "spark.python.unix.domain.socket.enabled": str(local and len(str(scratch)) <= _SOCKETS).lower(),
        **{f"spark.executorEnv.{name}": value for name, value in SAFE.items()},
        **(_ON_ONE_MACHINE if local else _executor_versions()),
    }
    settings = {"spark.app.name": app_name} | cluster.merged(settings, settings_given.conf) | dict(extra or {}) | {"spark.master": chosen}
    settings = with_provider(settings, resolver(java, spark_home), warning_to_stderr)
    env = workers_env() if on_s3 and local else {}
    directory = None if local else cluster.jvm_directory(os.environ["PYSPARK_PYTHON"], scratch)
    start = Start(settings, java, spark_home, known, make, settings_given.secrets(), env, directory, meanwhile)
    return _Request(start, local, plain, packages, excludes, scratch)


def _session(settings: Mapping[str, Any], start: Start) -> SparkSession:
    """Return PySpark's session on the JVM of ``start``."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    with start.used_by_pyspark():
        return builder.getOrCreate()


def _executor_versions() -> dict[str, str]:
    """Return the setting with the driver's versions, which executors compare with their own."""
    from skyband.framework.streaming.spark import executors

    return {f"spark.executorEnv.{executors.DRIVER}": json.dumps(executors.versions())}


def archive() -> Path | None:
    """Return the path of the archive of Spark's classes; None before the first start, and if Spark's script is used."""
    java, spark_home = find_java_home(), launch.spark_home()
    known = launch.known(spark_home, (DELTA,), SHIPPED)
    return launch.archive(java, spark_home, known) if java is not None and known is not None else None


def _remember(spark: SparkSession, spark_home: Path, packages: tuple[str, ...], excludes: tuple[str, ...]) -> None:
    """Keep the results of Spark's script and of its search for packages."""
    jars = [local for jar in (spark.conf.get("spark.jars", "") or "").split(",") if (local := local_path(jar)) is not None]
    launch.remember(spark_home, packages, excludes, jars, module_options(spark))
