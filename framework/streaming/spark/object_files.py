"""What only the engine can do with files on object storage: remove its own signs of empty folders, whose names end with a slash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skyband.framework.storage.places import is_object

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def clear(spark: SparkSession, folder: Path) -> None:
    """Removes all of a folder on object storage, signs of folders with it: the engine takes one for a checkpoint. Else does nothing."""
    if is_object(folder):
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(str(folder))
        path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)
