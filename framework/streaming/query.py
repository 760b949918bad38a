"""Plan -> one Spark streaming query: source, intake, watermark, pack, stateful host, sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skyband.framework.messages import PACKED, SENT
from skyband.framework.plan.model import Plan
from skyband.framework.sources.drop import Drop
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.config import HostConfig
from skyband.framework.streaming.filling import filling
from skyband.framework.streaming.intake import intake, with_control
from skyband.framework.streaming.layout import NEXT, JobFile, Layout
from skyband.framework.streaming.pack import Pack
from skyband.framework.streaming.processor import HostProcessor

OnBatch = Callable[[DataFrame, int], None]


def cache_key(layout: Layout, job: JobFile) -> str:
    """Names the checkpoint, in a worker's cache and in the codes of tokens: a generation that is being built by where it will be.

    Codes that stand in its state would otherwise be none of those that rows have once it is swapped in.
    """
    return f"{layout.checkpoint}/{job.generation}".replace(f"/_skyband/{NEXT}/_skyband/", "/_skyband/")


def build(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, without: Sequence[str], drop: Drop | None) -> DataFrame:
    """The stream of (kind, data) blocks that the tables are made of, ``without`` the pieces of the source that are set aside.

    ``drop``: caps of the source's pieces, if they have any.
    """
    config = HostConfig.of(plan, tuple((w, f) for w, f in job.finishes), cache_key(layout, job), filling(layout, job))
    source = source_format(plan.source.format).stream(spark, plan.source, job.header, without, drop)
    rows = intake(source, plan.intake)
    rows = with_control(spark, rows, str(layout.control), plan.intake.event_time, plan.intake.delay_ms)
    packed = rows.mapInArrow(Pack(config), PACKED)
    # The stateful step gets a pool of Python workers of its own, or its cache of decoded state would never hit: pools are told apart by
    # the environment their functions were made in.
    environment = spark.sparkContext.environment
    environment["SKYBAND_STEP"] = "host"
    try:
        return packed.groupBy("node", "bucket").transformWithState(HostProcessor(config), SENT, "Append", "EventTime")
    finally:
        environment.pop("SKYBAND_STEP", None)


def start(
    spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, on_batch: OnBatch, once: bool, without: Sequence[str] = (),
    drop: Drop | None = None,
) -> StreamingQuery:  # fmt: skip
    """Starts the job's query: over what is there (``once``) or for good at the spec's trigger."""
    spark.conf.set("spark.sql.shuffle.partitions", str(job.partitions))
    built = build(spark, plan, layout, job, without, drop)
    writer = built.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(layout.checkpoint))
    if once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{(plan.trigger_micros or 0) // 1000} milliseconds")
    return writer.queryName(plan.job).start()
