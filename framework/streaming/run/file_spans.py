"""The spans of event time of files that Arrow reads. Does not import Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from skyband.framework.plan.model import IntakeNode
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.watermark_caps import NO_ROWS, Span
from skyband.framework.streaming.rows.arrow_intake import Readable, accepted_times, judged


@dataclass(frozen=True, slots=True)
class FileSpans:
    """Reads files for their spans. ``exact``: of accepted rows only. ``latest``: the latest event time that counts, in microseconds."""

    intake: IntakeNode
    files: Readable
    exact: bool
    latest: int | None

    def of(self, urls: Iterable[str]) -> Iterator[tuple[str, Span]]:
        """Yield (URL, span) of the files ``urls``, without those that Arrow cannot read. O(bytes)."""
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
