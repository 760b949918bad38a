"""Read files by Spark that Arrow does not read as Spark would: those with rows that do not parse, mostly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.format import FileFormat
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.rows.config import WATERMARK, HostConfig
from skyband.framework.streaming.rows.intake import counted, intake
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.run.delivery import number_batch
from skyband.framework.streaming.run.query import PACKED


def packed_by_spark(
    spark: SparkSession,
    plan: Plan,
    job: JobFile,
    config: HostConfig,
    urls: Sequence[str],
    clock: int | None,
    caps: WatermarkCaps | None,
    lookups: Tables,
) -> tuple[int | None, list[dict[str, Any]]]:
    """Return the latest instant of the files that moves the watermark, in microseconds, and the blocks of ``Pack``.

    Raises whatever Spark raises. O(bytes).
    """
    format_ = source_format(plan.source.format)
    assert isinstance(format_, FileFormat)
    number_batch(spark.sparkContext, 0, clock, {})
    rows = counted(intake(format_.at_rest(spark, plan.source, job.header, urls, caps), plan.intake, lookups), plan.intake)
    made = rows.mapInArrow(Pack(config), PACKED).toArrow()
    latest = [int(at.value) for at in made[WATERMARK] if at.is_valid]
    return max(latest, default=None), made.drop_columns([WATERMARK]).to_pylist()
