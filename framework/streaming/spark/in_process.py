"""Spark in a process that is not the command's own: a program or a notebook that calls ``Job.run``."""

from __future__ import annotations

import atexit
import contextlib
from functools import cache

from pyspark.sql import SparkSession

from skyband.framework.streaming.spark.jvm import SPARK_JVM


@cache
def end_with_process() -> None:
    """From now on Spark ends with this process. Before Python takes things apart: Spark's threads would tell of it on stderr."""
    atexit.register(_end)


def _end() -> None:
    with contextlib.suppress(Exception):
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
    SPARK_JVM.end()
