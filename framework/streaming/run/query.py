"""Build and start the streaming query of a plan: source, intake, watermark, blocks, stateful buckets, sink."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from skyband.framework.base.messages import ASIDE, COUNTS, FLUSH, HOST, ROWS_IN, Tally
from skyband.framework.base.reasons import CONTROL
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.logs import forget_state, last_batch, owed
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.structs import struct
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.bucket.hand_off import hand_off_directory
from skyband.framework.streaming.bucket.processor import HostProcessor
from skyband.framework.streaming.bucket.shard_processor import ShardProcessor
from skyband.framework.streaming.job.arrow_files import by_arrow, readable
from skyband.framework.streaming.job.clocks import recorded
from skyband.framework.streaming.job.filling import filling
from skyband.framework.streaming.job.layout import JobFile, Layout, cache_key, token_key
from skyband.framework.streaming.rows.arrow_intake import URL, ReadAndPack
from skyband.framework.streaming.rows.config import WATERMARK, HostConfig
from skyband.framework.streaming.rows.instants.source_times import task_newest
from skyband.framework.streaming.rows.intake import control_rows, intake, with_control
from skyband.framework.streaming.rows.outbox import Block, Deliver, Send, as_block, as_it_is
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.rows.shards.slots import Shards
from skyband.framework.streaming.rows.shuffle_files import ShuffleFiles, shuffle_files_of
from skyband.framework.streaming.run.by_arrow import by_spark
from skyband.framework.streaming.run.delivery import Delivery, number_batch
from skyband.framework.streaming.spark.worker_pools import pool, pools

_NO_TABLES: Final[Tables] = {}
OnBatch = Callable[[DataFrame, int], None]

PACKED: Final = StructType([*struct(node="int", bucket="int", kind="string", data="binary"), *struct(**{WATERMARK: "timestamp"})])
"""The columns of the blocks that ``Pack`` makes (``messages``)."""
_OF_SHARDS: Final = struct(node="int", bucket="int", kind="string", data="binary")
"""The columns of the messages that shards send, or pass on, to buckets."""
_SENT: Final = struct(kind="string", data="binary")
"""The columns of the messages to the driver."""

_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for queries whose rows Spark never sees: it moves a few blocks, for which compiling code does not pay."""

_STARTING = threading.Lock()
"""Serializes changes of the session's settings: all jobs of a process share the session."""


def build(
    spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, without: Sequence[str], drop: WatermarkCaps | None, deliver: Deliver,
    send: Send, lookups: Tables, together: bool,
) -> DataFrame:  # fmt: skip
    """Return the stream of (kind, data) blocks from which the tables are written, ``without`` the files that are set aside.

    ``caps``: the caps of the source's files, if there are any. ``deliver`` handles blocks on their way to the driver, ``send`` rows on
    their way to their bucket. ``lookups``: the tables of look-ups. ``together``: see ``HostConfig``.
    """
    config = HostConfig.of(
        plan, tuple((w, f) for w, f in job.finishes), cache_key(layout, job), filling(layout, job), _cores(spark), token_key(layout, job)
    )
    shards = None if job.shards is None else Shards(job.shards[0], plan.buckets, job.shards[1])
    config = replace(config, together=together, recorded=recorded(layout), shards=shards)
    of = pools(spark.sparkContext)
    with pool(spark.sparkContext, of.intake):
        if by_arrow(plan, job):
            packed = _read_by_arrow(spark, plan, layout, job, config, without, drop, deliver, send)
        else:
            read = replace(plan.source, plain=by_spark(plan, job))
            frames = source_format(plan.source.format).frames(spark, read, job.header, without, drop)
            rows = with_control(spark, [intake(frame, plan.intake, lookups) for frame in frames], str(layout.control), plan.intake)
            packed = rows.mapInArrow(Pack(config, deliver, send, newest=task_newest), PACKED)
        # Only accepted rows move the watermark: Pack is the last step before the buckets that rejects rows.
        # Spark drops late rows only if it sees the watermark's column. Without it they reach the buckets, which record them as late.
        packed = packed.withWatermark(WATERMARK, f"{plan.intake.delay_ms} milliseconds").drop(WATERMARK)
    with pool(spark.sparkContext, of.host):
        handed_off = hand_off_directory(spark.sparkContext, str(layout.checkpoint))
        if config.shards is not None:
            shard = ShardProcessor(config, send.message if isinstance(send, ShuffleFiles) else as_it_is, handed_off)
            packed = packed.groupBy("node", "bucket").transformWithState(shard, _OF_SHARDS, "Append", "EventTime")
        host = HostProcessor(config, deliver, handed_off)
        return packed.groupBy("node", "bucket").transformWithState(host, _SENT, "Append", "EventTime")


