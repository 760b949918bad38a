"""Derive the tables of results while a run goes on, and pass the tables of a continuous run to the gate."""

from __future__ import annotations

import time as clock

from skyband.framework.streaming.job.control import drop_flush, order_flush
from skyband.framework.streaming.run.batch import Totals
from skyband.framework.streaming.run.context import OpenedJob, RunContext
from skyband.framework.tables.results.derive import derive


class Results:
    """The tables of results, derived from the tables of changes up to the last committed batch."""

    def __init__(self, context: RunContext, opened: OpenedJob, totals: Totals) -> None:
        self._context = context
        self._sink = opened.sink
        self._totals = totals
        self._derived_at = clock.monotonic()
        self._ordered: int | None = None
        """The batch after which buckets were last ordered to flush."""

    def derive(self) -> None:
        """Derive the results now. Does nothing before the first batch."""
        if self._totals.last_batch >= 0:
            self._context.phase("making the tables of results")
            derive(self._sink, self._totals.last_batch, self._context.engine.spread)
        self._derived_at = clock.monotonic()

    def derive_if_due(self) -> None:
        """Derive the results if the interval of the run has passed since the last time, and ``ready``."""
        if clock.monotonic() - self._derived_at > self._context.derive_seconds and self.ready():
            self.derive()

    def ready(self) -> bool:
        """Return True if ``heads`` and skybands have the rows of the last batch. If not, order them: a later batch writes them.

        A query over the present input has listed the rows of the control source at its start. The query after it reads the order.
        """
        behind, last = self._totals.behind, self._totals.last_batch
        if behind and (self._ordered is None or last - behind > self._ordered):
            control = self._context.layout.control
            order_flush(control, last)
            if self._ordered is not None:
                # Buckets have flushed since, and that batch is complete.
                drop_flush(control, self._ordered)
            self._ordered = last
        return not behind


class GateSchedule:
    """Passes the tables to the gate ``every`` so many batches, counted from ``last_batch``; never if ``every`` is None."""

    def __init__(self, context: RunContext, opened: OpenedJob, results: Results, every: int | None, last_batch: int) -> None:
        self._context = context
        self._sink = opened.sink
        self._results = results
        self._every = every
        self._next = None if every is None else last_batch + every

    def batch_done(self, batch_id: int) -> bool:
        """Pass the tables to the gate if that is due after ``batch_id``. Return whether it was."""
        if self._every is None or self._next is None or batch_id < self._next or not self._results.ready():
            return False
        self._results.derive()
        self._context.phase("checking the tables")
        self._context.gate(self._sink)
        self._next = batch_id + self._every
        return True
