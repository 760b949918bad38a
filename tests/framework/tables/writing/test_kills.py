"""Killed by SIGKILL at every fail point of sink and derivation and started again, the tables are those of a run left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skyband.framework.base import failpoints
from skyband.framework.base.failpoints import failpoint
from skyband.framework.storage import delta_read

BATCHES = 5
SCRIPT = f"""
import sys
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.factory import writer_for
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import commit
plan = make_plan(sys.argv[1], ("grp",))
changes = random_changes(plan, seed=6, batches={BATCHES}, steps=25)
sink = Sink(plan, writer_for(plan.sink), "g")
sink.ensure_all()
last = sink.last_run()
# Like Spark: the last batch may not have been marked done, so it comes again.
for n in range(0 if last is None else last["batch_id"], {BATCHES}):
    commit(sink, changes, n)
    if n == 2:
        derive(sink, n)
derive(sink, {BATCHES - 1})
"""
POINTS = ("sink.before:3", "sink.between", "sink.between:2", "sink.between:9", "sink.between:13", "sink.after:2", "sink.after:5")
DERIVE = ("derive.before", "derive.between", "derive.between:2", "derive.between:3", "derive.between:5", "derive.after", "derive.after:2")


def run(directory: Path, point: str | None = None) -> int:
    root = Path(__file__).resolve().parents[4]
    env = {k: v for k, v in os.environ.items() if k != "SKYBAND_FAILPOINT"} | ({"SKYBAND_FAILPOINT": point} if point else {})
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(directory)], env=env, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def content(directory: Path) -> dict[str, list[str]]:
    found = {}
    for path in sorted(p for p in directory.iterdir() if (p / "_delta_log").is_dir()):
        rows = delta_read.read(delta_read.open_table(directory, path.name))
        found[path.name] = sorted(repr(r) for r in rows.select([n for n in rows.column_names if not n.endswith("_ms")]).to_pylist())
    return found


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    directory = tmp_path_factory.mktemp("alone")
    assert run(directory) == 0
    return content(directory)


QUICK = ("sink.between:2", "derive.between:2")


@pytest.mark.chaos
@pytest.mark.parametrize("point", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in (*POINTS, *DERIVE)])
def test_killed_and_started_again(tmp_path: Path, left_alone: dict[str, list[str]], point: str) -> None:
    assert run(tmp_path, point) == -signal.SIGKILL
    assert run(tmp_path) == 0
    found = content(tmp_path)
    assert found == left_alone
    assert len(found["near"]) > 20 and len(found["runs"]) == BATCHES


def test_other_points_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda process, sig: killed.append(process))
    monkeypatch.setattr(failpoints, "_companions", [])  # a JVM that an earlier test started
    monkeypatch.setenv("SKYBAND_FAILPOINT", "here:2")
    failpoint("there")
    failpoint("here")
    assert killed == []
    failpoint("here")
    assert killed == [os.getpid()]
    failpoint("here")
    assert killed == [os.getpid()]
