"""What only Spark can do with files on object storage: remove its own signs of empty directories, whose names end with a slash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skyband.framework.storage.locations import is_object

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def clear(spark: SparkSession, directory: Path) -> None:
    """Removes all of a directory on object storage, signs of directories with it: Spark takes one for a checkpoint. Else does nothing."""
    if is_object(directory):
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(str(directory))
        path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)
