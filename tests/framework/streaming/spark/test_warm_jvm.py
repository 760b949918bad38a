"""What Spark does ahead of a job's first batch is there to be done in Spark that Skyband runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skyband.framework.streaming.spark.scratch import scratch_directory
from skyband.framework.streaming.spark.warm_jvm import steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_all_of_it_can_be_done_and_leaves_nothing(spark: SparkSession) -> None:
    universe, compiled, library, snapshot = (step() for step in steps(spark))
    assert "JavaUniverse" in universe.getClass().getName() and "UnsafeProjection" in compiled.getClass().getName()
    assert library is None and snapshot.numKeys() == 0
    assert not (scratch_directory() / "snapshot").exists()
