"""The tasks of a spec's DAG. Each one runs Skyband's command, or reads the outcome of the run."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from airflow.providers.common.compat.sdk import ResumableJobMixin
from airflow.sdk import BaseOperator, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException, AirflowSkipException

from . import child, cluster, lineage
from .announcements import Figures, announcement, event, last_announced
from .facts import environment

WRITTEN: Final = (0, 1, 4)
"""Exit codes of a run that has written everything; the gate judges its data."""
REFUSED: Final = 2
"""The exit code of a mistake in the spec or the command line: a retry cannot help."""
MOST_EVENTS: Final = 100
"""The most events of an asset that are looked at for the last one of Skyband: others may have been made by hand."""


class Findings(BaseOperator):
    """Fail with the mistakes of a spec."""

    def __init__(self, *, findings: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.findings = findings

    def execute(self, context: Any) -> None:
        """Raise AirflowFailException."""
        raise AirflowFailException(f"the spec cannot be used:\n{self.findings}")


class Validate(BaseOperator):
    """Run ``skyband validate``: a mistake fails the run before a JVM starts, without retries."""

    ui_color = "#e8f0fe"

    def __init__(self, *, command: Sequence[str], spec: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = list(command)
        self.spec = spec

    def execute(self, context: Any) -> None:
        """Raise AirflowFailException with the mistakes, or AirflowException if the command cannot be run."""
        words = [*self.command, "validate", self.spec]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment(), stdin=subprocess.DEVNULL)
        except OSError as e:
            raise AirflowException(f"{words[0]} cannot be run: {e.strerror}; SKYBAND_COMMAND names the pipeline's command") from e
        if done.returncode == REFUSED:
            raise AirflowFailException(f"the spec cannot be used:\n{done.stderr.strip()}")
        if done.returncode != 0:
            raise AirflowException(f"validate ended with exit code {done.returncode}:\n{done.stderr.strip()}")
        self.log.info("%s", done.stdout.strip())


class Run(ResumableJobMixin, BaseOperator):
    """Run ``skyband run --once``, or ``skyband rebuild`` with the parameter ``rebuild``; log its lines and return the outcome as XCom.

    The run is a process that survives its worker: the next try watches it again, or takes its outcome if it has ended. Clearing or stopping
    the task stops the run, in order if that takes a few seconds at most. The next run continues from the checkpoint in any case.
    """

    external_id_key = "skyband_run"
    ui_color = "#d7f5e3"

    def __init__(self, *, command: Sequence[str], spec: str, connection: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = list(command)
        self.spec = spec
        self.connection = connection
        self._handle: child.Handle | None = None
        self._killed = False

    def execute(self, context: Any) -> dict[str, Any]:
        """Return the outcome (docs/reference/run-output.md) or raise AirflowFailException if a retry cannot help, else AirflowException."""
        try:
            with _interrupts_raised():
                outcome: dict[str, Any] = self.execute_resumable(context)
        except (KeyboardInterrupt, SystemExit):
            # Ctrl-C at ``airflow dags test``, or at a worker: Airflow itself calls ``on_kill`` only for other ends of a task.
            self.on_kill()
            raise
        finally:
            # The next try finds a process that still runs.
            if self._handle is not None and not child.alive(self._handle):
                child.remove(self._handle)
        rows, changes = outcome["rows"], sum(outcome["changes"].values())
        rejected = ", ".join(f"{n:,} {reason}" for reason, n in rows["rejected"].items()) or "none"
        self.log.info(
            "%s: %s rows in %s batches, rejected %s, %s changes, %.1f s", outcome["status"], f"{rows['in']:,}", outcome["batches"]["count"],
            rejected, f"{changes:,}", outcome["wall_seconds"],
        )  # fmt: skip
        return outcome

    def on_kill(self) -> None:
        """Stop the run, also one that is just being started."""
        self._killed = True
        if self._handle is not None:
            child.stop(self._handle)

    def submit_job(self, context: Any) -> child.Handle:
        """Start the run."""
        words = [*self.command, *(["rebuild", self.spec] if context["params"]["rebuild"] else ["run", self.spec, "--once"])]
        try:
            self._handle = child.start(words, environment() | lineage.parents(context.get("ti")) | self._cluster())
        except OSError as e:
            raise AirflowException(f"{words[0]} cannot be run: {e.strerror}; SKYBAND_COMMAND names the pipeline's command") from e
        if self._killed:
            child.stop(self._handle)
        self.log.info("process %s: %s", self._handle["pid"], " ".join(words))
        return self._handle

    def _cluster(self) -> dict[str, str]:
        """Return variables with the Spark cluster. Raises AirflowFailException for a missing or unsuitable connection."""
        if self.connection is None:
            return {}
        try:
            if reason := cluster.refused(self.connection):
                raise ValueError(reason)
            return cluster.settings(self.connection, Connection.get(self.connection))
        except (ValueError, AirflowNotFoundException) as e:
            raise AirflowFailException(f"the run has no cluster: {e}") from e

    def get_job_status(self, external_id: Any, context: Any) -> str:
        """Return ``running``, ``written`` (ended, with an outcome) or ``gone``."""
        self._handle = external_id
        if child.alive(external_id):
            return "running"
        outcome = child.outcome(external_id)
        return "written" if outcome is not None and outcome["exit_code"] in WRITTEN else "gone"

    def is_job_active(self, status: str) -> bool:
        """Return True if the process still runs."""
        return status == "running"

    def is_job_succeeded(self, status: str) -> bool:
        """Return True if there is an outcome."""
        return status == "written"

    def poll_until_complete(self, external_id: Any, context: Any) -> dict[str, Any]:
        """Log the run's lines until it ends, and return its outcome."""
        child.follow(external_id, lambda line: self.log.info("%s", line))
        outcome = child.outcome(external_id)
        if outcome is not None and outcome["exit_code"] in WRITTEN:
            return outcome
        if outcome is None:
            raise AirflowException("the run was killed before it wrote an outcome; the next try continues from its checkpoint")
        reason = errors(outcome) or f"the run was stopped (exit code {outcome['exit_code']}); the next try continues from its checkpoint"
        raise (AirflowFailException if outcome["exit_code"] == REFUSED else AirflowException)(reason)

    def get_job_result(self, external_id: Any, context: Any) -> dict[str, Any] | None:
        """Return the outcome of a run that has ended."""
        return child.outcome(external_id)


