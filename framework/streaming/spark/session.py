"""The Spark session of Skyband: Delta, RocksDB state, quiet logs, settings for small machines.

Measured choices are explained in the architecture notes of the README ("How it works"). Jars come through Spark's own
package mechanism, once, then from its cache; those that Spark already ships are left out of the download.
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
from skyband.framework.settings.spark import SparkOptions, spark_settings
from skyband.framework.settings.tasks import DEFAULT_TASKS, requested_tasks
from skyband.framework.sources.logs import local_path
from skyband.framework.spark_adapter.driver import has_context, replace_worker_python
from skyband.framework.spark_adapter.jvm import module_options
from skyband.framework.storage.locations import is_object
from skyband.framework.storage.settings import EXCLUDED_JARS, SPARK_JARS, executors_env, spark_conf, workers_env
from skyband.framework.streaming.spark import cluster, launch
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.streaming.spark.log import log_buffered, spark_log
from skyband.framework.streaming.spark.packages import resolver, with_provider
from skyband.framework.streaming.spark.process import Start
from skyband.framework.streaming.spark.scratch import remove_leftovers, scratch_directory
from skyband.framework.streaming.spark.stop_signal import handlers_kept
from skyband.framework.streaming.spark.worker_launcher import launcher
from skyband.operators.jit import cache_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"

DAEMON = "skyband.framework.streaming.spark.daemon"
"""The module that Spark forks its workers from."""

_SOCKETS = 50
"""Characters of the directory of sockets: with their names, Spark's, that is below what operating systems allow (104 and more)."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

_ON_ONE_MACHINE = dict.fromkeys(
    ("spark.broadcast.compress", "spark.broadcast.checksum", "spark.shuffle.compress", "spark.shuffle.checksum.enabled"), "false"
)
"""What goes from task to task, and to tasks, goes through no network: a tenth of a small batch's time."""

# Dependencies of Delta's that Spark's own jars directory holds already: 28 MB to download instead of 87, and no class twice.
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
    home: Path | None = None,
    extra: Mapping[str, str] | None = None,
    quick: bool = True,
    make: Path | None = None,
    alone: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> SparkSession:
    """The process's Spark session, started on first call.

    ``shuffle_partitions``: tasks of a first run's stateful step, by default those of ``requested_tasks``; ``master``: by default that of
    ``spark_settings``, whose ``conf`` counts; ``home`` is the sink's own directory, for Spark's log (see ``spark_log``) where it is on
    this machine; ``extra``: further settings; ``quick``: Spark will have little to do, and compiles for that; ``make``: see
    ``launch``, heeded where an earlier start is known; ``alone``: on this machine, whatever is configured; ``meanwhile``: done while the
    engine's process starts.
    Raises SkybandError SKY-E200 (no Java), SKY-E300 (Spark did not start; its log is named; or it runs already, without one of
    ``packages``), SKY-E610 and SKY-E611 (its settings),
    SKY-E612 to SKY-E614 (the cluster is not fit for it).
    """
    wanted = _wanted(app_name, shuffle_partitions, master, packages, extra, quick, make, alone, meanwhile)
    start, local = wanted.start, wanted.local
    first = not has_context()
    if not first and SPARK_JVM.process is not None and (lacking := sorted({*wanted.packages} - SPARK_JVM.packages)):
        said = f"Spark that runs in this process was started for another job, without {', '.join(lacking)}"
        raise SkybandError("SKY-E300", said, hint="run this job in a process of its own, or as the first one")
    with spark_log(None if home is not None and is_object(home) else home) as log, handlers_kept():
        SPARK_JVM.log = log
        if first:
            # Making the archive of classes is what a JVM does last.
            SPARK_JVM.scratch = wanted.scratch if local and make is None else None
            SPARK_JVM.packages = frozenset(wanted.packages)
        try:
            start.begin()
            spark = _session(start.settings, start)
        except Exception as e:
            raise SkybandError("SKY-E300", f"Spark did not start: {str(e).splitlines()[0]}", hint=f"Spark's log is {log}") from e
    die_with(SPARK_JVM.pids)
    if first and local:
        replace_worker_python(spark.sparkContext, lambda python: launcher(python, (wanted.scratch, cache_directory())))
    spark.sparkContext.setLogLevel(os.environ.get("SKYBAND_LOG_LEVEL", "ERROR"))
    if start.known is None and wanted.plain:
        _remember(spark, start.spark_home, wanted.packages, wanted.excludes)
    if first and not local:
        from skyband.framework.streaming.spark import executors

        try:
            executors.check(spark, home)
        except BaseException:
            # The next call would take it for one that is fit.
            spark.stop()
            raise
    return spark


def start_ahead(app_name: str, packages: tuple[str, ...], extra: Mapping[str, str]) -> None:
    """Starts the process of a JVM that ``get_session`` will be asked for, if it is known how: ``quick``, the others as given there.

    What it writes waits for its log. If something else is asked for it is ended (``Start.begin``).
    """
    wanted = _wanted(app_name, None, None, packages, extra, True, None, False, lambda: None)
    if wanted.local and not has_context():
        SPARK_JVM.scratch = wanted.scratch
        with log_buffered():
            wanted.start.ahead()


