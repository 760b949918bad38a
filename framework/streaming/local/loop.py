"""Run the batches of a job in this process: find what is new, plan a batch, run it, commit it, mark it done.

A batch takes the files and the rows of the control source that its plan in the checkpoint names, with the watermark of the batches before
it, as Spark's streaming plans it: so all tables get the same rows.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.plain_json import mapping, number
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.sources.files.backlog import batch_bytes
from skyband.framework.sources.files.bad_files import named_in
from skyband.framework.sources.files.listing import listing, marked
from skyband.framework.sources.files.watch import FileWatch
from skyband.framework.sources.logs import Taken, file_url, local_path, next_watermark, offset, taken, unusable, watermark
from skyband.framework.sources.text.line_limit import too_large
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.bucket.bucket_states import States
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.arrow_files import readable
from skyband.framework.streaming.job.checkpoint import CONTROL
from skyband.framework.streaming.job.clocks import recorded
from skyband.framework.streaming.job.filling import filling
from skyband.framework.streaming.job.layout import cache_key, token_key
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
_NO_FILE: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
"""What the system says of a file that is gone by now, or of a link that leads nowhere."""
_RIGHTS: Final = "give the user of the job the right to read it, then run again: nothing that was committed is lost"


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


@dataclass(slots=True)
class _Log:
    """A log of files: the paths in it, and its last number."""

    known: set[str | None]
    last: int


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
        self._tasks = LocalTasks(self._config, readable(plan, job), StateFiles(layout.state), self._by_spark, source.lookups)
        self._taken = {source: self._read_log(source) for source in (0, CONTROL)}
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
        self._tasks.config = replace(self._config, finishes=finishes, together=once, filling=filling(layout, job))
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

    def _next(self, files: list[Taken], control: list[Taken]) -> tuple[_Planned | None, tuple[list[Taken], list[Taken]]]:
        """Return the next batch, planned durably, and the input that is left; None if there is nothing to do.

        A batch that is planned and not done is repeated. ``files``, ``control``: what no batch has taken.
        """
        planned, done = self._at
        if (self._logs.last("offsets"), self._logs.last("commits")) != self._at:
            raise unusable(self._checkpoint, "its logs have changed while this run was active: was it restored meanwhile?")
        if planned > done:
            return self._planned(planned), (files, control)
        taken_now = self._cut(files)
        last = [offset(self._checkpoint, planned, source) for source in (0, CONTROL)]
        for source, found, left in ((0, taken_now, files), (CONTROL, list(control), control)):
            log = self._taken[source]
            # Numbers above those of the last batch: a run ended between both logs.
            if log.last <= last[source] and found:
                log.last = self._logs.take(source, found, log.last)
                log.known |= {local_path(t.url) for t in found}
                del left[: len(found)]
        failpoint("local.taken")
        new = any(self._taken[source].last > last[source] for source in (0, CONTROL))
        if not new:
            return None, (files, control)
        now = max(watermark(self._checkpoint), next_watermark(self._checkpoint))
        self._logs.plan(planned + 1, now, self._taken[0].last, self._taken[CONTROL].last)
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
        urls = self._source.files.files(planned.number)
        batch = Input(urls, rows, planned.watermark_ms, clock, self._source.backlog.capped)
        # The caller times the tasks: they are over when this returns.
        return list(self._tasks.run(batch, states))

    def _of(self, source: int, batch: int, upto: int) -> list[Taken]:
        after = offset(self._checkpoint, batch - 1, source)
        return [] if upto <= after else [t for t in taken(self._checkpoint / "sources" / str(source), after) if t.number <= upto]

    def _by_spark(self, files: Mapping[str, str], clock: int | None, caps: WatermarkCaps | None) -> Blocks:
        """See ``OddFiles``: Spark, which starts for it, reads them.

        Raises SkybandError SKY-E301 if one of them is gone, _ReadingFailed if Spark cannot read one.
        """
        if isinstance(watch := self._source.files.watch, FileWatch):
            watch.require(files)
        if not self._noted:
            self._noted = True
            (url, why), more = next(iter(files.items())), len(files) - 1
            others = f" and {counted(more, 'other file')}" if more else ""
            self._context.warn(f"{os.path.basename(str(local_path(url)))}{others} can only be read by Spark, which starts for it: {why}")
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

    def _unread(self) -> tuple[list[Taken], list[Taken]]:
        """Return the files, and the rows of the control source, that no batch has taken, in the order in which batches take them."""
        found = listing(self._opened.plan.source, _not_listed)
        watch = self._source.files.watch
        assert isinstance(watch, FileWatch)
        aside = {local_path(u) for u in watch.ledger.aside}
        paths = [] if found is None else [p for p in found.files if p not in self._taken[0].known and p not in aside]
        odd = {p for p in paths if marked(p)}
        if odd and self._opened.plan.source.on_bad_file == "stop":
            watch.require_readable_names(sorted(odd))
        # The start of the next run sets them aside, as Spark would read others by such a name.
        paths = [p for p in paths if p not in odd]
        rows = [str(p) for p in self._context.layout.control.glob("*.json") if str(p) not in self._taken[CONTROL].known]
        return _stamped(paths), _stamped(rows)

    def _cut(self, files: list[Taken]) -> list[Taken]:
        """Return the first of ``files``, as many as a batch takes, at least one. Those among them that are gone by now are removed."""
        source, at = self._opened.plan.source, 0
        most, left = source.max_files_per_batch, batch_bytes(source)
        while at < (len(files) if most is None else min(most, len(files))):
            try:
                left -= os.path.getsize(str(local_path(files[at].url)))
            except OSError:
                del files[at]
                continue
            if most is None and at and left < 0:
                break
            at += 1
        return files[:at]

    def _wait(self, began: float, idle: bool) -> None:
        """Wait for the next look for input, as the spec's trigger says. A signal or a boundary ends the wait."""
        seconds, looked = (self._opened.plan.trigger_micros or 0) / 1e6, time.monotonic() - began
        # A look at many files takes long: where no interval is asked for, at most a tenth of the time goes into looks.
        until = began + max(seconds, max(_LOOK, 10 * looked) if idle and not seconds else 0.0)
        while STOP.signal is None and (left := until - time.monotonic()) > 0 and not self._context.boundary():
            time.sleep(min(left, _LOOK))

    def _read_log(self, source: int) -> _Log:
        log = self._checkpoint / "sources" / str(source)
        numbers = (number(p.name.partition(".")[0]) for p in log.glob("[0-9]*"))
        # The last entry may name no file any more (``log_pruning``).
        return _Log({local_path(t.url) for t in taken(log)}, max((n for n in numbers if n is not None), default=-1))

    def _collect(self) -> None:
        collect_states(self._context.layout, self._opened.sink, self._commit.states, self._context.warn)


