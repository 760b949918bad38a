"""Fork Python workers ahead of their first task, while Spark plans its first batch, which takes seconds and one core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from skyband.framework.spark_adapter.driver import serialize_function
from skyband.framework.streaming.spark.worker_pools import pool, pools

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.rows.config import HostConfig


def fork_ahead(spark: SparkSession, plan: Plan) -> Thread:
    """Start one worker of each of a job's two pools; that of buckets loads the plan's kernels.

    Returns at once; the thread ends by itself. Errors are ignored: they occur again, and are reported, in the batch.
    """
    from skyband.framework.streaming.rows.config import HostConfig

    ahead = KernelsAhead(HostConfig.of(plan, (), ""))
    of = pools(spark.sparkContext)
    # One of a shared pool is enough: buckets run when intake has ended.
    ahead_of_tasks = [_data_set(spark, of.intake, nothing)] if of.intake != of.host else []
    ahead_of_tasks.append(_data_set(spark, of.host, ahead))

    def count() -> None:
        for rows in ahead_of_tasks:
            with suppress(Exception):
                rows.count()

    thread = Thread(target=count, name="fork ahead", daemon=True)
    thread.start()
    return thread


def _data_set(spark: SparkSession, more: Mapping[str, str], work: Callable[[Iterable[Any]], Iterator[Any]]) -> Any:
    """Return a data set that a worker of the pool with the environment ``more`` computes."""
    with pool(spark.sparkContext, more):
        return serialize_function(spark.sparkContext.parallelize([0], 1).mapPartitions(work))


def nothing(rows: Iterable[Any]) -> Iterator[Any]:
    """Consume rows and return none."""
    for _ in rows:
        pass
    return iter(())


class KernelsAhead:
    """Consumes rows like ``nothing``, and loads the kernels of ``config``."""

    def __init__(self, config: HostConfig) -> None:
        self._config = config

    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Load the kernels and consume ``rows``."""
        from skyband.framework.streaming.bucket.kernels import load_kernels

        load_kernels(self._config)
        return nothing(rows)
