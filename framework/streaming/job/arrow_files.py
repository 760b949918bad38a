"""The Arrow reader of a job's source files, and whether they are read by it. Does not import Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence

from skyband.framework.plan.model import Plan
from skyband.framework.plan.reader import why_not_by_arrow, why_spark_reads
from skyband.framework.sources.files.listing import recursive
from skyband.framework.sources.files.numbered_files import NumberedFiles
from skyband.framework.sources.position import FileNames
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.location import without_scheme
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.rows.arrow_intake import Readable


def by_arrow(plan: Plan, job: JobFile) -> bool:
    """Return whether tasks read the source's files by Arrow; otherwise Spark reads them. One checkpoint serves both."""
    return files_by_arrow(plan, job) and why_spark_reads(plan.source, plan.intake) is None


def files_by_arrow(plan: Plan, job: JobFile) -> bool:
    """Return whether Arrow may read the files that the job has taken as Spark reads them, whoever evaluates the job's SQL."""
    rules = source_format(plan.source.format).arrow_rules()
    named = rules is not None and (job.header is not None or not rules.header)
    return named and not job.engine_reads and why_not_by_arrow(plan.source, plan.intake) is None


def readable(plan: Plan, job: JobFile, columns: Sequence[str] | None = None) -> Readable:
    """Return the Arrow reader of the source's files: of all fields, or of those named ``columns``."""
    fields = tuple(f for f in plan.source.fields if columns is None or f.name in columns)
    root = os.path.abspath(without_scheme(str(plan.source.path)))
    directory = os.path.dirname(root) if os.path.isfile(root) else root
    format_ = source_format(plan.source.format)
    reader = format_.arrow_reader(plan.source, directory, recursive(plan.source), fields, tuple(job.header or ()))
    position = tuple(f for f in plan.source.position if columns is None or f.name in columns)
    return NumberedFiles(reader, FileNames.of(plan.source), position) if position else reader