def _cores(spark: SparkSession) -> int:
    """Return the number of cores that a task may use if no other task runs."""
    context = spark.sparkContext
    local = (context.master or "").startswith("local")
    return min(context.defaultParallelism, os.cpu_count() or 1) if local else int(context.getConf().get("spark.executor.cores") or 1)


def _read_by_arrow(
    spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, config: HostConfig, without: Sequence[str], drop: WatermarkCaps | None,
    deliver: Deliver, send: Send,
) -> DataFrame:  # fmt: skip
    """Return the stream of blocks that tasks read by Arrow; Spark never sees the rows."""
    urls = spark_reader.urls(spark, plan.source, URL, without, drop)
    packed = urls.mapInArrow(ReadAndPack(config, readable(plan, job), deliver, send), PACKED)
    return packed.unionByName(_control_blocks(control_rows(spark, str(layout.control)), config.buckets).toDF(*packed.columns))


def _control_blocks(rows: DataFrame, buckets: int) -> DataFrame:
    """Return the blocks of rows of the control source: their counts, and for each bucket that it has to flush."""
    flush = F.coalesce(F.col("flush"), F.lit(False))
    numbered = rows.select(
        "at", flush.alias("flush"), F.explode(F.sequence(F.lit(-1), F.when(flush, buckets - 1).otherwise(-1))).alias("to")
    )
    counts = {name: F.lit(Tally({ROWS_IN: 0, name: 1}).message()) for name in (CONTROL, FLUSH)}
    aside = F.col("to") < 0
    return numbered.select(
        F.when(aside, ASIDE).otherwise(HOST), F.greatest("to", F.lit(0)), F.when(aside, COUNTS).otherwise(FLUSH),
        F.when(~aside, F.lit(b"")).when(F.col("flush"), counts[FLUSH]).otherwise(counts[CONTROL]), "at",
    )  # fmt: skip


def start(
    spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, on_batch: OnBatch, once: bool, without: Sequence[str] = (),
    drop: WatermarkCaps | None = None, delivery: Delivery | None = None, lookups: Tables = _NO_TABLES,
) -> StreamingQuery:  # fmt: skip
    """Start the job's query: over the present input (``once``), or continuously at the spec's trigger."""
    forget_state(layout.checkpoint, last_batch(layout.checkpoint / "commits"))
    if owed(layout.checkpoint):
        # An earlier run ended before this batch. Without a new row Spark would not process what the watermark has passed, such as a finish.
        layout.order_wake(f"after-{last_batch(layout.checkpoint / 'commits')}")
    shared = shuffle_files_of(spark.sparkContext, str(layout.checkpoint))
    if shared is not None:
        shared.begin()
    built = build(spark, plan, layout, job, without, drop, delivery or as_it_is, shared or as_block, lookups, together=once)
    writer = built.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(layout.checkpoint))
    if once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{(plan.trigger_micros or 0) // 1000} milliseconds")
    settings = {"spark.sql.shuffle.partitions": str(job.partitions)} | (_INTERPRETED if by_arrow(plan, job) else {})
    with _set_for_a_query(spark, settings):
        return writer.queryName(plan.job).start()


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


def run_batch(made: DataFrame, batch_id: int, layout: Layout, clock: int | None, newest: Mapping[str, int]) -> Iterable[Block]:
    """Run the tasks of a batch, exactly once, and return what they send. The state is committed when this returns.

    ``clock``: at which the batch was planned, in microseconds; None if event times are not compared with it.
    ``newest``: how far each of several sources has come.
    """
    context = made.sparkSession.sparkContext
    number_batch(context, batch_id, clock, newest)
    table = made.toArrow()
    shared = shuffle_files_of(context, str(layout.checkpoint))
    if shared is not None:
        shared.done(batch_id)
    return zip(table["kind"].to_pylist(), table["data"].to_pylist(), strict=True)
