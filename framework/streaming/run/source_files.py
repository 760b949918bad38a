"""The pieces (files) of the source during one run: watched over by their format, set aside where the spec says so."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from skyband.framework.base.messages import ROWS_IN, Tally
from skyband.framework.base.reasons import BAD_FILE
from skyband.framework.console.lines import Warn, warning_to_stderr
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows import rejects
from skyband.framework.streaming.run.by_arrow import look
from skyband.framework.tables.writing.sink import Sink


class SourceFiles:
    """``committed``: tables have rows of a batch that an earlier run did not finish. ``warn`` gets what a user has to know."""

    def __init__(
        self, spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, sink: Sink, committed: bool, warn: Warn = warning_to_stderr
    ) -> None:
        self.spark = spark
        self.plan, self.job = plan, job
        self.sink = sink
        self.warn = warn
        self.reject = plan.source.on_bad_file == "reject"
        self.watch = source_format(plan.source.format).watch(plan.source, job.header, layout.home)
        self.failed: int | None = None
        if self.watch is not None:
            self._tell(self.watch.at_start(committed))
            batch = last_batch(layout.checkpoint / "offsets") + 1
            if self.watch.rejected(batch):
                # Without a new file there would be no batch to report them in.
                layout.order_wake(f"aside-{batch}")

    def files(self, batch: int) -> list[str]:
        """URLs of the files that ``batch`` reads, if the source is one of files."""
        return self.watch.files(batch) if self.watch is not None else []

    def left_out(self) -> list[str]:
        """What the query has to do without."""
        return self.watch.left_out() if self.watch is not None else []

    def before_commit(self, batch: int, counts: Tally) -> pa.Table:
        """Rows of ``rejected`` for what ``batch`` does without, counted. Raises SkybandError SKY-E301 if a piece of it is gone,

        and as ``by_arrow.look``.
        """
        if self.watch is None:
            return rejects.SCHEMA.empty_table()
        look(self.plan, self.job, self.watch.files(batch))
        self._tell(self.watch.before_commit(batch))
        rows = self.watch.rejected(batch)
        counts[ROWS_IN] += len(rows)
        if rows:
            counts[BAD_FILE] += len(rows)
        nulls = pa.nulls(len(rows), rejects.SCHEMA.field("event_time").type)
        columns = [pa.array(c, pa.string()) for c in ([BAD_FILE] * len(rows), [t for _, t in rows], [o for o, _ in rows])]
        return pa.table([*columns, nulls], schema=rejects.SCHEMA)

    def set_aside(self, said: str, batch: int | None) -> bool:
        """Whether Spark, which failed with ``said`` in ``batch``, can go on without pieces that are now set aside.

        Not if a table has rows of the batch already: then it was read before, and has to be repeated with the same rows.
        """
        if self.watch is None or not self.reject or batch is None or batch in self.sink.committed.values():
            return False
        warnings = self.watch.set_aside(self.spark, said, batch)
        self._tell(warnings)
        return bool(warnings)

    def _tell(self, warnings: list[str]) -> None:
        for text in warnings:
            self.warn(text)
