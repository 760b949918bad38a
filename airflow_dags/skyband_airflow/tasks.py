"""The tasks of a spec's DAG. Each is the command in the pipeline's environment, or looks at what the run wrote of itself."""

from __future__ import annotations

import subprocess
import time as clock
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.providers.common.compat.sdk import ResumableJobMixin
from airflow.sdk import BaseOperator, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException, AirflowSkipException

from . import child, cluster
from .facts import environment

WRITTEN: Final = (0, 1, 4)
"""Exit codes of a run that has written everything: what its data are worth is the gate's to say."""
REFUSED: Final = 2
"""The exit code of a mistake of the spec or the command line: another try comes to the same."""


class Findings(BaseOperator):
    """Fails with what is wrong with a spec."""

    def __init__(self, *, said: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.said = said

    def execute(self, context: Any) -> None:
        """AirflowFailException."""
        raise AirflowFailException(f"the spec cannot be used:\n{self.said}")


class Validate(BaseOperator):
    """``skyband validate``: a mistake fails the run before a JVM starts, without further tries."""

    ui_color = "#e8f0fe"

    def __init__(self, *, command: Sequence[str], spec: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = list(command)
        self.spec = spec

    def execute(self, context: Any) -> None:
        """AirflowFailException with the mistakes; AirflowException if the command cannot be run."""
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
    """``skyband run --once``, or ``skyband rebuild`` if the run's parameters ask for it; its lines as they come, the outcome as XCom.

    The run is a process that outlives a worker that dies: the next try goes on watching it, or takes its outcome if it has ended. Whoever
    clears or stops the task stops the run, in order if it does so within seconds; whatever happens to it, the next one goes on from its
    checkpoint.
    """

    external_id_key = "skyband_run"
    ui_color = "#d7f5e3"

    def __init__(self, *, command: Sequence[str], spec: str, connection: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = list(command)
        self.spec = spec
        self.connection = connection
        self._handle: child.Handle | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Return the outcome (docs/reference/run-output.md) or raise AirflowFailException if a retry cannot help, else AirflowException."""
        try:
            outcome: dict[str, Any] = self.execute_resumable(context)
        finally:
            # One that goes on, whatever went wrong here, is found again by the next try.
            if self._handle is not None and not child.alive(self._handle):
                child.forget(self._handle)
        rows, changes = outcome["rows"], sum(outcome["changes"].values())
        rejected = ", ".join(f"{n:,} {reason}" for reason, n in rows["rejected"].items()) or "none"
        self.log.info(
            "%s: %s rows in %s batches, rejected %s, %s changes, %.1f s", outcome["status"], f"{rows['in']:,}", outcome["batches"]["count"],
            rejected, f"{changes:,}", outcome["wall_seconds"],
        )  # fmt: skip
        return outcome

    def on_kill(self) -> None:
        """Stops the run."""
        if self._handle is not None:
            child.stop(self._handle)

    def submit_job(self, context: Any) -> child.Handle:
        """Starts the run."""
        words = [*self.command, *(["rebuild", self.spec] if context["params"]["rebuild"] else ["run", self.spec, "--once"])]
        try:
            self._handle = child.start(words, environment() | self._cluster())
        except OSError as e:
            raise AirflowException(f"{words[0]} cannot be run: {e.strerror}; SKYBAND_COMMAND names the pipeline's command") from e
        self.log.info("process %s: %s", self._handle["pid"], " ".join(words))
        return self._handle

    def _cluster(self) -> dict[str, str]:
        """Variables that say where Spark computes. AirflowFailException for a connection that is none, or cannot be used."""
        if self.connection is None:
            return {}
        try:
            if said := cluster.refused(self.connection):
                raise ValueError(said)
            return cluster.settings(self.connection, Connection.get(self.connection))
        except (ValueError, AirflowNotFoundException) as e:
            raise AirflowFailException(f"the run has no cluster: {e}") from e

    def get_job_status(self, external_id: Any, context: Any) -> str:
        """``running``, ``written`` (it has ended since, and its outcome waits), or ``gone``."""
        self._handle = external_id
        if child.alive(external_id):
            return "running"
        outcome = child.outcome(external_id)
        return "written" if outcome is not None and outcome["exit_code"] in WRITTEN else "gone"

    def is_job_active(self, status: str) -> bool:
        """Whether there is something to go on watching."""
        return status == "running"

    def is_job_succeeded(self, status: str) -> bool:
        """Whether there is an outcome to take."""
        return status == "written"

    def poll_until_complete(self, external_id: Any, context: Any) -> dict[str, Any]:
        """Tells the run's lines until it has ended; its outcome."""
        child.follow(external_id, lambda line: self.log.info("%s", line))
        outcome = child.outcome(external_id)
        if outcome is not None and outcome["exit_code"] in WRITTEN:
            return outcome
        if outcome is None:
            raise AirflowException("the run was killed before it could say anything; the next try goes on from its checkpoint")
        said = errors(outcome) or f"the run was stopped (exit code {outcome['exit_code']}); the next try goes on from its checkpoint"
        raise (AirflowFailException if outcome["exit_code"] == REFUSED else AirflowException)(said)

    def get_job_result(self, external_id: Any, context: Any) -> dict[str, Any] | None:
        """The outcome of a run that has ended."""
        return child.outcome(external_id)


class Gate(BaseOperator):
    """Fails if the run's data are not what the spec asks of them: nothing is published then."""

    ui_color = "#fff4d6"

    def execute(self, context: Any) -> None:
        """AirflowFailException with what failed."""
        outcome = _outcome(context)
        for check in outcome["checks"]:
            said = "passed" if check["success"] else f"FAILED ({check['severity']})"
            self.log.info("%s: %s on %s %s", said, check["expectation"], check["table_name"], check["arguments"])
        if outcome["exit_code"] != 0:
            raise AirflowFailException(f"{outcome['status']}:\n{errors(outcome)}")


class Publish(BaseOperator):
    """Tells of news in the result tables: an event per table, with its versions, changes, rejected rows and the checks' outcomes.

    ``tables``: (table, query) of each outlet, in their order. Skipped if the run wrote nothing.
    """

    ui_color = "#efe3fb"

    def __init__(self, *, tables: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = [tuple(t) for t in tables]

    def execute(self, context: Any) -> None:
        """AirflowSkipException if there is no news, AirflowException if the spec has changed since the DAG was parsed."""
        outcome = _outcome(context)
        if not {t for t, _ in self.tables} <= set(outcome["tables"]):
            raise AirflowException("the spec has other tables than when this DAG was parsed: the next try knows them")
        if all(span["from"] == span["to"] for span in map(outcome["tables"].__getitem__, (t for t, _ in self.tables))):
            raise AirflowSkipException("the run wrote nothing: no table has news")
        for outlet, (table, query) in zip(self.outlets, self.tables, strict=True):
            context["outlet_events"][outlet].extra = event(outcome, table, query)
            self.log.info("%s: %s", outlet.name, outcome["tables"][table])


class Maintain(BaseOperator):
    """``skyband maintain``, if the last time was longer than ``every`` seconds ago; the instant as XCom."""

    ui_color = "#e6e6e6"

    def __init__(self, *, command: Sequence[str], spec: str, every: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = list(command)
        self.spec = spec
        self.every = every

    def execute(self, context: Any) -> float:
        """AirflowSkipException if it is too soon; AirflowException if the command fails: a run may hold the tables by now."""
        last = context["ti"].xcom_pull(task_ids=self.task_id, include_prior_dates=True)
        now = clock.time()
        if last is not None and now - float(last) < self.every:
            raise AirflowSkipException(f"the tables were tidied {now - float(last):.0f} s ago: every {self.every:.0f} s will do")
        words = [*self.command, "maintain", self.spec]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment(), stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AirflowException(f"maintain ended with exit code {done.returncode}:\n{done.stderr.strip()}")
        self.log.info("%s", done.stdout.rstrip())
        return now


def event(outcome: Mapping[str, Any], table: str, query: str) -> dict[str, Any]:
    """What the event of a table carries."""
    checked = ("table_name", "expectation", "arguments", "severity", "success")
    return {
        "job": outcome["job"],
        "table": table,
        "versions": outcome["tables"][table],
        "batches": outcome["batches"],
        "changes": outcome["changes"][query],
        "rejected": outcome["rows"]["rejected"],
        "checks": [{k: check[k] for k in checked} for check in outcome["checks"]],
        "ended_at": outcome["ended_at"],
    }


def errors(outcome: Mapping[str, Any]) -> str:
    """The errors of a run, a line each, with their hints."""
    said = []
    for e in outcome["errors"]:
        where = f"{e['where']['file']}:{e['where']['line']}:{e['where']['column']} " if e["where"] else ""
        said.append(f"{where}{e['code']} {e['message']}" + (f"\n  hint: {e['hint']}" if e["hint"] else ""))
    return "\n".join(said)


def _outcome(context: Any) -> dict[str, Any]:
    outcome: dict[str, Any] = context["ti"].xcom_pull(task_ids="run")
    return outcome
