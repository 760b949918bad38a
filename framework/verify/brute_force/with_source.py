"""Read the source, by Arrow or by Spark, and compare the tables with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.spark.packages import packages
from skyband.framework.streaming.spark.session import get_session
from skyband.framework.verify.brute_force.accepted import source_rows, source_rows_by_arrow
from skyband.framework.verify.brute_force.sample import Compared, compare_rows
from skyband.framework.verify.budget import Budget, OutOfTime, Sample
from skyband.framework.verify.progress import Progress
from skyband.framework.verify.replay.clocks import Clocks
from skyband.framework.verify.stored import Stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_AGAIN: Final = 0.5
"""Seconds until jobs are cancelled again."""


def compare(stored: Stored, clocks: Clocks, layout: Layout, job: JobFile, sample: Sample, budget: Budget, progress: Progress) -> Compared:
    """Compare the tables with the source, as far as ``sample`` and ``budget`` allow.

    Raises SkybandError SKY-E301 without a source. If there are queries over results, these are compared nevertheless (``missing``).
    """
    budget.sampling()
    try:
        rows, reader = _read(stored.plan, layout, job, budget, progress)
    except SkybandError as e:
        if e.code != "SKY-E301" or not stored.plan.streams:
            raise
        found = compare_rows(stored, clocks, None, sample, budget, progress)
        found.missing = e.message
        return found
    except OutOfTime:
        return Compared(missing="the time was over before the source was read", out_of_time=True, of_keys=len(stored.until))
    found = compare_rows(stored, clocks, rows, sample, budget, progress)
    found.reader = reader
    return found


def _read(plan: Plan, layout: Layout, job: JobFile, budget: Budget, progress: Progress) -> tuple[pa.Table, str]:
    """Return all rows of the source that the intake passes, and what has read them: Arrow in this process where it reads as Spark does.

    Raises OutOfTime, and SkybandError SKY-E301 if the source cannot be read again.
    """
    progress.doing("reading the source by Arrow")
    rows = source_rows_by_arrow(plan, layout, job, budget)
    if rows is not None:
        return rows, "Arrow"
    progress.doing("starting Spark, which reads the source")
    spark = get_session(plan.job, packages=packages(plan), home=layout.home)
    progress.doing("reading the source by Spark")
    with _until(spark, budget):
        return source_rows(spark, plan, layout, job), "Spark"


@contextmanager
def _until(spark: SparkSession, budget: Budget) -> Iterator[None]:
    """Cancel the Spark jobs of this thread when the time is over, and no others: the session may be shared. Raises OutOfTime then."""
    left = budget.left
    if left is None:
        yield
        return
    context, tag, over = spark.sparkContext, f"skyband-verify-{uuid4().hex}", threading.Event()

    def cancel() -> None:
        running = not over.wait(left)
        while running:  # one after the other: only jobs that have started can be cancelled
            context.cancelJobsWithTag(tag)
            running = not over.wait(_AGAIN)

    thread = threading.Thread(target=cancel, daemon=True)
    context.addJobTag(tag)
    thread.start()
    try:
        yield
    except Exception:
        budget.check()  # what Spark raises for jobs that were cancelled
        raise
    finally:
        over.set()
        thread.join()
        context.removeJobTag(tag)
