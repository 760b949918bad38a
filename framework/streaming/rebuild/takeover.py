"""Take over a job of an earlier version: states that Spark keeps, or that wait in files to be loaded, become state files of the sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.plan.growth import kept_buckets
from skyband.framework.sources.logs import AGAIN, last_batch, offset, taken
from skyband.framework.storage.location import Location, remove_tree
from skyband.framework.streaming.bucket.bucket_states import BucketState
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.checkpoint import CONTROL
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.migrations import Before
from skyband.framework.streaming.rebuild.new_states import as_new, of_shards, written
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.shards import several

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

State = tuple[int, dict[str, bytes]]
"""A bucket, and the values of its state by name."""


def taken_over(start: Callable[[], SparkSession], layout: Layout, job: JobFile, unfinished_committed: bool) -> JobFile:
    """Return ``job`` with its state in files of the sink. ``start`` is called if Spark keeps it.

    ``unfinished_committed``: tables have rows of a batch that is not complete.

    A kill before the job file says so changes nothing. Raises SkybandError SKY-E209 if only the version that has begun it can complete
    what is unfinished, SKY-E303 if a state is incomplete. O(state).
    """
    filling = layout.home / "filling"
    if job.before is not None:
        states = _states(start, layout, job.before, unfinished_committed)
        files, shards = StateFiles(layout.state), several(job.shards, kept_buckets(job.fingerprint, job.salt))
        made: dict[int, BucketState] = {}
        for bucket, values in states or ():
            made |= {bucket: written(files, bucket, values), **of_shards(files, bucket, values, shards)}
        if states is not None:
            # Spark processed some of what was due in a batch of its own, which may not have run.
            layout.order_wake(f"states-{last_batch(layout.checkpoint / 'commits')}")
            job = replace(job, new_states=as_new(layout, made))
        job = replace(job, before=None, engine_reads="" if job.spark_keeps else job.engine_reads)
        failpoint("takeover.made")
        layout.save(job)
    for former in (layout.checkpoint / "state", filling):
        remove_tree(former)
    return job


def _states(start: Callable[[], SparkSession], layout: Layout, before: Before, committed: bool) -> Iterator[State] | None:
    """Return the states of all buckets, one at a time; None if rows of ``runs`` name them already."""
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    unfinished = (planned > done and committed) or before.moving is not None or before.resharding
    if before.state == "spark" and unfinished:
        said = f"an earlier version of Skyband was stopped before batch {planned} was complete: only that version can complete it"
        raise SkybandError("SKY-E209", said, hint="run the job once with it, then with this version")
    if before.filling is not None and not _loaded(layout, before.filling.token, done):
        return ((bucket, _filled(layout.home / "filling" / str(bucket))) for bucket in before.filling.buckets)
    return _kept_by_spark(start(), layout) if before.state == "spark" else None


def _loaded(layout: Layout, token: str, done: int) -> bool:
    """Return whether the batch with the row for which every bucket loaded its state is done."""
    upto, row = offset(layout.checkpoint, done, CONTROL), f"/wake-{token}.json"
    return any(t.number <= upto and t.url.endswith(row) for t in taken(layout.checkpoint / "sources" / str(CONTROL)))


def _filled(path: Location) -> dict[str, bytes]:
    try:
        table = blocks.bytes_table(path.read_bytes())
    except (OSError, pa.ArrowException) as e:
        hint = f"restore the whole sink from one backup, or {AGAIN}"
        raise SkybandError("SKY-E303", f"{path} cannot be read: it is a part of the job's state", hint=hint) from e
    return dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))


def _kept_by_spark(spark: SparkSession, layout: Layout) -> Iterator[State]:
    # The reader of states needs the coordinator of state stores, which Spark starts with its streaming manager.
    _ = spark.streams
    found = spark.read.format("statestore").option("path", str(layout.checkpoint)).option("stateVarName", "values").load()
    pieces = found.select("key.bucket", "user_map_key.name", "user_map_key.piece", "user_map_value.data")
    # Read one bucket at a time: together they are all rows of the window.
    rows = pieces.orderBy("bucket", "name", "piece").toLocalIterator()
    for bucket, mine in groupby(rows, key=lambda row: int(row["bucket"])):
        values = {}
        for name, parts in groupby(mine, key=lambda row: str(row["name"])):
            data = b"".join(bytes(part["data"]) for part in parts)
            values[name] = data[8:]
            if len(values[name]) != int.from_bytes(data[:8], "little"):
                raise SkybandError("SKY-E303", f"the state of bucket {bucket} is incomplete", hint="rebuild the job: skyband rebuild SPEC")
        yield bucket, values
