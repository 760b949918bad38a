"""A job's kernels are compiled by another process while Spark starts, once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.run import compile_ahead
from skyband.framework.streaming.run.compile_ahead import compiled_ahead
from skyband.jobs.spec import load_plan
from skyband.operators import jit
from tests.spark.kinds import KINDS

needs_numba = pytest.mark.skipif(not jit.HAVE_NUMBA, reason="without Numba nothing is compiled")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec; its kernels stand in an empty directory."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return KINDS["keyed"].write(tmp_path / "job", 1)


def test_nothing_is_started_for_kernels_that_are_there(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "HAVE_NUMBA", True)
    plan = load_plan(str(spec))
    note = compile_ahead._note(HostConfig.of(plan, (), ""))
    assert note is not None
    note.touch()
    with compiled_ahead(plan) as starts:
        assert not starts
    monkeypatch.setattr(jit, "HAVE_NUMBA", False)
    note.unlink()
    with compiled_ahead(plan) as starts:
        assert not starts


def test_the_process_ends_with_the_block(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "HAVE_NUMBA", True)
    monkeypatch.setenv("SKYBAND_NO_NUMBA", "1")
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*args: object, **more: object) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **more))  # type: ignore[call-overload]
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", noted)
    with compiled_ahead(load_plan(str(spec))) as starts:
        assert starts
    (process,) = started
    assert process.returncode is not None


def test_the_process_leaves_a_note_and_ends_if_its_parent_does(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Numba, so that it takes no time."""
    monkeypatch.setattr(jit, "HAVE_NUMBA", True)
    monkeypatch.setenv("SKYBAND_NO_NUMBA", "1")
    plan = load_plan(str(spec))
    note = compile_ahead._note(HostConfig.of(plan, (), ""))
    assert note is not None
    with compiled_ahead(plan):
        for _ in range(600):
            if note.exists():
                break
            time.sleep(0.1)
    assert note.exists() and note.stat().st_mode & 0o077 == 0
    with compiled_ahead(plan) as starts:
        assert not starts


def test_the_note_of_a_plan_is_the_same_in_every_process(spec: Path) -> None:
    code = (
        "import sys\n"
        "from skyband.framework.streaming.rows.config import HostConfig\n"
        "from skyband.framework.streaming.run import compile_ahead\n"
        "from skyband.jobs.spec import load_plan\n"
        "print(compile_ahead._note(HostConfig.of(load_plan(sys.argv[1]), (), '')))"
    )
    found = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "NUMBA_CACHE_DIR": str(spec.parent)}
        done = subprocess.run([sys.executable, "-c", code, str(spec)], capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1 and "ready-" in found.pop()
