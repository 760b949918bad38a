"""Run the batches of a job in this process: find what is new, plan a batch, run it, commit it, mark it done.

A batch takes the files and the rows of the control source that its plan in the checkpoint names, with the watermark of the batches before
it, as Spark's streaming plans it: so all tables get the same rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.plain_json import mapping
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.sources.files.arrow import spark_starts_for
from skyband.framework.sources.files.bad_files import named_in
from skyband.framework.sources.files.watch import FileWatch
from skyband.framework.sources.logs import Taken, local_path, next_watermark, offset, taken, unusable, watermark
from skyband.framework.sources.text.line_limit import too_large
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.bucket.bucket_states import States
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.checkpoint import CONTROL
from skyband.framework.streaming.job.clocks import recorded
from skyband.framework.streaming.job.layout import cache_key, token_key
from skyband.framework.streaming.local.inputs import FileLog, source_of, stamped
from skyband.framework.streaming.local.logs import Logs
from skyband.framework.streaming.local.tasks import Blocks, ControlRow, Input, LocalTasks
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.run.commit import CommitBatch
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource, RunContext
from skyband.framework.streaming.run.results import GateSchedule
from skyband.framework.streaming.run.states import COLLECT, collect_states
from skyband.framework.streaming.spark.stop_signal import STOP

_LOOK: Final = 0.05
"""Seconds between looks for new input where the trigger asks for no interval, and for signals while it waits."""


class _ReadingFailed(Exception):
    """Raised where Spark cannot read files of a batch; ``said``: what it raised."""

    def __init__(self, said: Exception) -> None:
        super().__init__(str(said))
        self.said = said


class _Planned(NamedTuple):
    """A batch in the log of plans. ``control``: the last number of the log of the control source that it takes, -1: none."""

    number: int
    watermark_ms: int
    control: int


class LocalStream:
    """Runs batches as ``Batches`` says. ``commit`` gets each; ``gate`` looks at the tables between two of a continuous run."""

    def __init__(self, context: RunContext, opened: OpenedJob, source: OpenedSource, commit: CommitBatch, gate: GateSchedule) -> None:
        self._context, self._opened, self._source = context, opened, source
        self._commit, self._gate = commit, gate
        layout, plan, job = context.layout, opened.plan, opened.job
        self._checkpoint = layout.checkpoint
        self._logs = Logs(self._checkpoint)
        config = HostConfig.of(plan, (), cache_key(layout, job), cores=os.cpu_count() or 1, token_key=token_key(layout, job))
        self._config = replace(config, recorded=recorded(layout))
        self._input, self._control = source_of(opened, source, self._logs), FileLog(self._logs, CONTROL)
        read = self._input
        self._tasks = LocalTasks(self._config, read.reader, read.origin, StateFiles(layout.state), self._by_spark, source.lookups)
        self._at = self._logs.last("offsets"), self._logs.last("commits")
        """The last batches planned and done: nobody else writes these logs while the run is active."""
        self._phase = ""
        self._noted = False
        """Whether a warning has said that Spark reads files."""

    def run(self, once: bool, phase: str) -> bool:
        """See ``Batches.run``. Batches of a backlog that needs caps come first."""
        self._phase = phase
        self._context.phase(phase)
        job, layout = self._opened.job, self._context.layout
        finishes = tuple((w, f) for w, f in job.finishes)
        self._tasks.config = replace(self._config, finishes=finishes, together=once)
        with raising_system_failures(layout.root):
            while self._source.backlog.begin():
                if not self._batches(once=True):
                    return False
                if not self._source.backlog.done() and once:
                    return True
            return self._batches(once)

    def _batches(self, once: bool) -> bool:
        """Run batches as ``run`` does, with the caps that the backlog has now. Return False if a signal stopped it."""
        ran = 0
        with STOP.heeded():
            present = self._unread() if once else ([], [])
            while STOP.signal is None:
                began = time.monotonic()
                if not once:
                    if self._context.boundary():
                        break
                    present = self._unread()
                planned, present = self._next(*present)
                if planned is not None:
                    self._run(planned)
                    ran += 1
                    if ran % COLLECT == 0:
                        self._collect()
                elif once:
                    break
                if not once:
                    self._wait(began, idle=planned is None)
        if ran:
            self._collect()
        return STOP.signal is None

    def _next(self, files: list[Any], control: list[Taken]) -> tuple[_Planned | None, tuple[list[Any], list[Taken]]]:
        """Return the next batch, planned durably, and the input that is left; None if there is nothing to do.

        A batch that is planned and not done is repeated. ``files``, ``control``: what no batch has taken.
        """
        planned, done = self._at
        if (self._logs.last("offsets"), self._logs.last("commits")) != self._at:
            raise unusable(self._checkpoint, "its logs have changed while this run was active: was it restored meanwhile?")
        if planned > done:
            return self._planned(planned), (files, control)
        position = self._input.take(files, planned)
        if self._control.take(control, planned):
            control = []
        failpoint("local.taken")
        if position is None and not self._control.has_more(planned):
            return None, (files, control)
        now = max(watermark(self._checkpoint), next_watermark(self._checkpoint))
        self._logs.plan(planned + 1, now, self._input.same(planned) if position is None else position, self._control.last)
        self._at = planned + 1, done
        failpoint("local.planned")
        return self._planned(planned + 1), (files, control)

    def _planned(self, number: int) -> _Planned:
        return _Planned(number, watermark(self._checkpoint), offset(self._checkpoint, number, CONTROL))

    def _run(self, planned: _Planned) -> None:
        """Run a batch, and mark it done. Files that cannot be read are set aside if the spec allows it; the batch is then repeated."""
        try:
            self._commit(partial(self._work, planned), planned.number)
        except _ReadingFailed as e:
            if STOP.signal is not None:
                # A terminal's Ctrl-C reaches Spark, too: the next run repeats the batch.
                return
            # It loads Spark.
            from skyband.framework.streaming.run.spark_errors import error_of

            if not self._source.files.set_aside(self._context.spark, str(e.said), planned.number):
                raise error_of(e.said, self._opened.plan, self._opened.job, self._checkpoint) from e.said
            return
        except RuntimeError as e:
            # Files that are too large, which the spec allows to set aside (``FileWatch.before_batch``).
            large = {url: why for url in named_in(str(e)) if (why := self._too_large(url)) is not None}
            watch = self._source.files.watch
            if not large or not isinstance(watch, FileWatch) or planned.number in self._opened.sink.committed.values():
                raise
            for text in watch.leave_out(large, planned.number):
                self._context.warn(text)
            return
        self._logs.done(planned.number, self._tasks.reached_ms)
        self._at = planned.number, planned.number
        failpoint("local.done")
        if self._gate.batch_done(planned.number):
            self._context.phase(self._phase)

    def _work(self, planned: _Planned, clock: int | None, newest: Mapping[str, int], states: States | None) -> Iterable[Block]:
        """See ``commit.Tasks``."""
        rows = [_control_row(t) for t in self._of(CONTROL, planned.number, planned.control)]
        batch = Input(self._input.urls(planned.number), rows, planned.watermark_ms, clock, self._source.backlog.capped)
        # The caller times the tasks: they are over when this returns.
        return list(self._tasks.run(batch, states))

    def _of(self, source: int, batch: int, upto: int) -> list[Taken]:
        after = offset(self._checkpoint, batch - 1, source)
        return [] if upto <= after else [t for t in taken(self._checkpoint / "sources" / str(source), after) if t.number <= upto]

    def _by_spark(self, files: Mapping[str, str], clock: int | None, caps: WatermarkCaps | None) -> Blocks:
        """See ``OddFiles``: Spark, which starts for it, reads them.

        Raises SkybandError SKY-E301 if one of them is gone, _ReadingFailed if Spark cannot read one.
        """
        watch = self._source.files.watch
        if not isinstance(watch, FileWatch):
            url, why = next(iter(files.items()))
            said = f"the local engine cannot go on with this job: only Spark reads the file {local_path(url)}: {why}"
            raise SkybandError("SKY-E137", said, hint="run it with --engine spark, which goes on where this engine has stopped")
        watch.require(files)
        if not self._noted:
            self._noted = True
            self._context.warn(spark_starts_for(files))
        # It loads Spark.
        from skyband.framework.streaming.local.by_spark import packed_by_spark

        spark = self._context.spark
        try:
            return packed_by_spark(
                spark, self._opened.plan, self._opened.job, self._tasks.config, list(files), clock, caps, self._source.lookups
            )  # fmt: skip
        except SkybandError:
            raise
        except Exception as e:  # Spark raises many types
            raise _ReadingFailed(e) from e
        finally:
            self._context.phase(self._phase)

    def _too_large(self, url: str) -> str | None:
        path = local_path(url)
        return None if path is None else too_large(self._opened.plan.source, path)

    def _unread(self) -> tuple[list[Any], list[Taken]]:
        """Return what no batch has taken of the source and of the control source, in the order in which batches take it."""
        rows = [str(p) for p in self._context.layout.control.glob("*.json") if str(p) not in self._control.known]
        return self._input.unread(), stamped(rows)

    def _wait(self, began: float, idle: bool) -> None:
        """Wait for the next look for input, as the spec's trigger says. A signal or a boundary ends the wait."""
        seconds, looked = (self._opened.plan.trigger_micros or 0) / 1e6, time.monotonic() - began
        # A look at many files takes long: where no interval is asked for, at most a tenth of the time goes into looks.
        until = began + max(seconds, max(_LOOK, 10 * looked) if idle and not seconds else 0.0)
        while STOP.signal is None and (left := until - time.monotonic()) > 0 and not self._context.boundary():
            time.sleep(min(left, _LOOK))

    def _collect(self) -> None:
        collect_states(self._context.layout, self._opened.sink, self._opened.job, self._commit.states, self._context.warn)


def _control_row(file: Taken) -> ControlRow:
    path = local_path(file.url)
    try:
        said = mapping(Path(str(path)).read_text())
        at = datetime.fromisoformat(said["at"])
        return ControlRow(round(at.timestamp() * 1000), said.get("flush") is True)
    except (OSError, ValueError, KeyError, TypeError) as e:
        directory = Path(str(path)).parent
        raise unusable(directory.with_name("checkpoint"), f"{Path(str(path)).name} of the control source cannot be read") from e
