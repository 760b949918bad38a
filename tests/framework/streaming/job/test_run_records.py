"""Every run leaves a row, however it ended, and one row."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.table_names import JOB_RUNS
from skyband.framework.console.lines import Lines
from skyband.framework.storage import delta_read
from skyband.framework.streaming.job import run_records
from skyband.framework.streaming.job.layout import RUNNING, Layout
from skyband.framework.streaming.job.locks import one_run
from skyband.framework.streaming.job.run_records import RunRecord, history, settle
from skyband.framework.streaming.spark.stop_signal import STOP
from skyband.framework.tables.schemas import fixed_schema
from skyband.jobs import cli
from skyband.jobs.outcome import Outcome
from skyband.jobs.running.options import RunOptions
from skyband.jobs.running.recorded import recorded
from skyband.jobs.spec import SpecText
from tests.framework.streaming import checkpoints
from tests.framework.tables.plans import make_plan
from tests.spark.jobs import write_file, write_spec


class Job:
    """A job that has run, without a JVM and without tables; ``run`` is a run of it that does nothing."""

    def __init__(self, directory: Path) -> None:
        self.plan = make_plan(str(directory / "out"), ())
        self.layout = Layout(self.plan.sink)
        self.path = directory / "spec.yaml"
        self.path.write_text("job: tests\n")
        checkpoints.write(self.layout.file, json.dumps({"job": "tests", "generation": "g1"}))
        self.options = RunOptions(SpecText(str(self.path)), Lines(), Outcome(None))

    def run(self, code: int = 0, failed: BaseException | None = None, command: str = "run") -> None:
        self.options = replace(self.options, lines=Lines(), outcome=Outcome(None))
        self.options.outcome.add(7, {"in": 100, "filtered": 5, "accepted": 80}, {"late": 10, "parse": 5}, {"q": 30, "p": 3}, 4)
        with one_run(self.layout, "tests"), recorded(self.options, command, self.layout) as record:
            if failed is not None:
                raise failed
            record.ended(code)
        self.options.outcome.write(code, [])

    def rows(self) -> list[dict[str, Any]]:
        return sorted(delta_read.read(delta_read.open_table(self.layout.root, JOB_RUNS)).to_pylist(), key=lambda r: r["run_id"])


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_run_is_a_row_with_all_that_it_did(job: Job) -> None:
    job.run(4)
    (row,) = job.rows()
    began, ended = row.pop("started_at"), row.pop("ended_at")
    assert timedelta(0) <= ended - began < timedelta(minutes=5) and datetime.now(UTC) - ended < timedelta(minutes=5)
    assert row.pop("spark_version").startswith("4.") and row.pop("run_by") and row.pop("skyband_version", "") is not None
    assert row == {
        "run_id": 1, "command": "run", "status": "too_many_rejected", "exit_code": 4, "error_code": None, "batches": 1,
        "first_batch_id": 7, "last_batch_id": 7, "rows_in": 100, "accepted": 80, "rejected": 15, "changes": 33, "generation": "g1",
        "spec_hash": hashlib.sha256(job.path.read_bytes()).hexdigest(), "host_name": socket.gethostname(), "process_id": os.getpid(),
    }  # fmt: skip
    assert not (job.layout.home / RUNNING).exists()


def test_whatever_becomes_of_runs_each_is_one_row(job: Job) -> None:
    ends: list[tuple[int, BaseException | None, str, str, int | None, str | None]] = [
        (0, None, "run", "done", 0, None),
        (1, None, "rebuild", "checks_failed", 1, None),
        (143, None, "run", "stopped", 143, None),
        (0, SkybandError("SKY-E301", "x"), "run", "failed", 3, "SKY-E301"),
        (0, SkybandError("SKY-E150", "x"), "run", "refused", 2, "SKY-E150"),
        (0, ValueError("x"), "run", "failed", 3, "SKY-E900"),
        (0, SystemExit(9), "run", "killed", None, None),
    ]
    for code, failed, command, *_ in ends:
        if failed is None:
            job.run(code, command=command)
        else:
            with pytest.raises(type(failed)):
                job.run(failed=failed, command=command)
    assert len(job.rows()) == len(ends) - 1, "the last one is not known to be over"
    job.run()
    said = [(r["command"], r["status"], r["exit_code"], r["error_code"]) for r in job.rows()]
    assert said == [e[2:] for e in ends] + [("run", "done", 0, None)]
    assert [r["run_id"] for r in job.rows()] == list(range(1, 9))
    killed = job.rows()[6]
    assert killed["ended_at"] is None and killed["rows_in"] is None and killed["started_at"] is not None


def test_a_signal_that_ends_a_run_at_once_is_no_kill(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler notes the end while the run goes on; the next one makes the row."""
    monkeypatch.setattr(run_records, "settle", lambda *_: pytest.fail("a handler writes no table"))
    with one_run(job.layout, "tests"):
        record = recorded(job.options, "run", job.layout)
        monkeypatch.undo()
        record.__enter__()
        job.options.outcome.write(143, [])
        job.options.outcome.write(143, [])
    assert [(r["status"], r["exit_code"]) for r in history(job.layout)] == [("stopped", 143)]
    job.run()
    assert [(r["status"], r["exit_code"]) for r in job.rows()] == [("stopped", 143), ("done", 0)]


