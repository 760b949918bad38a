"""Files that tasks read by Arrow: the spans of event time of those in a backlog. JSON files that Spark would misread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from skyband.framework.plan.model import Plan
from skyband.framework.sources.json.plain import may_be_plain, why_not_plain
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.watermark_caps import Span
from skyband.framework.spark_adapter.driver import serialize_function
from skyband.framework.streaming.job.arrow_files import by_arrow, readable
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.rows.arrow_intake import said
from skyband.framework.streaming.run.file_spans import FileSpans
from skyband.framework.streaming.spark.executors import require_driver_versions
from skyband.framework.streaming.spark.worker_pools import INTAKE, pool

OWN: Final = "by Spark's own reader: "
"""Beginning of ``JobFile.engine_reads`` where Spark's own reader may still read JSON files, and not only the exact one."""


def by_spark(plan: Plan, job: JobFile) -> bool:
    """Return whether Spark's own reader reads JSON files, which ``look`` checks before their rows are committed."""
    own = not job.engine_reads or job.engine_reads.startswith(OWN)
    return own and not by_arrow(plan, job) and may_be_plain(plan.source)


def after(plan: Plan, job: JobFile, why: str) -> str | None:
    """Return ``engine_reads`` of a job whose present reader has left a file to the next one; None if it has none.

    Arrow's reader comes before Spark's own, and the exact one reads all files.
    """
    if by_arrow(plan, job):
        return f"{OWN}{why}" if may_be_plain(plan.source) else why
    return why if by_spark(plan, job) else None


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
        found = context.parallelize(urls, tasks).mapPartitions(_Task(FileSpans(plan.intake, files, exact, latest)))
        serialize_function(found)
    return dict(found.collect())


@dataclass(frozen=True, slots=True)
class _Task:
    """The function that tasks run."""

    spans: FileSpans

    def __call__(self, urls: Iterable[str]) -> Iterator[tuple[str, Span]]:
        require_driver_versions()
        return self.spans.of(urls)
