"""One run at a time: the driver's lock comes before Spark, Spark's outlives the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.job.locks import WAIT, jvm_lock, one_run
from skyband.jobs import cli
from tests.spark.jobs import write_spec

HOLDER = """
import fcntl, sys
held = open(sys.argv[1], "a")
fcntl.lockf(held, fcntl.LOCK_EX)
held.truncate(0); held.write(sys.argv[2]); held.flush()
print("held", flush=True)
sys.stdin.read()
"""


def holder(layout: Layout, pid: str) -> subprocess.Popen[str]:
    """A process that holds Spark's lock until its input ends, as a JVM does."""
    layout.home.mkdir(parents=True)
    command = [sys.executable, "-c", HOLDER, str(layout.home / "engine.lock"), pid]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def code_elsewhere(layout: Layout) -> str | None:
    """The code with which another thread is refused the sink, None if it gets it."""
    found: list[str | None] = []

    def attempt() -> None:
        try:
            with one_run(layout, "j"):
                found.append(None)
        except SkybandError as e:
            found.append(e.code)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0]


def test_who_holds_the_sink_may_ask_again_and_nobody_else(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "out"))
    with one_run(layout, "j"):
        with one_run(layout, "j"):
            assert code_elsewhere(layout) == "SKY-E302"
        assert code_elsewhere(layout) == "SKY-E302"
    assert code_elsewhere(layout) is None


def test_a_second_run_detects_the_first_before_it_starts_a_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(tmp_path)
    (tmp_path / "in").mkdir()
    layout = Layout(str(tmp_path / "out"))
    started: list[Any] = []
    monkeypatch.setattr("skyband.framework.streaming.spark.session.get_session", lambda *a, **k: started.append(a))
    there, done = threading.Event(), threading.Event()

    def hold() -> None:
        with one_run(layout, "small"):
            there.set()
            done.wait()

    first = threading.Thread(target=hold)
    first.start()
    there.wait()
    try:
        assert cli.main(["run", str(spec)]) == 3
    finally:
        done.set()
        first.join()
    told = capsys.readouterr().err
    told = told[told.index("SKY-") :]
    assert told.startswith(f"SKY-E302 another run of job 'small' is writing to this sink (process {os.getpid()})\n")
    assert started == []


def test_a_run_waits_for_a_jvm_that_outlived_its_driver(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "out"))
    orphan = holder(layout, "4711")
    said: list[str] = []

    def let_go(text: str) -> None:
        said.append(text)
        assert orphan.stdin is not None
        orphan.stdin.close()

    with one_run(layout, "j", let_go):
        assert orphan.wait() == 0
    assert said == ["waiting for Spark of an earlier run of job 'j' to end (process 4711)"]


def test_a_jvm_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(WAIT, "0.5")
    spec = write_spec(tmp_path)
    (tmp_path / "in").mkdir()
    orphan = holder(Layout(str(tmp_path / "out")), "4711")
    try:
        assert cli.main(["run", str(spec), "--log-format", "json"]) == 3
    finally:
        orphan.kill()
        orphan.wait()
    starting, waiting, refused = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert starting["event"] == "starting"
    assert (waiting["level"], waiting["event"], waiting["job"]) == ("warning", "waiting", "small")
    assert refused["code"] == "SKY-E302" and "(process 4711)" in refused["message"] and "0.5 s" in refused["message"]


def test_a_wait_that_is_not_a_number_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAIT, "long")
    with pytest.raises(SkybandError, match="SKYBAND_ENGINE_WAIT"), one_run(Layout(str(tmp_path / "out")), "j"):
        pass


@pytest.mark.spark
def test_the_jvm_holds_its_lock_during_a_run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAIT, "0")
    layout, other = Layout(str(tmp_path / "out")), Layout(str(tmp_path / "other"))
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    for sink in (layout, other):
        sink.home.mkdir(parents=True)
    with jvm_lock(spark, layout), jvm_lock(spark, other):
        with pytest.raises(SkybandError, match=rf"SKY-E302 Spark of an earlier run .*\(process {pid}\)"), one_run(layout, "j"):
            pass
        with pytest.raises(SkybandError, match="SKY-E302"), jvm_lock(spark, layout):
            pass
    with one_run(layout, "j"), jvm_lock(spark, layout):
        assert (layout.home / "engine.lock").read_text() == str(pid)