def _stamped(paths: Sequence[str]) -> list[Taken]:
    """Return the files in the order of their times of modification; one that is gone by now is left out."""
    found = []
    for path in paths:
        try:
            found.append(Taken(file_url(path), os.stat(path).st_mtime_ns // 1_000_000, -1))
        except OSError as e:
            if e.errno not in _NO_FILE:
                raise SkybandError("SKY-E301", f"the file {path} cannot be read: {e.strerror}", hint=_RIGHTS) from e
    return sorted(found, key=lambda t: (t.modified_ms, t.url))


def _not_listed(e: OSError) -> None:
    """Raise SkybandError SKY-E301 for a directory of the source that is there and cannot be listed."""
    if e.errno not in _NO_FILE:
        raise SkybandError("SKY-E301", f"the directory {e.filename} cannot be read: {e.strerror}", hint=_RIGHTS) from e


def _control_row(file: Taken) -> ControlRow:
    path = local_path(file.url)
    try:
        said = mapping(Path(str(path)).read_text())
        at = datetime.fromisoformat(said["at"])
        return ControlRow(round(at.timestamp() * 1000), said.get("flush") is True)
    except (OSError, ValueError, KeyError, TypeError) as e:
        directory = Path(str(path)).parent
        raise unusable(directory.with_name("checkpoint"), f"{Path(str(path)).name} of the control source cannot be read") from e
