"""Report progress: one line per micro-batch (on a terminal a line that changes in place), and a summary at the end."""

from __future__ import annotations

import contextlib
import threading
import time as clock
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import ACCEPTED, CHANGED, DELETED, PENDING, ROWS_IN, SENT, Tally
from skyband.framework.base.reasons import LATE
from skyband.framework.base.units import format_duration, format_instant, format_span
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan
from skyband.framework.quality.rejections import LOUD, RunRows
from skyband.framework.quality.unusable import Use
from skyband.framework.sources.files.progress import FileProgress
from skyband.framework.spark_adapter.failures import log_file
from skyband.framework.streaming.bucket.kernels import Compilations, compiled_since, end_record
from skyband.framework.streaming.rows.instants.source_clocks import holding_back
from skyband.framework.streaming.rows.instants.source_times import newest_by_source
from skyband.operators.kernel_files import Compiled, begin_record

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

_LOOK: Final = 1.0
"""Seconds between checks for kernels that are being compiled."""


class Progress:
    """Reports every batch to ``lines`` and sums up the run. ``quiet``: only warnings. ``began``: when the command started (monotonic)."""

    def __init__(self, lines: Lines, quiet: bool = False, plan: Plan | None = None, began: float | None = None) -> None:
        self.lines = lines
        self.quiet = quiet
        self.plan = plan
        self.began = clock.monotonic() if began is None else began
        self.batches = self.rows = self.late = self.rejected = self.changes = 0
        self.seconds = 0.0
        self.read_at: float | None = None
        self.share: FileProgress | None = None
        self._first: int | None = None
        self._last: Batch | None = None
        self._decided = 0
        self.warned = Tally()
        self._objects = self._sent = 0
        self._jumped = 0
        self._unusable, self._requested, self._nulls = Tally(), Tally(), Tally()
        self._phase = ""
        self._compiling: tuple[Compiled, ...] = ()
        self._over = threading.Event()

    def show(self) -> None:
        """Show the current work until ``close``."""
        if self.quiet:
            return
        self.lines.show(self._now if self.lines.live else self._at_work)
        begin_record()
        threading.Thread(target=self._watch_kernels, args=(clock.time(),), daemon=True).start()

    def phase(self, text: str) -> None:
        """Set the description of the current work."""
        self._phase = text
        if self.read_at is None and text.startswith(("reading", "waiting")):
            self.read_at = clock.monotonic()

    def __call__(self, batch: Batch) -> None:
        """Report one batch."""
        rows, late, changes = batch.get(ROWS_IN), batch.get(LATE), batch.get(CHANGED)
        rejected = sum(batch.rejected().values())
        self.batches += 1
        self.rows += rows
        self.late += late
        self.rejected += rejected
        self.changes += changes
        self.seconds += batch.seconds
        self._first = batch.number if self._first is None else min(self._first, batch.number)
        self._last = batch
        self._decided += rows - batch.get(PENDING)
        for rule, n in batch.counts.warned().items():
            self.warned[rule] += n
        self._objects += batch.get(ACCEPTED) - batch.get(DELETED)
        self._sent += batch.get(SENT)
        counts = batch.counts
        for total, more in ((self._unusable, counts.unusable()), (self._requested, counts.requested()), (self._nulls, counts.nulls())):
            for name, n in more.items():
                total[name] += n
        figures = {"batch": batch.number, "rows": rows, "late": late, "rejected": rejected}
        if not self.quiet:
            all_figures = {**figures, "changes": changes, "seconds": round(batch.seconds, 3)}
            self.lines.batch(f"batch {batch.number}: {_describe(batch)}" if _describe(batch) else None, all_figures)
        if self.share is not None:
            with contextlib.suppress(SkybandError, OSError):
                self.share.look()
        if rows and late > LOUD * rows:
            text = (
                f"WARNING: {100 * late / rows:.1f} % of the rows of this batch came LATE and are in table `rejected` "
                f"({late:,} of {rows:,}); raise source.event_time.watermark if they belong in the results"
            )
            self.lines.tell("warning", "late", text, **figures)
        self._warn_of_jump(batch)

    def _warn_of_jump(self, batch: Batch) -> None:
        """Warn of a jump of the watermark, if it is the longest of the run so far."""
        jump = batch.jump
        if jump is None or self.plan is None or jump.micros <= self._jumped or (window := self.plan.window.micros) is None:
            return
        self._jumped = jump.micros
        text = (
            f"WARNING: the watermark jumped by {format_span(jump.micros)}, more than the window of {format_duration(window)}: no row is "
            f"dated between {format_instant(jump.before)} and {format_instant(jump.after)}. If the later time is wrong, rows that follow "
            "are LATE; source.event_time.max_jump stops a run before that"
        )
        self.lines.tell("warning", "jump", text, batch=batch.number, before=format_instant(jump.before), after=format_instant(jump.after))

    def run_rows(self) -> RunRows | None:
        """Return the rows that the run has read and decided; None if it had no batch."""
        if self._first is None or self._last is None:
            return None
        return RunRows(self._first, self._last.number, max(self.rows, self._decided), self.rejected, self.use())

    def use(self) -> Use:
        """Return how many rows the queries could use."""
        return Use(self._objects, self._unusable, self._requested, self._sent, self._nulls)

    def close(self) -> None:
        """Report the summary of the run."""
        self._over.set()
        self.lines.close()
        if self.quiet:
            return
        end_record()
        rate = f" ({self.rows / self.seconds:,.0f} rows/s)" if self.rows and self.seconds else ""
        wall = clock.monotonic() - self.began
        start = (self.read_at or clock.monotonic()) - self.began
        text = f"done: {counted(self.rows, 'row')}{rate}, {self.rejected:,} rejected, {counted(self.changes, 'change')} in {wall:.1f} s"
        text += f": {start:.1f} s to start, {self.seconds:.1f} s in {counted(self.batches, 'batch', 'batches')}"
        pending = self._last.pending if self._last is not None else 0
        log = log_file()
        text += f"; {_waiting(self._last, self.plan)}" if pending else ""
        text += f"\nSpark's log is {log}" if log is not None else ""
        self.lines.tell(
            "info", "done", text, batches=self.batches, rows=self.rows, late=self.late, rejected=self.rejected, changes=self.changes,
            seconds=round(self.seconds, 3), wall=round(wall, 3), pending=pending, log=None if log is None else str(log),
        )  # fmt: skip

    def _at_work(self) -> str:
        """Return the line for output that cannot change in place; "" while a continuous run waits for rows."""
        return "" if self._phase.startswith("waiting") else self._line()

    def _now(self) -> str:
        """Return the line that changes in place."""
        return f"{self._line()} · {clock.monotonic() - self.began:.0f} s"

    def _line(self) -> str:
        now = clock.monotonic()
        parts = [self._phase]
        if self._compiling:
            parts.append(f"compiling kernels, once on this machine: {_named(self._compiling)}")
        if self.share is not None and self.share.of:
            parts.append(f"{self.share.taken:,} of {counted(self.share.of, 'file')} ({100 * (self.share.taken or 0) // self.share.of} %)")
        if self._last is not None and self.read_at is not None:
            parts.append(f"{counted(self.rows, 'row')}, {self.rows / max(now - self.read_at, 0.001):,.0f} rows/s")
            if self._last.frontier is not None:
                parts.append(f"watermark {format_instant(self._last.frontier)}")
            parts.append(f"{self._last.pending:,} waiting")
        return " · ".join(parts)

    def _watch_kernels(self, since: float) -> None:
        """Watch for kernels that are being compiled. If no line can change in place, report when that begins and when it has ended."""
        reported, announced = Compilations(0, 0.0, ()), False
        while not self._over.wait(_LOOK):
            found = compiled_since(since)
            self._compiling = found.running
            if not announced and found.running:
                announced = True
                self._report_kernels(f"compiling kernels, once on this machine: {_named(found.running)}")
            elif announced and found.finished > reported.finished and not found.running:
                kernels, seconds = found.finished - reported.finished, found.seconds - reported.seconds
                self._report_kernels(f"compiled {counted(kernels, 'kernel')} in {seconds:.1f} s", round(seconds, 3))
                reported, announced = found, False

    def _report_kernels(self, text: str, seconds: float | None = None) -> None:
        if not self.lines.live:
            self.lines.tell("info", "compiling", text, **({} if seconds is None else {"seconds": seconds}))


