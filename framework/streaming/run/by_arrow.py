"""Files that tasks read by Arrow: which jobs have them, and the spans of event time of those in a backlog."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.plan.reader import why_spark_reads
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.files.listing import recursive
from skyband.framework.sources.files.numbered_files import NumberedFiles
from skyband.framework.sources.json.plain import may_be_plain, why_not_plain
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.position import FileNames
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.watermark_caps import NO_ROWS, Span
from skyband.framework.spark_adapter.driver import serialize_function
from skyband.framework.storage.overlap import without_scheme
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.rows.arrow_intake import Readable, accepted_times, judged, said
from skyband.framework.streaming.spark.executors import require_driver_versions
from skyband.framework.streaming.spark.worker_pools import INTAKE, pool


def by_arrow(plan: Plan, job: JobFile) -> bool:
    """Return whether tasks read the source's files by Arrow; otherwise Spark reads them. One checkpoint serves both."""
    rules = source_format(plan.source.format).arrow_rules()
    named = rules is not None and (job.header is not None or not rules.header)
    # Only rows that Spark reads wake the buckets that have to load state files.
    return named and not job.engine_reads and job.filling is None and why_spark_reads(plan.source, plan.intake) is None


def by_spark(plan: Plan, job: JobFile) -> bool:
    """Return whether Spark's own reader reads JSON files, which ``look`` checks before their rows are committed."""
    return not job.engine_reads and may_be_plain(plan.source)


def look(plan: Plan, job: JobFile, urls: Iterable[str]) -> None:
    """Raise RuntimeError (see ``arrow_intake``) for JSON files that Spark's own reader would misread. O(bytes)."""
    if not by_spark(plan, job):
        return
    for url in urls:
        path = local_path(url)
        try:
            why = "a file is not on this machine" if path is None else why_not_plain(plan.source, path)
        except OSError as e:
            why = f"a file cannot be read ({type(e).__name__})"
        if why is not None:
            raise RuntimeError(said(why))


def readable(plan: Plan, job: JobFile, columns: Sequence[str] | None = None) -> Readable:
    """Return the Arrow reader of the source's files: of all fields, or of those named ``columns``."""
    fields = tuple(f for f in plan.source.fields if columns is None or f.name in columns)
    root = os.path.abspath(without_scheme(str(plan.source.path)))
    directory = os.path.dirname(root) if os.path.isfile(root) else root
    format_ = source_format(plan.source.format)
    reader = format_.arrow_reader(plan.source, directory, recursive(plan.source), fields, tuple(job.header or ()))
    position = tuple(f for f in plan.source.position if columns is None or f.name in columns)
    return NumberedFiles(reader, FileNames.of(plan.source), position) if position else reader


def spans(spark: SparkSession, plan: Plan, job: JobFile, urls: Sequence[str], exact: bool, latest: int | None) -> dict[str, Span]:
    """Return the span of event times of each of the files ``urls``, without those that Spark has to read.

    ``exact``: of accepted rows only; otherwise of all rows, for which only one column is read. Exact spans take a third of the time that
    Spark takes, the others half of that. ``latest``: the latest event time that counts, in microseconds. Runs in tasks.
    """
    if not urls:
        return {}
    files = readable(plan, job, None if exact else (plan.intake.event_time,))
    context = spark.sparkContext
    tasks = min(len(urls), 4 * context.defaultParallelism)
    with pool(context, INTAKE):
        found = context.parallelize(urls, tasks).mapPartitions(_Spans(plan.intake, files, exact, latest))
        serialize_function(found)
    return dict(found.collect())


@dataclass(frozen=True, slots=True)
class _Spans:
    """The function that tasks run."""

    intake: IntakeNode
    files: Readable
    exact: bool
    latest: int | None

    def __call__(self, urls: Iterable[str]) -> Iterator[tuple[str, Span]]:
        require_driver_versions()
        for url in urls:
            try:
                span = self._span(url)
            except UnsupportedFile:
                continue
            yield url, span

    def _span(self, url: str) -> Span:
        first, last = NO_ROWS
        for rows in self.files.tables(url):
            times = accepted_times(self.intake, judged(self.intake, rows, url)) if self.exact else rows[self.intake.event_time]
            times = times.cast("int64")
            both = pc.min_max(times)
            if self.latest is not None and both["max"].is_valid and both["max"].as_py() > self.latest:
                both = pc.min_max(times.filter(pc.less_equal(times, self.latest)))
            if both["min"].is_valid:
                first, last = min(first, both["min"].as_py()), max(last, both["max"].as_py())
        return first, last
