"""Calls into Spark's JVM through py4j, for what PySpark does not offer in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skyband.framework.storage.location import Location, is_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
