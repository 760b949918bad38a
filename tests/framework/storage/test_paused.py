"""A run that stands still, by SIGSTOP, in the middle of its commits and past its lease: another goes on, and it commits nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skyband.framework.storage.epochs import LEASE_VARIABLE
from skyband.framework.storage.location import location
from skyband.framework.streaming.job.layout import Layout
from tests.framework.storage.run_of_batches import sink_at

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

BATCHES = 3
WAIT = 300


def started(root: str, failpoint: str | None = None) -> subprocess.Popen[str]:
    env = {**os.environ, LEASE_VARIABLE: "2"} | ({"SKYBAND_FAILPOINT": failpoint} if failpoint else {})
    command = [sys.executable, "-m", "tests.framework.storage.run_of_batches", root, str(BATCHES)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=WAIT)
    return process.returncode, said


def stands_still(process: subprocess.Popen[str]) -> bool:
    until = time.monotonic() + WAIT
    while process.poll() is None and time.monotonic() < until:
        if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.05)
    return False


def log(root: str) -> set[str]:
    """The commits of all tables."""
    return {str(p) for p in location(root).rglob("*.json") if p.parent.name == "_delta_log"}


def rows(root: str) -> dict[str, list[str]]:
    """All rows of all tables, but how long it took to write them."""
    sink = sink_at(root)
    found = {}
    for name in sink.specs:
        table = sink.writer.read(name)
        found[name] = sorted(str(r) for r in table.drop_columns([c for c in table.column_names if c.endswith("_ms")]).to_pylist())
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The tables of a run that nothing happened to, on this machine."""
    root = str(tmp_path_factory.mktemp("alone") / "out")
    assert ended(started(root)) == (0, "")
    return rows(root)


@pytest.mark.parametrize("point", ["batch.before:2", "sink.before:2", "sink.between:2", "sink.between:4", "sink.after:2"])
def test_it_commits_nothing_when_it_wakes(directory: str, alone: dict[str, list[str]], point: str) -> None:
    root = f"{directory}/out"
    first = started(root, f"{point}@STOP")
    try:
        assert stands_still(first)
        code, said = ended(started(root))
        assert code == 0 and "has not released this sink" in said
        before = log(root)
        os.kill(first.pid, signal.SIGCONT)
        assert ended(first) == (3, "SKY-E631\n")
    finally:
        first.kill()
    assert log(root) == before
    assert rows(root) == alone


@pytest.mark.parametrize("point", ["run.locked", "sink.before:2", "sink.between:3", "sink.after:2"])
def test_killed_it_is_followed_by_one_that_completes_it(directory: str, alone: dict[str, list[str]], point: str) -> None:
    root = f"{directory}/out"
    assert ended(started(root, point))[0] == -signal.SIGKILL
    assert ended(started(root))[0] == 0
    assert rows(root) == alone
    assert Layout(root).home.exists()