class _Wanted(NamedTuple):
    """A JVM as it was asked for. ``plain``: what its start finds out may serve later ones."""

    start: Start
    local: bool
    plain: bool
    packages: tuple[str, ...]
    excludes: tuple[str, ...]
    scratch: Path


def _wanted(
    app_name: str, shuffle_partitions: int | None, master: str | None, packages: tuple[str, ...], extra: Mapping[str, str] | None,
    quick: bool, make: Path | None, alone: bool, meanwhile: Callable[[], None],
) -> _Wanted:  # fmt: skip
    """See ``get_session``."""
    java = find_java_home()
    if java is None:
        raise SkybandError(
            "SKY-E200", "Spark needs Java 17 or 21 and none was found", hint="install a Java 17 runtime or set JAVA_HOME to one"
        )
    os.environ["JAVA_HOME"] = str(java)
    asked = spark_settings(SparkOptions(alone=True) if alone else None)
    chosen = master or asked.master
    local = chosen.startswith("local")
    os.environ["PYSPARK_PYTHON"] = asked.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    network = cluster.network(chosen)
    remove_leftovers()
    scratch = scratch_directory()
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "conf")
    spark_home, packages = launch.spark_home(), (DELTA, *packages)
    plain = local and not cluster.changes_class_path(asked.conf)
    on_s3 = bool(set(SPARK_JARS["s3"]) & set(packages))
    excludes = SHIPPED + (EXCLUDED_JARS if on_s3 else ())
    known = launch.known(spark_home, packages, excludes) if plain else None
    settings: dict[str, Any] = {
        **({} if known else {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": ",".join(excludes)}),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": shuffle_partitions or requested_tasks() or DEFAULT_TASKS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # The other one replaces a file by deleting it and renaming, and forks a readlink for every look at a file, some 40 a batch. This
        # one renames, which is one step on a local file system.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        # Else Spark looks for every value before it writes it, to count them.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
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
        # Else ${env:NAME} in a spec's SQL would be a variable of the environment, and ${spark...} Spark's configuration.
        "spark.sql.variable.substitute": "false",
        "spark.ui.enabled": "false",
        # Spark describes every batch for its pages: briefly.
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.showConsoleProgress": "false",
        **network,
        **(spark_conf() if on_s3 else {}),
        **({f"spark.executorEnv.{name}": value for name, value in executors_env().items()} if on_s3 and not local else {}),
        "spark.driver.maxResultSize": "0",
        "spark.driver.memory": "2g",
        # Stopping a query in the middle of a batch overflows the default stack inside a JDK regular expression. A crash is told in the log.
        # A driver that runs no tasks plans and commits: that takes little memory, and gains nothing from a second compiler.
        "spark.driver.extraJavaOptions": (
            f"-Xss16m -XX:+{'UseParallelGC' if local else 'UseSerialGC'} -XX:+ExitOnOutOfMemoryError -XX:+ErrorFileToStderr "
            f'-Djava.net.preferIPv4Stack=true "-Djava.io.tmpdir={scratch}"{" " + launch.QUICK if quick or not local else ""}'
        ),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.python.worker.reuse": "true",
        # Elsewhere Skyband may come to the workers only once they run.
        **({"spark.python.daemon.module": DAEMON} if local else {}),
        # Between Spark and its workers: nobody else on the machine can connect, and each call of the state's takes less.
        "spark.python.unix.domain.socket.enabled": str(local and len(str(scratch)) <= _SOCKETS).lower(),
        **{f"spark.executorEnv.{name}": value for name, value in SAFE.items()},
        **(_ON_ONE_MACHINE if local else _of_executors()),
    }
    settings = {"spark.app.name": app_name} | cluster.merged(settings, asked.conf) | dict(extra or {}) | {"spark.master": chosen}
    settings = with_provider(settings, resolver(java, spark_home), warning_to_stderr)
    env = workers_env() if on_s3 and local else {}
    stands = None if local else cluster.jvm_directory(os.environ["PYSPARK_PYTHON"], scratch)
    start = Start(settings, java, spark_home, known, make, asked.secrets(), env, stands, meanwhile)
    return _Wanted(start, local, plain, packages, excludes, scratch)


def _session(settings: Mapping[str, Any], start: Start) -> SparkSession:
    """PySpark's session of Spark that ``start`` starts, or has started."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    with start.taken():
        return builder.getOrCreate()


def _of_executors() -> dict[str, str]:
    """What executors hold themselves against."""
    from skyband.framework.streaming.spark import executors

    return {f"spark.executorEnv.{executors.DRIVER}": json.dumps(executors.versions())}


def archive() -> Path | None:
    """Where the archive of Spark's classes is, or would be; None before the first start, and where Spark's script has its way."""
    java, spark_home = find_java_home(), launch.spark_home()
    known = launch.known(spark_home, (DELTA,), SHIPPED)
    return launch.archive(java, spark_home, known) if java is not None and known is not None else None


def _remember(spark: SparkSession, spark_home: Path, packages: tuple[str, ...], excludes: tuple[str, ...]) -> None:
    """Keeps what Spark's script and its search for packages have found."""
    jars = [local for jar in (spark.conf.get("spark.jars", "") or "").split(",") if (local := local_path(jar)) is not None]
    launch.remember(spark_home, packages, excludes, jars, module_options(spark))
