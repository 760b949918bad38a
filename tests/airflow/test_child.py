"""A run as a process that is started, watched, found again and stopped, without Airflow and without Spark."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyband.airflow_dags.skyband_airflow import child

PROGRAM = """\
import json, os, signal, subprocess, sys, time
kind, out = sys.argv[1], sys.argv[-1]
def end(code):
    open(out, "w").write(json.dumps({"exit_code": code}))
    os._exit(code)
asked = []
def heard(number, frame):
    asked.append(number)
    print("asked", len(asked), flush=True)
    if kind == "orderly" or (kind == "second" and len(asked) > 1):
        end(143)
signal.signal(signal.SIGTERM, heard)
engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
print("engine", engine.pid, flush=True)
for n in range(3):
    print("line", n, flush=True)
    time.sleep(0.1)
if kind == "quick":
    engine.kill()
    print("no newline", end="", flush=True)
    end(0)
print("waiting", flush=True)
while True:
    time.sleep(0.1)
"""


@contextmanager
def started(kind: str) -> Iterator[child.Handle]:
    handle = child.start([sys.executable, "-c", PROGRAM, kind], os.environ)
    try:
        yield handle
    finally:
        if child.alive(handle):
            os.killpg(handle["pid"], signal.SIGKILL)
        child.remove(handle)


def said(handle: child.Handle) -> str:
    return (Path(handle["folder"]) / "log").read_text()


def until_it_waits(handle: child.Handle) -> None:
    end = time.monotonic() + 60
    while "waiting" not in said(handle):
        assert time.monotonic() < end, said(handle)
        time.sleep(0.05)


def test_lines_come_as_they_are_said_and_the_outcome_at_the_end() -> None:
    with started("quick") as handle:
        assert child.alive(handle) and child.outcome(handle) is None
        lines: list[str] = []
        child.follow(handle, lines.append)
        assert lines[1:] == ["line 0", "line 1", "line 2", "no newline"]
        assert not child.alive(handle) and child.outcome(handle) == {"exit_code": 0}
        child.remove(handle)
        assert child.outcome(handle) is None


@pytest.mark.parametrize(("kind", "asked", "code"), [("orderly", 1, 143), ("second", 2, 143), ("deaf", 2, None)])
def test_a_run_is_asked_to_end_then_told_then_killed(kind: str, asked: int, code: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "IN_ORDER", 1.0)
    with started(kind) as handle:
        until_it_waits(handle)
        engine = int(said(handle).split()[1])
        child.stop(handle)
        end = time.monotonic() + 10
        while child.alive(handle):
            assert time.monotonic() < end
        assert said(handle).count("asked") == asked
        assert (child.outcome(handle) or {}).get("exit_code") == code
        # Killed with its group, whether or not the run has ended in order; it may take a moment to be gone.
        while (began := child._started(engine)) is not None and child.alive(handle | {"pid": engine, "started": began}):
            assert time.monotonic() < end


def test_stopping_takes_less_than_airflow_allows() -> None:
    assert child.IN_ORDER + child.AT_ONCE < 5


def test_another_process_with_its_number_is_not_taken_for_it() -> None:
    with started("orderly") as handle:
        assert child.alive(handle)
        assert not child.alive(handle | {"started": "1"}) and not child.alive(handle | {"host": "another"})
        child.stop(handle | {"started": "1"})
        assert child.alive(handle)


def test_who_comes_later_sees_all_lines() -> None:
    with started("orderly") as handle:
        until_it_waits(handle)
        lines: list[str] = []
        watching = threading.Thread(target=child.follow, args=(handle, lines.append))
        watching.start()
        child.stop(handle)
        watching.join(30)
        assert lines[1:] == ["line 0", "line 1", "line 2", "waiting", "asked 1"]


def test_its_directory_is_the_users_alone() -> None:
    with started("quick") as handle:
        assert os.stat(handle["folder"]).st_mode & 0o077 == 0
