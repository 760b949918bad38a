"""Report a job's status: whether it runs, its progress, its waiting files, its tables. Only reads: starts no JVM, holds no lock."""

from __future__ import annotations

import fcntl
import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import REASONS
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.listing import not_read
from skyband.framework.sources.files.progress import FileProgress
from skyband.framework.sources.logs import files_log_damage, last_batch, offset, unusable
from skyband.framework.sources.registry import source_format
from skyband.framework.storage import delta_read
from skyband.framework.storage.epochs import lock_holder
from skyband.framework.storage.location import Location, is_object
from skyband.framework.storage.sinks import require_readable
from skyband.framework.streaming.bucket.bucket_states import last_states
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.checkpoint import whole
from skyband.framework.streaming.job.consistency import advice, look, losses_text
from skyband.framework.streaming.job.generations import OLD, bytes_in
from skyband.framework.streaming.job.layout import NEXT, JobFile, Layout, changed_since, has_rows, torn
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import fixed_schema, tables

State = Literal["never run", "running", "rebuilding", "stopped", "stopped in a batch", "swap interrupted", "damaged"]
_RECORD_LOCK: Final = "hhqqi4x"
"""``struct flock`` of 64-bit Linux: type, whence, start, length, process."""


@dataclass(frozen=True, slots=True)
class TableState:
    """One table: its version, rows, data files and their bytes."""

    name: str
    version: int
    rows: int
    files: int
    bytes: int


@dataclass(slots=True)
class Status:
    """``process``: that of Spark that runs. Counts are those of the rows that ``runs`` still has (``run.keep``): ``since`` its oldest.

    ``waiting``: unprocessed files (None if unknown). ``unread``: files below the source's path
    that are never read, in words. ``bytes``: all below the sink;
    ``next_bytes`` and ``old_bytes``: of these, those of a generation that is being built (or was, when that was interrupted) and of the one
    before the last rebuild. ``alerts``: by alert, the messages that have not been sent, if there are any.
    ``wrong``: what the next run would say, and what to do about it. ``damaged``: the job file, the checkpoint or
    the tables are gone, in whole or in part. ``swap interrupted``: the next run, rebuild or maintain completes it.
    """

    job: str
    sink: str
    state: State
    process: int | None = None
    batch: int | None = None
    batch_time: datetime | None = None
    since: datetime | None = None
    frontier: datetime | None = None
    newest: datetime | None = None
    pending: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    waiting: int | None = None
    unread: str | None = None
    bytes: int = 0
    next_bytes: int = 0
    old_bytes: int = 0
    tables: list[TableState] = field(default_factory=list)
    alerts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def status_of(plan: Plan) -> Status:
    """Return the job's status. O(files of the sink and of the source, rows of ``runs``).

    SkybandError SKY-E303 and SKY-E307 if what is below the sink is no job's of this version, SKY-E518 for a link in it.
    """
    layout = Layout(plan.sink)
    found = Status(plan.job, str(layout.root), "never run", unread=not_read(plan.source))
    try:
        require_readable(layout.root)
    except SkybandError as e:
        if e.code != "SKY-E513":
            raise
        found.state, found.wrong = "swap interrupted", [_said(e)]
    job = layout.load()
    try:
        found.waiting = FileProgress(plan.source, layout.checkpoint).of
    except SkybandError as e:
        found.wrong.append(_said(e))
    if job is None or found.state == "swap interrupted":
        damage = None if found.state == "swap interrupted" else torn(layout, job, has_rows(layout))
        if damage is not None:
            found.state, found.wrong = "damaged", [_said(damage), *found.wrong]
        if found.state != "never run":
            _held(found, plan, layout)
        return found
    found.process = jvm_pid(layout)
    found.next_bytes, found.old_bytes = (bytes_in(layout.home / name) for name in (NEXT, OLD))
    rebuilding = jvm_pid(Layout(str(layout.next)))
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    found.state = "running" if found.process is not None else "stopped in a batch" if planned > done else "stopped"
    if rebuilding is not None:
        found.state, found.process = "rebuilding", rebuilding
    found.wrong += [f"the spec is not that of the last run: {d}" for d in changed_since(plan, layout)]
    if found.process is None:
        _look(found, plan, layout, job)
    _held(found, plan, layout)
    if plan.alerts and found.batch is not None:
        _alerts(found, plan, layout, job, found.batch)
    return found


