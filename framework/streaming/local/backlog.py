"""The caps of a backlog whose files this process lists and reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final

from skyband.framework.console.lines import Warn
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.backlog import batch_bytes
from skyband.framework.sources.files.listing import listing
from skyband.framework.sources.logs import file_url, local_path
from skyband.framework.sources.watermark_caps import NO_ROWS, Span, UnreadFile
from skyband.framework.streaming.job.arrow_files import readable
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.run.backlog import BacklogCaps, PartBacklog
from skyband.framework.streaming.run.file_spans import FileSpans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_THREADS: Final = 4


class LocalBacklogCaps(BacklogCaps):
    """See ``BacklogCaps``. ``session``: starts Spark, for files that Arrow does not read as Spark would. ``lookups``: their tables."""

    def __init__(
        self, session: Callable[[], SparkSession], plan: Plan, layout: Layout, job: JobFile, warn: Warn, lookups: Tables
    ) -> None:  # fmt: skip
        super().__init__(plan, layout, job, warn)
        self._session, self._lookups = session, lookups

    def _unread(self, part: PartBacklog) -> tuple[list[str], list[UnreadFile]]:
        return part.backlog.unread(lambda: urls_of(part), part.source.max_files_per_batch, batch_bytes(part.source))

    def _by_arrow(self, urls: Sequence[str], exact: bool) -> dict[str, Span]:
        time = self.plan.intake.event_time
        # A derived event time takes what it is derived from, and the look at accepted rows reads all columns anyway.
        exact = exact or all(f.name != time for f in self.plan.source.fields)
        files = readable(self.plan, self.job, None if exact else (time,))
        spans = FileSpans(self.plan.intake, files, exact, self.latest(), self._lookups)
        shares = [s for i in range(_THREADS) if (s := urls[i::_THREADS])]
        with ThreadPoolExecutor(_THREADS) as pool:
            return dict(chain.from_iterable(pool.map(lambda share: list(spans.of(share)), shares)))

    def _by_engine(self, part: PartBacklog, urls: Sequence[str]) -> dict[str, Span]:
        gone = [u for u in urls if not os.path.exists(str(local_path(u)))]
        urls = [u for u in urls if u not in set(gone)]
        if not urls:
            return dict.fromkeys(gone, NO_ROWS)
        # It loads Spark, which is going to read these files.
        from skyband.framework.streaming.run.spark_backlog import spans_by_spark

        return dict.fromkeys(gone, NO_ROWS) | spans_by_spark(self._session(), self.plan, part, urls, self._lookups, self.latest())


def urls_of(part: PartBacklog) -> list[str]:
    """Return the URLs of the files of a source that are there. O(files)."""
    found = listing(part.source)
    # A link may lead nowhere, and a file be gone by now.
    return [] if found is None else [file_url(path) for path in found.files if os.path.exists(path)]
