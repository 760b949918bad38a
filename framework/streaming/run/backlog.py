"""What lies there when a query starts, taken as a unit: caps planned and kept durably, the watermark given its due at the end.

See ``sources.drop`` for what a cap is. A drop that one batch takes, or whose files come in the order of their event times, has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.framework.base.counts import counted
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import GREATEST, Tally
from skyband.framework.base.reasons import REASON
from skyband.framework.console.lines import Warn
from skyband.framework.plan.model import Filter, Plan
from skyband.framework.sources.files.bad_files import plain
from skyband.framework.sources.files.spark_reader import batch_bytes
from skyband.framework.sources.logs import watermark
from skyband.framework.sources.protocol import ORIGIN, Backlog
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.watermark_caps import NO_ROWS, UNKNOWN, Span, UnreadFile, WatermarkCaps, caps, fits, least
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.intake import intake
from skyband.framework.streaming.run.by_arrow import by_arrow
from skyband.framework.streaming.run.by_arrow import spans as spans_by_arrow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BacklogCaps:
    """The drops of one run. ``warn`` is told if rows have to wait for files that come out of order."""

    def __init__(self, spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, warn: Warn) -> None:
        self.spark = spark
        self.plan = plan
        self.layout = layout
        self.job = job
        self.warn = warn
        self.caps = WatermarkCaps.load(layout.home)
        self.backlog = source_format(plan.source.format).backlog(plan.source, job.header, layout.home)

    @property
    def capped(self) -> WatermarkCaps | None:
        """What the next query has to count with, None if no file has a cap."""
        return self.caps if self.caps.capped else None

    def begin(self) -> bool:
        """Plans, durably, for the query that is about to start: whether it has to end with what lies there now.

        O(files there); reads them (footers, where these say enough) only if one batch does not take them.
        """
        if self.backlog is None:
            return False
        source = self.plan.source
        begun, pieces = self.backlog.unread(self.spark, source.max_files_per_batch, batch_bytes(source))
        found, others = self._caps(self.backlog, pieces)
        if self.caps.plan(begun, found, others):
            self.caps.save()
            failpoint("drop.planned")
        return self.caps.capped or self.caps.greatest is not None

    def read(self, counts: Tally) -> None:
        """Notes, durably, what rows read under caps have kept from the watermark; takes it out of ``counts``."""
        greatest = counts.pop(GREATEST, None)
        if greatest is not None and greatest > (self.caps.greatest or -1):
            self.caps.greatest = greatest
            self.caps.save()

    def done(self) -> bool:
        """All that the query was planned for has been read: no file has a cap any more, and a row is ordered that moves the watermark to

        where it would be without. Whether that is needed; the next query does it.
        """
        drop, delay_ms = self.caps, self.plan.intake.delay_ms
        due_ms = 0 if drop.greatest is None else drop.greatest // 1000
        held = due_ms - delay_ms > watermark(self.layout.checkpoint)
        if held:
            drop.released = max(drop.released or 0, (due_ms - delay_ms) * 1000)
            drop.save()
            self.layout.order_release((_EPOCH + timedelta(milliseconds=due_ms)).isoformat(timespec="milliseconds"), due_ms)
            failpoint("drop.released")
        drop.caps, drop.others, drop.greatest = {}, None, None
        drop.save()
        return held

    def _caps(self, lying: Backlog, pieces: Sequence[UnreadFile]) -> tuple[dict[str, int | None], int | None]:
        """(caps of ``pieces``, that of others that may come): empty and None if none of them can make another's rows late."""
        source, intake_node = self.plan.source, self.plan.intake
        if fits(pieces, source.max_files_per_batch, batch_bytes(source)):
            return {}, None
        delay = intake_node.delay_ms * 1000
        urls = [p.url for p in pieces]
        time = intake_node.field(intake_node.event_time)
        spans = lying.footers(str(time.source_name), urls) if time.source_name is not None and time.type == "timestamp" else {}
        rest = [u for u in urls if u not in spans]
        times = self._by_arrow(rest, exact=False)
        spans |= times | self._looked_at(lying, [u for u in rest if u not in times])
        found = caps(pieces, spans, delay)
        choosy = intake_node.rules or any(isinstance(t, Filter) for t in intake_node.transforms)
        again = [u for u in urls if u in times or (choosy and u not in rest)]
        if again and any(c is not None for c in found.values()):
            # Times, and footers, count rows too that are turned away: do the others need caps?
            spans |= self._read(lying, again)
            found = caps(pieces, spans, delay)
        held = [spans[u] for u, cap in found.items() if cap is not None]
        if not held:
            return {}, None
        self._tell(len(pieces), held)
        return found, least(spans, delay)

    def _read(self, lying: Backlog, urls: Sequence[str]) -> dict[str, Span]:
        """Spans of the pieces at ``urls``: by Arrow where it reads them, by Spark the others."""
        found = self._by_arrow(urls, exact=True)
        return found | self._looked_at(lying, [u for u in urls if u not in found])

    def _by_arrow(self, urls: Sequence[str], exact: bool) -> dict[str, Span]:
        """Spans of those of the pieces at ``urls`` that Arrow reads; not ``exact``: of all rows."""
        if by_arrow(self.plan, self.job):
            with suppress(Exception):  # Spark comes to the same files, and says what it is
                return spans_by_arrow(self.spark, self.plan, self.job, urls, exact)
        return {}

    def _looked_at(self, lying: Backlog, urls: Sequence[str]) -> dict[str, Span]:
        """Spans of the pieces at ``urls``, read by Spark as the stream would read them; what cannot be read never fails here."""
        # A piece that cannot be read is left for good, or mended before anything goes on.
        unreadable = NO_ROWS if self.plan.source.on_bad_file == "reject" else UNKNOWN
        spans: dict[str, Span] = dict.fromkeys(urls, NO_ROWS)
        todo = [list(urls)] if urls else []
        while todo:
            some = todo.pop()
            try:
                spans |= self._spans(lying.rows(self.spark, some), some)
            except Exception as e:  # whatever Spark says, it will say again when the stream gets there
                bad = set(lying.named(str(e), some))
                spans |= dict.fromkeys(bad, unreadable) if bad else dict.fromkeys(some, UNKNOWN)
                left = [u for u in some if u not in bad] if bad else []
                # Spark names one at a time: what looks bad is tried alone, so that mostly the others are read once more only.
                alone = set(lying.suspects(left))
                todo += [[u] for u in alone]
                if together := [u for u in left if u not in alone]:
                    todo.append(together)
        return spans

    def _spans(self, frame: DataFrame, urls: Sequence[str]) -> dict[str, Span]:
        time, spelled = F.col(f"`{self.plan.intake.event_time}`"), {plain(u): u for u in urls}
        rows = intake(frame, self.plan.intake).where(F.col(REASON).isNull())
        spans = rows.groupBy(ORIGIN).agg(F.unix_micros(F.min(time)), F.unix_micros(F.max(time)))
        return {spelled[plain(str(url))]: (int(first), int(last)) for url, first, last in spans.collect()}

    def _tell(self, files: int, held: Sequence[Span]) -> None:
        known = [s for s in held if s != UNKNOWN]
        which = f" ({_said(min(s[0] for s in known))} to {_said(max(s[1] for s in known))})" if known else ""
        self.warn(
            f"{counted(files, 'file')} lie there, more than one batch takes, and their times of modification are not in the order of their "
            f"event times: rows of {len(held):,} of them{which} wait in state until the files that may hold earlier rows have been read"
        )


def _said(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