def test_killed_between_the_row_and_the_mark_it_is_still_one_row(job: Job) -> None:
    record = RunRecord(job.layout)
    record.begin("run", str(job.path))
    mark = (job.layout.home / RUNNING).read_text()
    settle(job.layout)
    (job.layout.home / RUNNING).write_text(mark)
    assert len(history(job.layout)) == 1
    settle(job.layout)
    assert [r["status"] for r in job.rows()] == ["killed"]


def test_history_tells_a_run_that_goes_on_from_one_that_was_killed(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run()
    RunRecord(job.layout).begin("rebuild", str(job.path))
    assert [(r["run_id"], r["command"], r["status"]) for r in history(job.layout)] == [(2, "rebuild", "running"), (1, "run", "done")]

    def gone(*_: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    assert [r["status"] for r in history(job.layout, 1)] == ["killed"]


def test_what_cannot_be_recorded_stops_no_run(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    (job.layout.root / JOB_RUNS).mkdir(parents=True)
    (job.layout.root / JOB_RUNS / "_delta_log").write_text("in the way")
    job.run()
    assert "WARNING: this run is not recorded in table job_runs: " in capsys.readouterr().err
    assert not (job.layout.home / RUNNING).exists()


def test_of_a_first_run_that_is_refused_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(write_spec(tmp_path))]) == 2
    assert "SKY-E206" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "out").rglob("*") if p.is_file()] in (["lock", "engine.lock"], ["engine.lock", "lock"])


def test_the_command_lists_runs(job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(tmp_path, "0.csv", [], at=0)
    spec = write_spec(tmp_path, job="tests")
    assert cli.main(["history", str(spec)]) == 2 and "SKY-E402 this job has not run yet" in capsys.readouterr().err
    job.run()
    with pytest.raises(SkybandError):
        job.run(failed=SkybandError("SKY-E301", "x"))
    assert cli.main(["history", str(spec)]) == 0
    head, _, newest, oldest = capsys.readouterr().out.splitlines()[:4]
    assert head.split()[:2] == ["run", "command"]
    assert newest.split()[0] == "2" and "failed (SKY-E301)" in newest and oldest.split()[0] == "1" and " done " in oldest
    assert cli.main(["history", str(spec), "--limit", "1", "--format", "json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert told["run_id"] == 2 and set(told) == set(fixed_schema("job_runs").names) and datetime.fromisoformat(told["started_at"])


def test_nothing_was_stopped_here() -> None:
    assert STOP.signal is None
