"""Change the number of tasks of the stateful step, which a checkpoint fixes, with Spark's own repartitioning of state.

The move is a batch of its own, which reads no source. The job file records the move first, so that the next run completes one that was
killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import BEHIND, RUNS, behind
from skyband.framework.base.reasons import CONTROL
from skyband.framework.base.redaction import redact_values
from skyband.framework.console.lines import Warn
from skyband.framework.settings.spark import TASKS, requested_tasks
from skyband.framework.sources.logs import last_batch, partitions_of
from skyband.framework.spark_adapter.driver import repartition_state
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.spark.failures import system_failure_error
from skyband.framework.streaming.spark.log import log_file
from skyband.framework.tables.writing.sink import Sink


def move_state(
    spark: SparkSession, layout: Layout, job: JobFile, sink: Sink, warn: Warn, phase: Callable[[str], None], shards: int = 1
) -> JobFile:
    """Move the state to as many tasks as the environment requests, and return the job file. Complete an interrupted move.

    There are at least as many tasks as ``shards`` of a bucket.

    While a batch is unfinished, ``warn`` is called instead. Only for a caller that holds the job's lock. O(state), in Spark's tasks.
    Raises SkybandError SKY-E651 if Spark cannot do it; the job is then unchanged.
    """
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if job.moving is None:
        requested = requested_tasks()
        if shards > (requested or job.partitions):
            requested = shards
        if requested in (None, job.partitions) or done < 0:
            return job
        if planned > done:
            warn(f"batch {planned} is unfinished: this run has {counted(job.partitions, 'task')} for the state, the next one {requested}")
            return job
        job = replace(job, moving=requested)
        layout.save(job)
    to = job.moving
    assert to is not None
    failpoint("partitions.begun")
    if planned > done or partitions_of(layout.checkpoint, done) != to:
        phase(f"moving the state of {counted(job.partitions, 'task')} to {to}")
        _move(spark, layout, job, to)
        done += 1
    failpoint("partitions.moved")
    before = [row for row in sink.last_runs(2) if int(row["batch_id"]) < done]
    sink.commit(done, {RUNS: sink.runs_row(_row(done, before[-1]))})
    job = replace(job, partitions=to, moving=None)
    layout.save(job)
    return job


def _move(spark: SparkSession, layout: Layout, job: JobFile, to: int) -> None:
    try:
        repartition_state(spark, layout.checkpoint, to)
    except Exception as e:  # Spark raises many types
        planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
        if planned == done:
            layout.save(replace(job, moving=None))
        system_error = system_failure_error(e, layout.checkpoint, log_file())
        if system_error is not None:
            raise system_error from e
        said = redact_values(str(e)).strip().partition("\n")[0]
        hint = f"set {TASKS}={job.partitions} to continue as before"
        raise SkybandError("SKY-E651", f"the state cannot be moved to {counted(to, 'task')}: {said[:300]}", hint=hint) from e


def _row(batch: int, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of ``runs`` of a batch that has read nothing: its totals are those of the batch before."""
    # What a row of a finish or a release makes due is processed in the batch after the one that read the row.
    counters = {CONTROL: 0} if CONTROL in json.loads(before["counters"]) else {}
    if lag := behind(before["counters"]):
        counters[BEHIND] = lag + 1
    stays = {name: before[name] for name in ("pending", "frontier", "newest")}
    empty = {"unusable": "{}", "warned": "{}", "drift": "[]", "engine_ms": 0.0}
    return {"batch_id": batch, "batch_time": datetime.now(UTC), "counters": json.dumps(counters), **stays, **empty}