def _alerts(found: Status, plan: Plan, layout: Layout, job: JobFile, last: int) -> None:
    """Add the messages of alerts that wait to be sent."""
    from skyband.framework.alerts.alerts import refused, waiting

    for name, status in refused(plan, layout).items():
        hint = "fix the channel or what it leads to; the next run tries again, a continuous one within an hour"
        found.wrong.append(f"alert {name}: its receiver has refused the last request with status {status}, for good: {hint}")
    try:
        found.alerts = waiting(plan, layout, job, last)
    except SkybandError as e:
        found.wrong.append(_said(e))


def _look(found: Status, plan: Plan, layout: Layout, job: JobFile) -> None:
    """Add missing parts of the checkpoint and the tables."""
    written = has_rows(layout)
    damage = torn(layout, job, written)
    if damage is None and written:
        try:
            whole(layout.checkpoint, layout.control, job.partitions, job.finishes, job.state_steps)
            if not job.spark_keeps:
                states = last_states(layout.root, job.new_states)
                StateFiles(layout.state).require({bucket: state.token for bucket, state in states.items()})
            log = layout.checkpoint / "sources" / "0"
            upto = offset(layout.checkpoint, last_batch(layout.checkpoint / "offsets"))
            gone = files_log_damage(log, upto) if source_format(plan.source.format).of_files else None
            damage = None if gone is None else unusable(layout.checkpoint, gone)
        except SkybandError as e:
            damage = e
    if damage is not None:
        found.state = "damaged"
        found.wrong.append(_said(damage))
    held = look(plan, layout, job)
    found.wrong += [held.ahead] if held.ahead else []
    found.wrong += [f"{losses_text(held.losses)}: {advice(layout, held.losses)}"] if held.losses else []


def _held(found: Status, plan: Plan, layout: Layout) -> None:
    """Add the contents of the tables."""
    found.bytes = bytes_in(layout.root)
    for spec in tables(plan):
        found.tables += _table(layout.root, spec.name)
    _runs(found, layout.root)


def _said(e: SkybandError) -> str:
    return f"{e.message}: {e.hint}" if e.hint else e.message


def jvm_pid(layout: Layout) -> int | None:
    """Return the process id of the JVM that works on this sink, None if there is none. Tests its lock without taking it.

    On object storage that of the run.
    """
    if is_object(layout.home):
        return lock_holder(layout.home / "lock")
    try:
        with (layout.home / "engine.lock").open("rb") as file:
            asked = struct.pack(_RECORD_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, process = struct.unpack(_RECORD_LOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return None if kind == fcntl.F_UNLCK else int(process)


def _table(root: Location, name: str) -> Iterator[TableState]:
    try:
        table = delta_read.open_table(root, name)
    except SkybandError:
        return
    files = pa.table(table.get_add_actions(flatten=True))
    # A table without statistics does not say how many rows it has.
    rows, size = (pc.sum(files[c]).as_py() or 0 if c in files.column_names else 0 for c in ("num_records", "size_bytes"))
    yield TableState(name, table.version(), rows, files.num_rows, size)


def _runs(found: Status, root: Location) -> None:
    """What the rows of ``runs`` say."""
    classes = [c.name for c in REASONS]
    counts = ["rows_in", "filtered", "accepted", "rejected", "changes"]
    if not delta_read.exists(root, "runs"):
        return
    needed = [*counts, *(f"rejected_{c}" for c in classes), "batch_id", "batch_time", "pending", "frontier", "newest"]
    try:
        table = delta_read.open_table(root, "runs")
        need_columns(table, "runs", fixed_schema("runs"), needed)
        rows = delta_read.read(table, needed)
    except SkybandError as e:
        found.wrong.append(_said(e))
        return
    if not rows.num_rows:
        return
    last = rows.sort_by("batch_id").slice(rows.num_rows - 1).to_pylist()[0]
    found.batch, found.batch_time, found.pending = last["batch_id"], last["batch_time"], last["pending"]
    found.frontier, found.newest = last["frontier"], last["newest"]
    found.since = pc.min(rows["batch_time"]).as_py()
    found.rows = {c: pc.sum(rows[c]).as_py() for c in counts}
    sums = Counter({c: pc.sum(rows[f"rejected_{c}"]).as_py() or 0 for c in classes})
    found.rejected = {reason: n for reason, n in sums.most_common() if n}
