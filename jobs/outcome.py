"""The outcome of a run, as a JSON file for schedulers (``run --outcome``; fields in docs/reference/run-output.md). Standard library only.

Figures are summed in memory during the run, so that the file can be written at any end, also by a signal handler.
"""

from __future__ import annotations

import contextlib
import json
import os
import time as clock
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.receivers import Receivers
from skyband.framework.observe.observers import Observers
from skyband.framework.storage import durable
from skyband.framework.storage.outputs import output_file

FORMAT: Final = 1
"""Version of the file's format: increases when a field is removed or changes its meaning, not when one is added."""
STATUSES: Final = {0: "done", 1: "checks_failed", 2: "refused", 3: "failed", 4: "too_many_rejected"}
"""Status by exit code; all others are ``stopped``. A notification during a run has ``running``."""
CHECK_FIELDS: Final = ("table_name", "expectation", "arguments", "severity", "success", "observed", "rows_checked", "unexpected", "error")
"""Columns of table ``checks`` in the outcome of a check."""

Versions = Mapping[str, tuple[int, str] | None]
"""Table -> its Delta version and its id in Delta, which a table of the same name that replaces it does not have; None: there is none."""


class Outcome:
    """The outcome of one run. ``path``: the file, None for no file. ``receivers``: the receivers of a failed run's outcome.
    ``observers``: those that hear of the run while it happens.

    Unless there is one of these, or it is ``wanted``, nothing is looked at.
    """

    def __init__(self, path: str | None, wanted: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self._wanted = wanted or path is not None
        self.receivers = Receivers()
        self.observers = Observers()
        self.job: str | None = None
        self.batches: list[int] = []
        self.rows: Counter[str] = Counter({"in": 0, "filtered": 0, "accepted": 0})
        self.rejected: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self.pending: int | None = None
        self.use: Mapping[str, Any] = {"unusable": {}, "empty_columns": []}
        """What the run's rows were of use for: ``quality.unusable.Use.document``."""
        self.checks: Sequence[Mapping[str, Any]] = ()
        self.ending: Callable[[int], None] = lambda code: None
        """Called with the exit code at any end, also by a signal handler."""
        self._before: Versions = {}
        self._after: Versions | None = None
        self._versions: Callable[[], Versions] | None = None
        self._newest: Callable[[], int | None] = lambda: None
        self._last_batch: int | None = None
        self._began = clock.monotonic()
        self._started = datetime.now(UTC)

    @property
    def wanted(self) -> bool:
        """Return True if the outcome is needed."""
        return self._wanted or bool(self.receivers) or bool(self.observers)

    def begin(self) -> None:
        """Check the file as far as that can be done before the spec is read. SkybandError SKY-E201 and SKY-E202 (see ``outputs``)."""
        self._checked(())

    def place(self, places: Sequence[str | None], spec: str) -> None:
        """Check the file against source and sink of the job and its ``spec``, and take away what an earlier run left in it.

        SkybandError as ``begin``, SKY-E203 if its directory cannot be written.
        """
        self._checked(places, spec)
        if self.path is not None:
            try:
                made, fd = durable.create_temporary(self.path)
                os.close(fd)
                os.unlink(made)
                self.path.unlink(missing_ok=True)
            except OSError as e:
                raise SkybandError(
                    "SKY-E203", f"--outcome {self.path} cannot be written: {e.strerror}", "name a file in a directory"
                ) from e

    def _checked(self, places: Sequence[str | None], spec: str | None = None) -> None:
        """Check the file; a rejected file is not written at the end either."""
        path, self.path = self.path, None
        self.path = None if path is None else output_file(path, "--outcome", places, spec, own=_is_outcome)

    def watch(
        self, job: str, queries: Sequence[str], versions: Callable[[], Versions], newest: Callable[[], int | None] = lambda: None
    ) -> None:
        """Note the job and what ``versions`` says of its tables, now and when the run is over (``look``); ``newest``: its last batch."""
        self.job = job
        if self.wanted:
            self.changes.update(dict.fromkeys(queries, 0))
            self._versions, self._before, self._newest = versions, versions(), newest

    def add(self, number: int, rows: Mapping[str, int], rejected: Mapping[str, int], changes: Mapping[str, int], pending: int) -> None:
        """A batch is committed: rows ``in``, ``filtered``, ``accepted``; rejected ones by reason, changes by query; how many wait now."""
        self.batches.append(number)
        self.rows.update(rows)
        self.rejected.update(rejected)
        self.changes.update(changes)
        self.pending = pending

    def look(self, checks: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Note, at the end of the run, the tables' versions and what ``checks`` found."""
        # A table that cannot be read is what the run itself failed with.
        with contextlib.suppress(SkybandError):
            if self._versions is not None:
                self._after, self._last_batch = self._versions(), self._newest()
                self.checks = [{k: row[k] for k in CHECK_FIELDS} for row in checks()]

    def figures(self) -> dict[str, int | None]:
        """Return the figures of the run: its columns of table ``job_runs``."""
        numbers = sorted(self.batches)
        return {
            "batches": len(numbers),
            "first_batch_id": numbers[0] if numbers else None,
            "last_batch_id": numbers[-1] if numbers else None,
            "rows_in": self.rows["in"],
            "accepted": self.rows["accepted"],
            "rejected": self.rejected.total(),
            "changes": self.changes.total(),
        }

    def write(self, code: int, errors: Sequence[SkybandError]) -> None:
        """Write the file atomically. ``errors``: all reported ones. Raises OSError."""
        self.ending(code)
        if self.path is not None:
            durable.replace(self.path, json.dumps(self.document(code, errors), indent=1) + "\n")

    def notify(self, code: int | None, errors: Sequence[SkybandError]) -> list[SkybandError]:
        """Report a failed run to the receivers; return the failures of that. ``code``: None while it goes on, though its gate failed.

        A run that is done, or that a signal stopped, is not reported.
        """
        return self.receivers.tell(self.document(code, errors)) if code is None or STATUSES.get(code, "done") != "done" else []

    def tell_observers(self, code: int, errors: Sequence[SkybandError]) -> list[str]:
        """Tell observers that the run is over; return what to warn of (``Observers.ended``)."""
        return self.observers.ended(lambda: self.document(code, errors))

    def document(self, code: int | None, errors: Sequence[SkybandError]) -> dict[str, Any]:
        """Return the content of the file. ``errors``: all reported ones."""
        numbers = sorted(self.batches)
        return {
            "format": FORMAT,
            "job": self.job,
            "status": "running" if code is None else status_of(code),
            "exit_code": code,
            "started_at": self._started.isoformat(timespec="milliseconds"),
            "ended_at": None if code is None else datetime.now(UTC).isoformat(timespec="milliseconds"),
            "wall_seconds": round(clock.monotonic() - self._began, 3),
            "batches": {"count": len(numbers), "first": numbers[0] if numbers else None, "last": numbers[-1] if numbers else None},
            "rows": {
                **self.rows,
                "rejected": dict(sorted(self.rejected.items())),
                "pending": self.pending,
            },
            "changes": dict(self.changes),
            **self.use,
            "last_batch": self._last_batch,
            "tables": {name: self._span(name, state) for name, state in (self._after or {}).items()},
            "checks": list(self.checks),
            "errors": [e.plain() for e in errors],
        }

    def _span(self, name: str, state: tuple[int, str] | None) -> dict[str, Any]:
        """Return the versions of a table at the start and the end of the run. One that was replaced was not there before."""
        before = self._before.get(name)
        known = before is not None and state is not None and before[1] == state[1]
        return {
            "from": before[0] if before is not None and (known or state is None) else None,
            "to": None if state is None else state[0],
            "id": None if state is None else state[1],
        }


def _is_outcome(content: bytes) -> bool:
    """Return True if a file's content is empty or the outcome of an earlier run."""
    try:
        said = json.loads(content or b'{"format": 0, "exit_code": 0}')
    except ValueError:
        return False
    return isinstance(said, dict) and {"format", "exit_code"} <= set(said)


def status_of(code: int) -> str:
    """Return the status of an exit code."""
    return STATUSES.get(code, "stopped")
