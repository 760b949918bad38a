"""When the time of a verification is over, its own Spark jobs end, and no others of the session."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from skyband.framework.verify.brute_force.sample import _until
from skyband.framework.verify.budget import Budget, OutOfTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _slowly(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_only_its_own_jobs_are_cancelled(spark: SparkSession) -> None:
    context = spark.sparkContext
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: context.parallelize([6.0], 1).map(_slowly).collect())
        budget = Budget(2, asked=True)
        budget.sampling()
        with pytest.raises(OutOfTime), _until(spark, budget):
            context.parallelize([40.0], 1).map(_slowly).collect()
        assert not other.done()
        assert other.result(60) == [6.0]
    assert len(context.getJobTags()) == 0
    # Without a limit, and with one that is not reached, nothing is cancelled.
    for budget in (Budget(None), Budget(60, asked=True)):
        with _until(spark, budget):
            assert context.parallelize([0.0], 1).map(_slowly).collect() == [0.0]
    with pytest.raises(ValueError, match="mine"), _until(spark, Budget(60, asked=True)):
        raise ValueError("mine")
