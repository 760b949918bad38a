"""Write the table ``job_runs``: a row for every run of a job, however it ended. The next run records one that was killed.

During a run its data are in ``_skyband/run.json``. At its end the results are added to the file (a signal handler does no more), and then
it becomes a row of the table. A later holder of the job's lock makes a row of a file that it finds; without an end, that run was killed.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
from pydantic import AfterValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from skyband.framework.base.table_names import JOB_RUNS
from skyband.framework.storage import delta_read
from skyband.framework.storage.records import Record, Text
from skyband.framework.storage.sinks import require_readable
from skyband.framework.streaming.job.layout import RUNNING, Layout
from skyband.framework.streaming.spark.scratch import alive
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import fixed_schema, job_runs_table
from skyband.framework.tables.writing.driver_writer import DriverWriter

KILLED: Final = "killed"
GOING_ON: Final = "running"
_TIMES: Final = ("started_at", "ended_at")
SHOWN: Final = (
    "run_id", "command", "started_at", "ended_at", "status", "error_code", "batches", "rows_in", "rejected", "changes", "spec_hash",
    "skyband_version", "run_by", "host_name",
)  # fmt: skip
"""Columns that ``skyband history`` shows; tables of earlier versions have them too."""


@with_config(ConfigDict(strict=True, extra="allow"))
class _Mark(TypedDict):
    """The required fields of a run; further fields must have the table's types."""

    run_id: Annotated[int, Field(ge=1, lt=2**62)]
    process_id: Annotated[int, Field(ge=0, lt=2**31)]
    host_name: Text
    started_at: Annotated[str, AfterValidator(lambda text: text if datetime.fromisoformat(text).tzinfo else _no_zone())]


def _no_zone() -> str:
    raise ValueError("an instant without a time zone")


_MARK: Final = Record[Any](
    _Mark, "{path}, the mark of a run, cannot be read: {why}", "remove it: that run is then not in table job_runs", "SKY-E400", None
)


class RunRecord:
    """The record of one run. The caller holds the job's lock."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._row: dict[str, Any] | None = None

    def begin(self, command: str, path: str) -> None:
        """Record the run before, if it was killed, and the start of this one; once. ``path``: the spec's file.

        Raises SkybandError, or OSError, if that cannot be written: then nothing is recorded of this run.
        """
        if self._row is not None:
            return
        settle(self._layout)
        writer = DriverWriter(self._layout.root)
        writer.ensure(job_runs_table())
        row = {
            "run_id": (writer.version(JOB_RUNS, JOB_RUNS) or 0) + 1, "command": command, "started_at": _now(), "spec_hash": spec_hash(path),
            "skyband_version": _version("skyband"), "spark_version": _version("pyspark"), "run_by": _user(),
            "host_name": socket.gethostname(), "process_id": os.getpid(),
        }  # fmt: skip
        _MARK.write(self._layout.home / RUNNING, row)
        self._row = row

    def mark(self, ended: Mapping[str, Any]) -> None:
        """Note the end. Standard library only, because a signal handler calls it."""
        if self._row is not None:
            _MARK.write(self._layout.home / RUNNING, {**self._row, "ended_at": _now(), **ended})
            self._row = None

    def end(self, ended: Mapping[str, Any]) -> None:
        """Add the row of the ended run to the table. Raise SkybandError or OSError; then the next run adds the row."""
        if self._row is not None:
            self.mark(ended)
            settle(self._layout)


def settle(layout: Layout) -> None:
    """Make a row of the file of an earlier run, if there is one; repeating it adds no second row. The caller holds the job's lock."""
    said = _said(layout)
    if said is None:
        return
    row = _row(said, KILLED)
    writer = DriverWriter(layout.root)
    writer.ensure(job_runs_table())
    writer.append(JOB_RUNS, _table(row), JOB_RUNS, int(row["run_id"]))
    (layout.home / RUNNING).unlink()


def history(layout: Layout, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the newest runs, newest first, with one that is active or was killed since. O(runs). Takes no lock."""
    require_readable(layout.root)
    known: list[dict[str, Any]] = []
    if delta_read.exists(layout.root, JOB_RUNS):
        table = delta_read.open_table(layout.root, JOB_RUNS)
        need_columns(table, JOB_RUNS, fixed_schema("job_runs"), SHOWN)
        known = delta_read.read(table).to_pylist()
    said = _said(layout)
    if said is not None and said["run_id"] not in {r["run_id"] for r in known}:
        row = _row(said, GOING_ON if _alive(said) else KILLED)
        known.append({n: row.get(n) for n in fixed_schema("job_runs").names})
    known.sort(key=lambda r: -int(r["run_id"]))
    return known[:limit]


def spec_hash(path: str) -> str | None:
    """Return the SHA-256 of the file's bytes, as ``sha256sum`` prints it; None if it cannot be read."""
    with suppress(OSError):
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return None


def _table(row: Mapping[str, Any]) -> pa.Table:
    schema = fixed_schema("job_runs")
    return pa.Table.from_pylist([{n: row.get(n) for n in schema.names}], schema)


def _row(said: Mapping[str, Any], without_end: str) -> dict[str, Any]:
    times = {n: datetime.fromisoformat(said[n]) for n in _TIMES if said.get(n)}
    return {"status": without_end, **said, **times}


def _said(layout: Layout) -> dict[str, Any] | None:
    try:
        said: dict[str, Any] | None = _MARK.read(layout.home / RUNNING)
        if said is None:
            return None
        _table(_row(said, KILLED))
        return dict(said)
    except (ValueError, OverflowError, pa.ArrowException) as e:
        raise _MARK.error(layout.home / RUNNING, str(e)[:200]) from e


def _alive(said: Mapping[str, Any]) -> bool:
    """Return True if the run is still active; a guess if it is on another machine."""
    return said["host_name"] != socket.gethostname() or alive(int(said["process_id"]))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def _user() -> str | None:
    """Return the user's name, or the user id if it has none (in containers)."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
