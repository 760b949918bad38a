"""The files of the source during one run: checked by their format, and set aside if they are unreadable and the spec allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.framework.base.messages import ROWS_IN, Tally
from skyband.framework.base.reasons import BAD_FILE
from skyband.framework.console.lines import Warn, warning_to_stderr
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows import rejects
from skyband.framework.tables.writing.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SourceFiles:
    """The files that a run reads. ``committed``: tables have rows of a batch that an earlier run did not finish."""

    def __init__(self, plan: Plan, layout: Layout, job: JobFile, sink: Sink, committed: bool, warn: Warn = warning_to_stderr) -> None:
        self.plan, self.job = plan, job
        self.sink = sink
        self.warn = warn
        self.reject = plan.source.on_bad_file == "reject"
        self.watch = source_format(plan.source.format).watch(plan.source, job.header, layout.home)
        self.failed: int | None = None
        if self.watch is not None:
            self._warn_all(self.watch.at_start(committed))
            batch = last_batch(layout.checkpoint / "offsets") + 1
            if self.watch.rejected(batch):
                # Without a new file there would be no batch that reports them.
                layout.order_wake(f"aside-{batch}")

    def files(self, batch: int) -> list[str]:
        """Return the URLs of the files that ``batch`` reads; none if the source has no files."""
        return self.watch.files(batch) if self.watch is not None else []

    def left_out(self) -> list[str]:
        """Return the files that the query must not read."""
        return self.watch.left_out() if self.watch is not None else []

    def before_batch(self, batch: int) -> None:
        """See ``Watch.before_batch``; nothing if tables have rows of the batch, which is then repeated as it was."""
        if self.watch is not None and batch not in self.sink.committed.values():
            self.watch.before_batch(batch)

    def before_commit(self, batch: int, counts: Tally) -> pa.Table:
        """Return and count the rows of ``rejected`` for the files that ``batch`` does without.

        Raises SkybandError SKY-E301 if a file of the batch is gone.
        """
        if self.watch is None:
            return rejects.SCHEMA.empty_table()
        self._warn_all(self.watch.before_commit(batch))
        rows = self.watch.rejected(batch)
        counts[ROWS_IN] += len(rows)
        if rows:
            counts[BAD_FILE] += len(rows)
        nulls = pa.nulls(len(rows), rejects.SCHEMA.field("event_time").type)
        columns = [pa.array(c, pa.string()) for c in ([BAD_FILE] * len(rows), [t for _, t in rows], [o for o, _ in rows])]
        return pa.table([*columns, nulls], schema=rejects.SCHEMA)

    def set_aside(self, spark: SparkSession, said: str, batch: int | None) -> bool:
        """Set aside the files that made Spark fail with ``said`` in ``batch``. Return whether the query can go on without them.

        It cannot if a table has rows of the batch already: then the batch has to be repeated with the same rows.
        """
        if self.watch is None or not self.reject or batch is None or batch in self.sink.committed.values():
            return False
        warnings = self.watch.set_aside(spark, said, batch)
        self._warn_all(warnings)
        return bool(warnings)

    def _warn_all(self, warnings: list[str]) -> None:
        for text in warnings:
            self.warn(text)