def _named(kernels: Iterable[Compiled]) -> str:
    """Name kernels by their operator and function, and say for how many seconds they have been compiled."""
    return ", ".join(f"{_short(kernel.kernel)} ({kernel.seconds:.0f} s)" for kernel in kernels)


def _short(kernel: str) -> str:
    """Return the name of a kernel for people: its operator and function."""
    module, _, function = kernel.rpartition(".")
    if module.startswith("skyband_expression"):
        return "a scoring expression"
    return f"{module.removeprefix('skyband.operators.').partition('.')[0]}.{function}"


def _describe(batch: Batch) -> str:
    """Describe what a batch did; "" if it did nothing (Spark runs such batches to move its watermark)."""
    rows, late, changes, rejected = batch.get(ROWS_IN), batch.get(LATE), batch.get(CHANGED), sum(batch.rejected().values())
    if rows:
        rate = f"{rows / batch.seconds:,.0f} rows/s" if batch.seconds else ""
        return f"{counted(rows, 'row')}, {rate}, late {late:,}, rejected {rejected:,}, changes {changes:,}, {batch.seconds:.1f} s"
    decided = -batch.get(PENDING)
    if not (decided or changes or rejected):
        return ""
    return f"{counted(decided, 'row')} that waited, rejected {rejected:,}, changes {changes:,}, {batch.seconds:.1f} s"


def _waiting(batch: Batch | None, plan: Plan | None) -> str:
    """Describe how many rows wait, and for what; of several sources for those of the source that is behind the others."""
    if batch is None:
        return ""
    many = f"{counted(batch.pending, 'row')} {agree(batch.pending, 'waits', 'wait')}"
    if batch.newest is None or plan is None:
        return f"{many} behind the watermark: --finish processes them"
    sources = plan.intake.sources
    newest_of = newest_by_source(sources, batch.counts)
    if (behind := holding_back(sources, newest_of)) is not None:
        came = newest_of.get(behind.name)
        last = "which has had no row yet" if came is None else f"whose newest row's time is {format_instant(came)}"
        if behind.idle_micros is None:
            let = "its next rows or --finish let them count (`idle_after` of that source limits how long others wait)"
        else:
            let = (
                f"its next rows, later rows of the others (`idle_after`: {format_duration(behind.idle_micros)}) or --finish let them count"
            )
        return f"{many} for source {behind.name}, {last}: {let}"
    newest = f"{format_instant(batch.newest)}, the newest row's time"
    delay = plan.intake.delay_micros
    after = f"less than {format_duration(delay)} before {newest}" if delay else f"at {newest}"
    return f"{many}, {after}: earlier ones may still come; the next rows or --finish let them count"
