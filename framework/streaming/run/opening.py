"""Open a job that has run, in the order in which both engines do it: its plan, its tables, its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.streaming.job.consistency import Found, check
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.job.unfinished import settle
from skyband.framework.streaming.rebuild.rebucket import rebucket_job
from skyband.framework.streaming.rebuild.reshard import reshard
from skyband.framework.streaming.rebuild.takeover import taken_over
from skyband.framework.streaming.run.context import OpenedJob, RunContext
from skyband.framework.streaming.run.states import require_states
from skyband.framework.tables.writing.sink import KEPT_RUNS, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Shape = Callable[[JobFile], tuple[JobFile, int]]
"""Returns the job file with the tasks of this run, and the shards of each bucket."""


def continued(
    context: RunContext, plan: Plan, job: JobFile, rebuild: bool, found: Found | None, start: Callable[[], SparkSession], shape: Shape
) -> OpenedJob:  # fmt: skip
    """Check that ``plan`` fits the state of ``job``, and give the state the plan's buckets and shards. Return the job with its tables.

    ``rebuild``: results are about to be derived again. ``found``: the tables as a caller found them already (``consistency.check``).
    ``start`` is called if only Spark can read the state. Raises SkybandError SKY-E303 if a part of the state is gone.
    """
    layout = context.layout
    tables = check(plan, layout, job, rebuild, found=found)
    job = taken_over(start, layout, job, tables.unfinished_committed)
    plan, job = rebucket_job(plan, layout, job, context.warn)
    settle(plan, layout, job, tables)
    if job.new_states is not None and job.new_states.batch < last_batch(layout.checkpoint / "commits") - KEPT_RUNS:
        # No row that is looked at is of that batch any more (``run.states``).
        job = replace(job, new_states=None)
    job, shards = shape(layout.renew(plan, job))
    job = reshard(plan, layout, job, shards, context.warn)
    return with_tables(context, plan, job, tables.unfinished_committed)


def with_tables(context: RunContext, plan: Plan, job: JobFile, repeats_committed: bool = False) -> OpenedJob:
    """Return the job with its tables, which all exist then. Raises SkybandError SKY-E303 if a part of its state is gone."""
    sink = Sink(plan, context.writer, job.generation)
    sink.ensure_all()
    require_states(context.layout, sink, job)
    return OpenedJob(plan, job, sink, repeats_committed)
