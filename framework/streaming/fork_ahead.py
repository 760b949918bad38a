"""Python workers forked before they are needed: while the engine plans its first batch, which takes it seconds and one core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.streaming.daemon import HOST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTAKE: Final = {"SPARK_SIMPLIFIED_TRACEBACK": "1"}
"""What the engine adds to the environment of workers that take Arrow; not to that of the stateful step's."""


def fork_ahead(spark: SparkSession) -> Thread:
    """Has one worker of each of a job's two pools ready for its first task.

    Returns at once; the thread ends by itself. What goes wrong in it goes wrong again where it matters.
    """
    asked = [_asked(spark, _INTAKE), _asked(spark, HOST)]

    def count() -> None:
        for rows in asked:
            with suppress(Exception):
                rows.count()

    thread = Thread(target=count, name="fork ahead", daemon=True)
    thread.start()
    return thread


def _asked(spark: SparkSession, more: dict[str, str]) -> Any:
    """The engine's side of a data set that a worker makes, of the pool that ``more`` of the environment tells from others."""
    environment = spark.sparkContext.environment
    environment |= more
    try:
        return spark.sparkContext.parallelize([0], 1).mapPartitions(nothing)._jrdd.rdd()
    finally:
        for name in more:
            environment.pop(name, None)


def nothing(rows: Iterable[Any]) -> Iterator[Any]:
    """Takes rows and gives none."""
    for _ in rows:
        pass
    return iter(())
