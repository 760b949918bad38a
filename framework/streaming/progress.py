"""What a user sees while a run works: a line a batch, loud when rows are lost to lateness."""

from __future__ import annotations

import sys
from typing import TextIO

from skyband.framework.messages import CHANGED, ROWS_IN
from skyband.framework.reasons import LATE
from skyband.framework.streaming.runner import Batch

LOUD = 0.01


class Progress:
    """Prints a line a batch to ``out`` (stderr by default) and adds up the run."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stderr
        self.rows = self.late = self.rejected = self.changes = 0
        self.seconds = 0.0

    def __call__(self, batch: Batch) -> None:
        """The line of one batch."""
        rows, late = batch.get(ROWS_IN), batch.get(LATE)
        rejected = sum(batch.rejected().values())
        self.rows += rows
        self.late += late
        self.rejected += rejected
        self.changes += batch.get(CHANGED)
        self.seconds += batch.seconds
        rate = f"{rows / batch.seconds:,.0f} rows/s" if batch.seconds else ""
        print(
            f"batch {batch.number}: {rows:,} rows, {rate}, late {late:,}, rejected {rejected:,}, changes {batch.get(CHANGED):,}, "
            f"{batch.seconds:.1f} s",
            file=self.out,
            flush=True,
        )
        if rows and late > LOUD * rows:
            self._warn(late, rows, "this batch")

    def close(self) -> None:
        """The run's sum."""
        rate = f" ({self.rows / self.seconds:,.0f} rows/s)" if self.rows and self.seconds else ""
        print(
            f"done: {self.rows:,} rows{rate}, {self.rejected:,} rejected, {self.changes:,} changes in {self.seconds:.1f} s",
            file=self.out,
            flush=True,
        )

    def _warn(self, late: int, rows: int, what: str) -> None:
        print(
            f"WARNING: {100 * late / rows:.1f} % of the rows of {what} came LATE and are in table `rejected` "
            f"({late:,} of {rows:,}); raise source.event_time.watermark if they belong in the results",
            file=self.out,
            flush=True,
        )
