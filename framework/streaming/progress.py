"""What is told while a run works: a line a batch, loud when rows are lost to lateness."""

from __future__ import annotations

from skyband.framework.lines import Lines
from skyband.framework.messages import CHANGED, ROWS_IN
from skyband.framework.reasons import LATE
from skyband.framework.streaming.runner import Batch

LOUD = 0.01


class Progress:
    """Tells ``lines`` of every batch and adds up the run; ``quiet``: of warnings only."""

    def __init__(self, lines: Lines, quiet: bool = False) -> None:
        self.lines = lines
        self.quiet = quiet
        self.batches = self.rows = self.late = self.rejected = self.changes = 0
        self.seconds = 0.0

    def __call__(self, batch: Batch) -> None:
        """The line of one batch."""
        rows, late, changes = batch.get(ROWS_IN), batch.get(LATE), batch.get(CHANGED)
        rejected = sum(batch.rejected().values())
        self.batches += 1
        self.rows += rows
        self.late += late
        self.rejected += rejected
        self.changes += changes
        self.seconds += batch.seconds
        rate = f"{rows / batch.seconds:,.0f} rows/s" if batch.seconds else ""
        figures = {"batch": batch.number, "rows": rows, "late": late, "rejected": rejected}
        if not self.quiet:
            text = f"batch {batch.number}: {rows:,} rows, {rate}, late {late:,}, rejected {rejected:,}, changes {changes:,}"
            self.lines.tell("info", "batch", f"{text}, {batch.seconds:.1f} s", **figures, changes=changes, seconds=round(batch.seconds, 3))
        if rows and late > LOUD * rows:
            text = (
                f"WARNING: {100 * late / rows:.1f} % of the rows of this batch came LATE and are in table `rejected` "
                f"({late:,} of {rows:,}); raise source.event_time.watermark if they belong in the results"
            )
            self.lines.tell("warning", "late", text, **figures)

    def close(self) -> None:
        """The run's sum."""
        if self.quiet:
            return
        rate = f" ({self.rows / self.seconds:,.0f} rows/s)" if self.rows and self.seconds else ""
        text = f"done: {self.rows:,} rows{rate}, {self.rejected:,} rejected, {self.changes:,} changes in {self.seconds:.1f} s"
        self.lines.tell(
            "info", "done", text, batches=self.batches, rows=self.rows, late=self.late, rejected=self.rejected, changes=self.changes,
            seconds=round(self.seconds, 3),
        )  # fmt: skip
