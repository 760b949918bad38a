"""Build and start the streaming query of a plan: source, intake, blocks of rows, watermark. Its batches then run buckets."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from skyband.framework.base.messages import ASIDE, COUNTS, FLUSH, ROWS_IN, Tally
from skyband.framework.base.reasons import CONTROL
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.structs import struct
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.job.arrow_files import by_arrow, readable
from skyband.framework.streaming.job.clocks import recorded
from skyband.framework.streaming.job.layout import JobFile, Layout, cache_key, token_key
from skyband.framework.streaming.rows.arrow_intake import URL, ReadAndPack
from skyband.framework.streaming.rows.config import WATERMARK, HostConfig
from skyband.framework.streaming.rows.instants.source_times import task_newest
from skyband.framework.streaming.rows.intake import control_rows, intake, with_control
from skyband.framework.streaming.rows.outbox import Deliver, Send
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.rows.shards import several
from skyband.framework.streaming.rows.shuffle_files import ShuffleFiles
from skyband.framework.streaming.run.by_arrow import by_spark
from skyband.framework.streaming.spark.worker_pools import pool, pools

OnBatch = Callable[[DataFrame, int], None]

PACKED: Final = StructType([*struct(node="int", bucket="int", kind="string", data="binary"), *struct(**{WATERMARK: "timestamp"})])
"""The columns of the blocks that ``Pack`` makes (``messages``)."""

_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for queries whose rows Spark never sees: it moves a few blocks, for which compiling code does not pay."""

_STARTING = threading.Lock()
"""Serializes changes of the session's settings: all jobs of a process share the session."""


def config_of(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, together: bool) -> HostConfig:
    """Return the configuration of the job's buckets in this run. ``together``: see ``HostConfig``."""
    finishes = tuple((w, f) for w, f in job.finishes)
    config = HostConfig.of(plan, finishes, cache_key(layout, job), _cores(spark), token_key(layout, job))
    return replace(config, together=together, recorded=recorded(layout), shards=several(job.shards, plan.buckets))


def _cores(spark: SparkSession) -> int:
    """Return the number of cores that a task may use if no other task runs."""
    context = spark.sparkContext
    local = (context.master or "").startswith("local")
    return min(context.defaultParallelism, os.cpu_count() or 1) if local else int(context.getConf().get("spark.executor.cores") or 1)


@dataclass(frozen=True, slots=True)
class JobQuery:
    """The streaming query of a job: what it reads, and what becomes of the rows on their way to their buckets.

    ``without``: the files that are set aside. ``drop``: the caps of the source's files, if there are any. ``deliver`` handles blocks on
    their way to the driver. ``lookups``: the tables of look-ups.
    """

    spark: SparkSession
    plan: Plan
    layout: Layout
    job: JobFile
    config: HostConfig
    without: Sequence[str]
    drop: WatermarkCaps | None
    deliver: Deliver
    lookups: Tables

    def frame(self, send: Send) -> DataFrame:
        """Return the stream of blocks of rows (``PACKED``). ``send`` handles rows on their way to their bucket."""
        spark, plan = self.spark, self.plan
        with pool(spark.sparkContext, pools(spark.sparkContext).intake):
            if by_arrow(plan, self.job):
                packed = self._read_by_arrow(send)
            else:
                read = replace(plan.source, plain=by_spark(plan, self.job))
                frames = source_format(plan.source.format).frames(spark, read, self.job.header, self.without, self.drop)
                intakes = [intake(frame, plan.intake, self.lookups) for frame in frames]
                rows = with_control(spark, intakes, str(self.layout.control), plan.intake)
                packed = rows.mapInArrow(Pack(self.config, self.deliver, send, newest=task_newest), PACKED)
            # Only accepted rows move the watermark: Pack is the last step before the buckets that rejects rows.
            return packed.withWatermark(WATERMARK, f"{plan.intake.delay_ms} milliseconds")

    def _read_by_arrow(self, send: Send) -> DataFrame:
        """Return the stream of blocks that tasks read by Arrow; Spark never sees the rows."""
        urls = spark_reader.urls(self.spark, self.plan.source, URL, self.without, self.drop)
        packed = urls.mapInArrow(ReadAndPack(self.config, readable(self.plan, self.job), self.deliver, send), PACKED)
        return packed.unionByName(_control_blocks(control_rows(self.spark, str(self.layout.control))).toDF(*packed.columns))

    def start(self, on_batch: OnBatch, once: bool, shuffle: ShuffleFiles) -> StreamingQuery:
        """Start the query: over the present input (``once``), or continuously at the spec's trigger."""
        shuffle.begin()
        writer = self.frame(shuffle).writeStream.foreachBatch(on_batch).option("checkpointLocation", str(self.layout.checkpoint))
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{(self.plan.trigger_micros or 0) // 1000} milliseconds")
        settings = {"spark.sql.shuffle.partitions": str(self.job.partitions)} | (_INTERPRETED if by_arrow(self.plan, self.job) else {})
        with _set_for_a_query(self.spark, settings):
            return writer.queryName(self.plan.job).start()


def _control_blocks(rows: DataFrame) -> DataFrame:
    """Return the blocks of rows of the control source: their counts."""
    counts = {name: F.lit(Tally({ROWS_IN: 0, name: 1}).message()) for name in (CONTROL, FLUSH)}
    data = F.when(F.coalesce(F.col("flush"), F.lit(False)), counts[FLUSH]).otherwise(counts[CONTROL])
    return rows.select(F.lit(ASIDE), F.lit(0), F.lit(COUNTS), data, "at")


@contextmanager
def _set_for_a_query(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set these settings of the session for a query that starts inside, and restore them afterwards. The query keeps them."""
    with _STARTING:
        before = {name: str(spark.conf.get(name)) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, value in before.items():
                spark.conf.set(name, value)
