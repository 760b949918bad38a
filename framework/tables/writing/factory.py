"""Choose the writer for a job's tables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.location import is_object, location
from skyband.framework.tables.writing.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def writer_for(path: str, spark: SparkSession | None = None) -> Writer:
    """The back end for tables below ``path``: the driver for a local directory and for object storage, Spark for any other file system.

    ``SKYBAND_WRITER=driver|spark`` overrides, but on object storage: only the driver's commits are fenced. Raises SkybandError SKY-E401
    if Spark is needed and there is no session.
    """
    local = path.removeprefix("file://")
    choice = os.environ.get("SKYBAND_WRITER") or ("driver" if "://" not in local else "spark")
    if choice == "spark" and not is_object(path):
        if spark is None:
            raise SkybandError("SKY-E401", f"tables at {path} can only be written with a Spark session")
        from skyband.framework.tables.writing.spark_writer import SparkWriter

        return SparkWriter(path, spark)
    from skyband.framework.tables.writing.driver_writer import DriverWriter

    return DriverWriter(location(path))
