"""The caps of a backlog whose files Spark lists, and reads in its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.framework.base.reasons import REASON
from skyband.framework.console.lines import Warn
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.backlog import batch_bytes
from skyband.framework.sources.files.bad_files import plain
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.sources.several.format import widened
from skyband.framework.sources.watermark_caps import NO_ROWS, UNKNOWN, Span, UnreadFile
from skyband.framework.streaming.job.arrow_files import by_arrow
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.rows.intake import intake
from skyband.framework.streaming.run.backlog import BacklogCaps, PartBacklog, unreadable
from skyband.framework.streaming.run.by_arrow import spans as spans_by_arrow


class SparkBacklogCaps(BacklogCaps):
    """See ``BacklogCaps``. ``lookups``: the tables of look-ups."""

    def __init__(
        self, spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, warn: Warn, lookups: Tables, times: SourceTimes | None = None
    ) -> None:
        super().__init__(plan, layout, job, warn, times)
        self._spark, self._lookups = spark, lookups

    def _unread(self, part: PartBacklog) -> tuple[list[str], list[UnreadFile]]:
        return part.backlog.unread(partial(part.backlog.listed, self._spark), part.source.max_files_per_batch, batch_bytes(part.source))

    def _by_arrow(self, urls: Sequence[str], exact: bool) -> dict[str, Span]:
        """Return the spans of those of the files ``urls`` that Arrow can read. ``exact``: only of accepted rows."""
        if by_arrow(self.plan, self.job):
            with suppress(Exception):  # Spark reads the same files next and reports the error
                return spans_by_arrow(self._spark, self.plan, self.job, urls, exact, self.latest())
        return {}

    def _by_engine(self, part: PartBacklog, urls: Sequence[str]) -> dict[str, Span]:
        return spans_by_spark(self._spark, self.plan, part, urls, self._lookups, self.latest())


def spans_by_spark(
    spark: SparkSession, plan: Plan, part: PartBacklog, urls: Sequence[str], lookups: Tables, latest: int | None
) -> dict[str, Span]:
    """Return the spans of the files ``urls``, read by Spark as the stream would read them. Unreadable files raise no error here."""
    bad_span = unreadable(part.source)
    spans: dict[str, Span] = dict.fromkeys(urls, NO_ROWS)
    todo = [list(urls)] if urls else []
    while todo:
        some = todo.pop()
        try:
            frame = part.backlog.rows(spark, some)
            spans |= _spans(widened(frame, plan.source, part.name, capped=False) if part.name else frame, some, plan, lookups, latest)
        except Exception as e:  # Spark raises it again when the stream reads the file
            bad = set(part.backlog.named(str(e), some))
            spans |= dict.fromkeys(bad, bad_span) if bad else dict.fromkeys(some, UNKNOWN)
            left = [u for u in some if u not in bad] if bad else []
            # Spark names one file at a time: try suspects alone, so that the others are mostly read only once more.
            alone = set(part.backlog.suspects(left))
            todo += [[u] for u in alone]
            if together := [u for u in left if u not in alone]:
                todo.append(together)
    return spans


def _spans(frame: DataFrame, urls: Sequence[str], plan: Plan, lookups: Tables, latest: int | None) -> dict[str, Span]:
    at, spelled = F.col(f"`{plan.intake.event_time}`"), {plain(u): u for u in urls}
    rows = intake(frame, plan.intake, lookups).where(F.col(REASON).isNull())
    if latest is not None:
        rows = rows.where(F.unix_micros(at) <= latest)
    spans = rows.groupBy(ORIGIN).agg(F.unix_micros(F.min(at)), F.unix_micros(F.max(at)))
    return {spelled[plain(str(url))]: (int(first), int(last)) for url, first, last in spans.collect()}
