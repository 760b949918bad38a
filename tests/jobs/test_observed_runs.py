"""However a run ends, observers hear of it and are closed, and one that is stuck changes nothing about the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.observe.observers import Observer, Observers
from skyband.jobs import job as jobs
from skyband.jobs.cli import main
from skyband.jobs.running import opening, streaming
from tests.spark.jobs import write_spec

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("started", "phase", "ended", "close")


def raised(e: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise e

    return run


ENDS: dict[str, tuple[Callable[[], int], int]] = {
    "done": (lambda: 0, 0),
    "checks failed": (lambda: 1, 1),
    "too many rejected": (lambda: 4, 4),
    "refused": (raised(SkybandError("SKY-E207", "the table changed")), 2),
    "mistakes": (raised(SpecErrors([SkybandError("SKY-E201", "wrong"), SkybandError("SKY-E202", "wrong, too")])), 2),
    "failed": (raised(SkybandError("SKY-E301", "no such table")), 3),
    "defect": (raised(ZeroDivisionError("a defect")), 3),
}
"""What the stream does -> the exit code."""


class Heard(Observer):
    name = "heard"

    def __init__(self, stuck_in: str | None = None) -> None:
        self.events: list[Any] = []
        self.release = threading.Event()
        if stuck_in is not None:
            setattr(self, stuck_in, lambda *_: self.release.wait(60))

    def started(self, run: Any) -> None:
        self.events.append(run.command)

    def ended(self, outcome: Any) -> None:
        self.events.append(outcome)

    def close(self, seconds: float) -> None:
        self.events.append("closed")


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], Heard]]:
    """Have the next run observed, by one that is stuck in a method."""
    made: list[Heard] = []

    def observe(stuck_in: str | None = None) -> Heard:
        made.append(Heard(stuck_in))
        observers = Observers([made[-1]], patience=0.1 if stuck_in else 30)
        monkeypatch.setattr(opening, "chosen", lambda *_: observers)
        return made[-1]

    yield observe
    for observer in made:
        observer.release.set()


def streams(monkeypatch: pytest.MonkeyPatch, what: Callable[[], int]) -> None:
    """Replace what a run does with Spark."""
    monkeypatch.setattr(streaming.StreamJob, "run", lambda self: what())


def job_in(directory: Path) -> str:
    """Return the spec of a job whose source has no file yet."""
    (directory / "in").mkdir(parents=True, exist_ok=True)
    return str(write_spec(directory))


def outcome_of(path: Path) -> dict[str, Any]:
    """Return an outcome without its times."""
    return {k: v for k, v in json.loads(path.read_text()).items() if not k.endswith(("_at", "_seconds"))}


@pytest.mark.parametrize("command", ["run", "rebuild"])
@pytest.mark.parametrize("end", ENDS)
def test_every_end_is_told_and_the_outcome_is_that_of_an_unobserved_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observed: Callable[..., Heard], end: str, command: str
) -> None:
    what, code = ENDS[end]
    if command == "rebuild" and code == 0:
        pytest.skip("the tables that it swaps in need Spark")
    streams(monkeypatch, what)
    outcomes = []
    heard = None
    for name in ("alone", "observed"):
        if name == "alone":
            monkeypatch.setattr(opening, "chosen", lambda *_: Observers())
        else:
            heard = observed()
        spec, out = job_in(tmp_path / name), tmp_path / name / "outcome.json"
        assert main([command, spec, "--outcome", str(out), "--quiet"]) == code
        outcomes.append(outcome_of(out))
    assert heard is not None and heard.events[0] == command and heard.events[2:] == ["closed"]
    told = {k: v for k, v in heard.events[1].items() if not k.endswith(("_at", "_seconds"))}
    assert outcomes[0] == outcomes[1] == told


@pytest.mark.long
@pytest.mark.parametrize("stuck_in", METHODS)
def test_a_stuck_observer_changes_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observed: Callable[..., Heard], stuck_in: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (what, code) in enumerate(ENDS.values()):
        streams(monkeypatch, what)
        heard = observed(stuck_in)
        assert main(["run", job_in(tmp_path / str(number)), "--quiet"]) == code
        said = capsys.readouterr().err
        assert ("WARNING: heard: " in said) == (stuck_in != "phase"), said  # nothing reports a phase here
        heard.release.set()


def test_a_run_that_is_refused_before_it_starts_closes_its_observers(tmp_path: Path, observed: Callable[..., Heard]) -> None:
    heard = observed()
    assert main(["run", str(tmp_path / "missing.yaml")]) == 2
    assert heard.events == ["closed"]
    observed("close")
    assert main(["run", str(tmp_path / "missing.yaml")]) == 2


def test_several_runs_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observed: Callable[..., Heard]) -> None:
    """Each has observers of its own, that hear of its end, also of Ctrl-C in a notebook; no thread is left."""
    job, before = jobs.load(job_in(tmp_path)), set(threading.enumerate())
    for what, status, codes in (
        (ENDS["done"][0], "done", []),
        (ENDS["mistakes"][0], "refused", ["SKY-E201", "SKY-E202"]),
        (ENDS["failed"][0], "failed", ["SKY-E301"]),
        (raised(KeyboardInterrupt()), "stopped", []),
    ):
        streams(monkeypatch, what)
        heard = observed()
        if status == "done":
            assert job.run().status == "done"
        else:
            with pytest.raises((SkybandError, SpecErrors, KeyboardInterrupt)):
                job.run()
        assert heard.events[0] == "run" and heard.events[2:] == ["closed"]
        assert heard.events[1]["status"] == status and [e["code"] for e in heard.events[1]["errors"]] == codes
    assert {t for t in set(threading.enumerate()) - before if t.name.startswith("observer")} == set()


PROGRAM = """
import faulthandler, sys, time
faulthandler.dump_traceback_later(50, file=sys.__stderr__)
from skyband.framework.observe.observers import Observer, Observers
from skyband.jobs import cli
from skyband.jobs.running import opening, streaming

