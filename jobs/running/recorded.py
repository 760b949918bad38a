"""Record a run in table ``job_runs``, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.spark.failures import exit_code, failure
from skyband.framework.streaming.spark.stop_signal import SIGNALLED, STOP
from skyband.jobs.outcome import status_of

if TYPE_CHECKING:
    from skyband.framework.streaming.job.layout import Layout
    from skyband.jobs.running.options import RunOptions


class Recorded:
    """The record of a run by ``command``. ``built``: where a rebuild writes its tables until they are swapped in.

    A record that cannot be written is reported and stops no run.
    """

    def __init__(self, options: RunOptions, command: str, layout: Layout, built: Layout | None) -> None:
        from skyband.framework.streaming.job.run_records import RunRecord

        self._options, self._command, self._places = options, command, (built, layout)
        self._record = RunRecord(layout)
        self._code = 0
        options.outcome.ending = self._mark

    def begin(self) -> None:
        """Record that the run has begun."""
        self._try(lambda: self._record.begin(self._command, self._options.text.path))

    def ended(self, code: int) -> int:
        """Set the run's exit code to ``code`` and return it."""
        self._code = code
        return code

    def end(self, failed: Exception | None) -> None:
        """Record that the run has ended."""
        if failed is None:
            self._try(lambda: self._record.end(self._ended(self._code, None)))
            return
        shown = failure(failed)
        code = SIGNALLED + (STOP.signal or 0) if shown is None else exit_code(shown)
        # Report the failure itself, not a failure to record it.
        with suppress(SkybandError, OSError):
            self._record.end(self._ended(code, shown))

    def _mark(self, code: int) -> None:
        # The process is ending for another reason, which is reported.
        with suppress(SkybandError, OSError):
            self._record.mark(self._ended(code, None))

    def _try(self, what: Any) -> None:
        try:
            what()
        except (SkybandError, OSError) as e:
            said = e.message if isinstance(e, SkybandError) else str(e)
            self._options.lines.tell("warning", "warning", f"WARNING: this run is not recorded in table job_runs: {said}")

    def _ended(self, code: int, error: SkybandError | None) -> dict[str, Any]:
        from skyband.framework.streaming.job.generations import generation_of

        first = next(iter(self._options.lines.failures), error)
        generation = next(filter(None, (generation_of(place.home) for place in self._places if place)), None)
        return {
            "status": status_of(code), "exit_code": code, "error_code": first.code if first else None, "generation": generation,
            **self._options.outcome.figures(),
        }  # fmt: skip


@contextmanager
def recorded(options: RunOptions, command: str, layout: Layout, built: Layout | None = None) -> Iterator[Recorded]:
    """Record the run inside the context (see ``Recorded``). Only for a caller that holds the job's lock.

    The first run of a job is recorded from its ``begin`` on: until its checks have passed, nothing is written.
    """
    run = Recorded(options, command, layout, built)
    if layout.file.exists():
        run.begin()
    try:
        yield run
    except Exception as e:
        run.end(e)
        raise
    run.end(None)
