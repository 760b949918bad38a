"""The spans of event time of files that Arrow reads. Does not import Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow.compute as pc

from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import IntakeNode
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.watermark_caps import NO_ROWS, Span
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake, Readable, accepted_times


@dataclass(frozen=True, slots=True)
class FileSpans:
    """Reads files for their spans. ``exact``: of accepted rows only. ``latest``: the latest event time that counts, in microseconds.

    ``lookups``: the tables of look-ups.
    """

    intake: IntakeNode
    files: Readable
    exact: bool
    latest: int | None
    lookups: Tables = field(default_factory=dict)

    def of(self, urls: Iterable[str]) -> Iterator[tuple[str, Span]]:
        """Yield (URL, span) of the files ``urls``, without those that Arrow cannot read. O(bytes)."""
        intake = ArrowIntake(self.intake, self.lookups) if self.exact else None
        for url in urls:
            try:
                span = self._span(url, intake)
            except UnsupportedFile:
                continue
            yield url, span

    def _span(self, url: str, intake: ArrowIntake | None) -> Span:
        first, last = NO_ROWS
        for rows in self.files.tables(url):
            times = rows[self.intake.event_time] if intake is None else accepted_times(self.intake, intake.judged(rows, url))
            times = times.cast("int64")
            both = pc.min_max(times)
            if self.latest is not None and both["max"].is_valid and both["max"].as_py() > self.latest:
                both = pc.min_max(times.filter(pc.less_equal(times, self.latest)))
            if both["min"].is_valid:
                first, last = min(first, both["min"].as_py()), max(last, both["max"].as_py())
        return first, last
