"""The Spark settings that users may change, and why they may not change the others. Standard library only.

Of ``spark.sql.*`` and ``spark.databricks.*`` only listed settings may be changed: almost all others change the meaning of values (times,
arithmetic, readers of files) or the state between batches, and results must not depend on who runs the job.
"""

from __future__ import annotations

from typing import Final

STARTS_SPARK: Final = "it is part of how Skyband starts Spark"
_OPEN: Final = (
    "spark.sql.autoBroadcastJoinThreshold", "spark.sql.broadcastTimeout", "spark.sql.debug.maxToStringFields",
    "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes",
    "spark.sql.files.minPartitionNum", "spark.sql.files.maxPartitionNum",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism", "spark.sql.streaming.stateStore.maintenanceInterval",
    "spark.sql.streaming.stateStore.numStateStoreMaintenanceThreads", "spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage", "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB",
    "spark.sql.streaming.stateStore.rocksdb.maxOpenFiles", "spark.sql.streaming.stateStore.rocksdb.maxWriteBufferNumber",
    "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB", "spark.sql.warehouse.dir",
    "spark.sql.catalogImplementation", "spark.sql.hive.metastore.version", "spark.sql.hive.metastore.jars",
    "spark.sql.hive.metastore.jars.path", "spark.sql.hive.metastore.sharedPrefixes",
)  # fmt: skip
"""Settings of ``spark.sql`` for sizes, paths, times and the metastore, on which no value depends."""
_FIXED: Final = {
    "spark.sql.shuffle.partitions": "SKYBAND_SHUFFLE_PARTITIONS says how many tasks run buckets",
    "spark.sql.session.timeZone": "times are UTC",
    "spark.sql.ansi.": "what does not parse is rejected with its reason, not an error",
    "spark.sql.variable.": "texts of a spec could read the environment",
    "spark.sql.extensions": STARTS_SPARK,
    "spark.sql.catalog": STARTS_SPARK,
    "spark.sql.adaptive.": "the tasks of a query would be others from batch to batch",
    "spark.sql.streaming.": "what is kept between batches would be lost or read otherwise",
    "spark.sql.": "the values that Spark computes must not depend on who runs the job",
    "spark.databricks.": "commits of tables must not depend on who runs the job",
    "spark.jars.excludes": STARTS_SPARK,
    "spark.master": "--master says it",
    "spark.submit.deployMode": "the driver is the command's own process",
    "spark.remote": "the driver is the command's own process",
    "spark.api.mode": "the driver is the command's own process",
    "spark.app.name": "the job's name is",
    "spark.speculation": "two copies of a task would run the same buckets",
    "spark.executorEnv.PYTHONSAFEPATH": "modules would be imported from the working directory",
    "spark.executorEnv.SKYBAND_DRIVER": STARTS_SPARK,
}
"""Setting, or prefix if it ends with a dot -> why it is fixed. The first match counts."""


def fixed_reason(name: str) -> str | None:
    """Return why the setting ``name`` may not be changed; None if it may."""
    if name in _OPEN:
        return None
    return next((why for fixed, why in _FIXED.items() if name == fixed or name.startswith(fixed.rstrip(".") + ".")), None)
