"""Read all rows that a job has taken from its source again, with the look-up tables that their batches have used."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.lookup_versions import LookupVersions
from skyband.framework.streaming.rows.intake import intake


def taken_rows(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, node: IntakeNode | None = None) -> DataFrame:
    """Return the rows, after the intake ``node`` (default: the plan's), as a batch frame.

    Raises SkybandError SKY-E301 if they cannot be read again, or if it is not known which of several versions of a look-up they used.
    """
    node = node or plan.intake
    format_ = source_format(plan.source.format)
    if not node.lookups:
        return intake(format_.again(spark, plan.source, job.header, layout.checkpoint), node)
    kept = LookupVersions(plan, layout)
    versions = kept.known()
    parts = format_.again_in_parts(spark, plan.source, job.header, layout.checkpoint, [v.after for v in versions[1:]])
    frames = [intake(rows, node, kept.tables(versions[i])) for i, rows in parts]
    return reduce(DataFrame.unionByName, frames)