class Gate(BaseOperator):
    """Fail if the run's data do not pass the checks, so that nothing is published."""

    ui_color = "#fff4d6"

    def execute(self, context: Any) -> None:
        """Raise AirflowFailException with the failed checks."""
        outcome = _outcome(context)
        for check in outcome["checks"]:
            verdict = "passed" if check["success"] else f"FAILED ({check['severity']})"
            self.log.info("%s: %s on %s %s", verdict, check["expectation"], check["table_name"], check["arguments"])
        if outcome["exit_code"] != 0:
            raise AirflowFailException(f"{outcome['status']}:\n{errors(outcome)}")


class Publish(BaseOperator):
    """Emit an asset event per result table with what is new since the last event: versions, changes, rejected rows and checks.

    ``tables`` has the (table, query) of each asset, in order; the assets are its inlets, too, since it reads their last events. Skipped if
    the last events cover everything, whoever has committed it.
    """

    ui_color = "#efe3fb"

    def __init__(self, *, tables: Sequence[tuple[str, str]], command: Sequence[str], spec: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = [tuple(t) for t in tables]
        self.command = list(command)
        self.spec = spec
        self._counted: dict[tuple[int | None, int | None], Figures] = {}

    def execute(self, context: Any) -> None:
        """Raise AirflowSkipException if nothing is new, AirflowException if the spec has changed since the DAG was parsed."""
        outcome = _outcome(context)
        spans = [outcome["tables"].get(table) for table, _ in self.tables]
        if any(span is None or span["to"] is None for span in spans):
            raise AirflowException("the spec has other tables than when this DAG was parsed; the next try uses them")
        last = [last_announced(self._events(context, outlet)) for outlet in self.outlets]
        covered = [announcement(span, outcome["last_batch"], before) for span, before in zip(spans, last, strict=True)]
        if all(one.is_empty for one in covered):
            raise AirflowSkipException("nothing is new: the last events cover all versions of the tables")
        for outlet, (table, query), new in zip(self.outlets, self.tables, covered, strict=True):
            extra = event(outcome, table, query, new, self._count)
            context["outlet_events"][outlet].extra = extra
            self.log.info("%s: %s", outlet.name, extra["versions"])

    def _events(self, context: Any, asset: Any) -> Iterator[Any]:
        """Yield the contents of the asset's events, newest first."""
        for found in context["inlet_events"][asset].ascending(False).limit(MOST_EVENTS):
            yield found.extra

    def _count(self, after: int | None, upto: int | None) -> Figures:
        """Ask the command what batches have written. Raises AirflowException if it fails; the next try asks again."""
        if (after, upto) not in self._counted:
            bounds = [f"{name}={batch}" for name, batch in (("--after", after), ("--upto", upto)) if batch is not None]
            words = [*self.command, "airflow", "batches", self.spec, *bounds, "--format", "json"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment(), stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                raise AirflowException(f"the batches since the last event cannot be counted:\n{(done.stdout + done.stderr).strip()}")
            self._counted[after, upto] = json.loads(done.stdout)
        return self._counted[after, upto]


class Maintain(BaseOperator):
    """Run ``skyband maintain`` if the last time was more than ``every`` seconds ago; return the instant as XCom."""

    ui_color = "#e6e6e6"

    def __init__(self, *, command: Sequence[str], spec: str, every: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = list(command)
        self.spec = spec
        self.every = every

    def execute(self, context: Any) -> float:
        """Raise AirflowSkipException if it is too soon, AirflowException if the command fails, for example since a run has the lock."""
        last = context["ti"].xcom_pull(task_ids=self.task_id, include_prior_dates=True)
        now = clock.time()
        if last is not None and now - float(last) < self.every:
            raise AirflowSkipException(f"the tables were maintained {now - float(last):.0f} s ago, and every {self.every:.0f} s is enough")
        words = [*self.command, "maintain", self.spec]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment(), stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AirflowException(f"maintain ended with exit code {done.returncode}:\n{done.stderr.strip()}")
        self.log.info("%s", done.stdout.rstrip())
        return now


def errors(outcome: Mapping[str, Any]) -> str:
    """Return the errors of a run, one per line, with hints."""
    lines = []
    for e in outcome["errors"]:
        where = f"{e['where']['file']}:{e['where']['line']}:{e['where']['column']} " if e["where"] else ""
        lines.append(f"{where}{e['code']} {e['message']}" + (f"\n  hint: {e['hint']}" if e["hint"] else ""))
    return "\n".join(lines)


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt: Airflow's workers start tasks with the default of the system, which ends them at once."""
    changed = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    if changed:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if changed:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _outcome(context: Any) -> dict[str, Any]:
    outcome: dict[str, Any] = context["ti"].xcom_pull(task_ids="run")
    return outcome
