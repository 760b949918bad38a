"""Read all rows that a job has taken from its source again, with the look-up tables that their batches have used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import REASON
from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.files.format import FileFormat, by_cuts
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.arrow_files import files_by_arrow, readable
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.lookup_versions import LookupVersions
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OddFiles = Callable[[Mapping[str, str]], "SparkSession"]
"""Starts Spark for files that Arrow does not read as Spark would: URL -> why."""


def taken_rows(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, node: IntakeNode | None = None) -> DataFrame:
    """Return the rows, after the intake ``node`` (default: the plan's), as a batch frame.

    Raises SkybandError SKY-E301 if they cannot be read again, or if it is not known which of several versions of a look-up they used.
    """
    from skyband.framework.streaming.rows.intake import intake

    node = node or plan.intake
    format_ = source_format(plan.source.format)
    if not node.lookups:
        return intake(format_.again(spark, plan.source, job.header, layout.checkpoint), node)
    kept = LookupVersions(plan, layout)
    versions = kept.known()
    parts = format_.again_in_parts(spark, plan.source, job.header, layout.checkpoint, [v.after for v in versions[1:]])
    frames = [intake(rows, node, kept.tables(versions[i])) for i, rows in parts]
    return reduce(lambda a, b: a.unionByName(b), frames)


def passing_rows(plan: Plan, layout: Layout, job: JobFile) -> Iterator[pa.Table] | None:
    """Return in parts the rows that the intake passes, of all files that the job has taken; None if only Spark can read or judge them.

    Rows of look-ups are left to Spark. Raises SkybandError SKY-E301 if files are gone. Reading raises UnsupportedFile
    for a file that only Spark can read. O(bytes).
    """
    format_ = source_format(plan.source.format)
    if plan.intake.lookups or not files_by_arrow(plan, job) or not isinstance(format_, FileFormat):
        return None
    try:
        ArrowIntake(plan.intake)
    except SkybandError:
        return None
    names = [f.name for f in plan.intake.fields]
    return (rows.select(names) for rows in taken_tables(None, plan, layout, job, plan.intake))


def taken_tables(start: OddFiles | None, plan: Plan, layout: Layout, job: JobFile, node: IntakeNode) -> Iterator[pa.Table]:
    """Yield in parts the rows of ``taken_rows`` that no reason rejects, of files that this process reads: by Arrow, the others by Spark.

    Only for a plan that the local engine can run. Raises as ``taken_rows``, and whatever Spark raises; without ``start`` UnsupportedFile
    for a file that only Spark can read. O(bytes).
    """
    format_ = source_format(plan.source.format)
    assert isinstance(format_, FileFormat)
    kept = LookupVersions(plan, layout) if node.lookups else None
    versions = [] if kept is None else kept.known()
    reader, files = readable(plan, job), format_.files_again(plan.source, layout.checkpoint)
    for i, urls in by_cuts(plan.source, layout.checkpoint, files, [v.after for v in versions[1:]]):
        tables = {} if kept is None else kept.tables(versions[i])
        judge = ArrowIntake(node, tables)
        odd: dict[str, str] = {}
        for url in urls:
            try:
                # All of a file before any of it counts: its end may show that only Spark can read it.
                found = [judge.judged(rows, url) for rows in reader.tables(url)]
            except UnsupportedFile as e:
                if start is None:
                    raise
                odd[url] = str(e)
                continue
            for made in found:
                yield made.filter(pc.is_null(made[REASON]))
        if odd and start is not None:
            # It loads Spark, which is going to read these files.
            from skyband.framework.streaming.rows.intake import intake

            frame = intake(format_.at_rest(start(odd), plan.source, job.header, list(odd), None), node, tables)
            yield frame.where(f"{REASON} is null").toArrow()