class Stuck(Observer):
    name = "stuck"
    def {stuck_in}(self, *_):
        print("stuck", flush=True)
        time.sleep(600)

def run(self):
    if {code} == None:
        print("streams", flush=True)
        # In slices, as runs wait: Python handles a signal that arrives just before it sleeps only after the sleep.
        for _ in range(6000):
            time.sleep(0.1)
    return {code}

opening.chosen = lambda *_: Observers([Stuck()], patience={patience})
streaming.StreamJob.run = run
cli.main()
"""


def signalled(tmp_path: Path, stuck_in: str, code: int | None, patience: float, signals: int) -> tuple[int, dict[str, Any]]:
    """Run the command as a process with an observer that is stuck, and signal it. Return its exit code and outcome."""
    out = tmp_path / "outcome.json"
    words = ["run", job_in(tmp_path), "--outcome", out, "--quiet"]
    program = PROGRAM.format(stuck_in=stuck_in, code=code, patience=patience)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-P", "-c", program, *map(str, words)], stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            # What the run prints first: it streams, or it is over and the observer keeps it waiting.
            wanted = "streams" if code is None else "stuck"
            while process.stdout.readline().strip() not in (wanted, ""):
                pass
            if code is not None:
                while not out.exists() or not out.read_text():
                    pass
            process.send_signal(signal.SIGTERM)
            if signals > 1:
                # Two that come at once are one: the second comes while the first waits for the observer.
                assert process.stdout.readline().strip() == "stuck"
                process.send_signal(signal.SIGTERM)
            return process.wait(timeout=60), outcome_of(out)
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize("stuck_in", ["started", "ended", "close"])
def test_a_signal_ends_a_run_with_a_stuck_observer(tmp_path: Path, stuck_in: str) -> None:
    code, outcome = signalled(tmp_path, stuck_in, None, 0.5, 1)
    assert code == 143 and outcome["status"] == "stopped" and outcome["exit_code"] == 143


@pytest.mark.long
def test_a_signal_ends_the_wait_for_an_observer_and_the_run_is_what_it_was(tmp_path: Path) -> None:
    """The run is done: its outcome does not become that of a stopped run."""
    code, outcome = signalled(tmp_path, "ended", 0, 500, 1)
    assert code == 0 and outcome["status"] == "done"


@pytest.mark.long
def test_a_second_signal_ends_the_wait_after_the_first(tmp_path: Path) -> None:
    code, outcome = signalled(tmp_path, "ended", None, 500, 2)
    assert code == 143 and outcome["status"] == "stopped"
