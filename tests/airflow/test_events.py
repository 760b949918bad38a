"""Events of tables in a real Airflow, with a command that stands in for Skyband's, so without Spark. Its outcomes are in a file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skyband.airflow_dags.skyband_airflow import announcements, child
from tests.airflow.home import BIN, Home

pytestmark = [pytest.mark.airflow, pytest.mark.slow]
COMMAND = """\
import json, os, pathlib, subprocess, sys, time
here, words = pathlib.Path(__file__).parent, sys.argv[1:]
with open(here / "calls.jsonl", "a") as calls:
    calls.write(json.dumps([words, os.getpid()]) + "\\n")
if words[0] == "run":
    runs = sum(json.loads(line)[0][0] == "run" for line in open(here / "calls.jsonl"))
    outcome = json.loads((here / "outcomes.json").read_text())[runs - 1]
    if outcome is None:
        engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (here / "engine").write_text(str(engine.pid))
    while outcome is None:
        time.sleep(0.1)
    pathlib.Path(words[words.index("--outcome") + 1]).write_text(json.dumps(outcome))
    sys.exit(outcome["exit_code"])
if words[:2] == ["airflow", "batches"]:
    print(json.dumps({"batches": {"count": 2, "first": 1, "last": 2}, "changes": {"far": 21}, "rejected": {"late": 3}}))
"""
PROGRAM = """\
import json, sys
sys.path.insert(0, {loader!r})
from skyband_airflow.dags import dags
(dag,) = dags([json.loads({fact!r})], {words!r})
if __name__ == "__main__":
    found = []
    for _ in range({runs}):
        run = dag.test()
        found.append({{ti.task_id: str(ti.state) for ti in run.get_task_instances()}})
    print("STATES", json.dumps(found))
"""
SCHEDULE = {
    "id": "small", "cron": "@daily", "assets": [], "description": "", "owner": "me", "tags": [], "paused": False, "timeout": None,
    "retries": {"count": 0, "wait": 1, "longest": 1}, "maintain": 86400, "connection": None,
}  # fmt: skip


def outcome(code: int, first: int | None, last: int, before: int | None, version: int) -> dict[str, Any]:
    count = 0 if first is None else last - first + 1
    return {
        "exit_code": code, "status": "done" if code == 0 else "checks_failed", "job": "small", "last_batch": last, "wall_seconds": 1,
        "batches": {"count": count, "first": first, "last": None if first is None else last}, "changes": {"far": 10 * count},
        "rows": {"in": count, "rejected": {}}, "tables": {"far_now": {"from": before, "to": version, "id": "t"}}, "checks": [],
        "ended_at": "2024-01-01T00:00:00", "errors": [],
    }  # fmt: skip


def program_of(home: Home, directory: Path, outcomes: list[Any]) -> Path:
    """A program that runs a DAG once per outcome; None: a run that goes on until it is stopped."""
    (directory / "outcomes.json").write_text(json.dumps(outcomes))
    (directory / "command.py").write_text(COMMAND)
    fact = {
        "file": str(directory / "small.yaml"), "job": "small", "findings": None, "schedule": SCHEDULE, "tables": {"far_now": "far"},
        "text": "", "plan": "", "graph": "",
    }  # fmt: skip
    loader, words = str(Path(announcements.__file__).resolve().parents[1]), [sys.executable, str(directory / "command.py")]
    program = directory / "program.py"
    program.write_text(PROGRAM.format(loader=loader, fact=json.dumps(fact), words=words, runs=len(outcomes)))
    home.more |= {"AIRFLOW__CORE__DAGS_FOLDER": str(directory)}
    return program


def test_events_cover_everything_since_the_last_one(home: Home, tmp_path: Path) -> None:
    """A run that publishes, one whose gate fails, one that finds nothing, and again one that finds nothing."""
    outcomes = [outcome(0, 0, 0, None, 1), outcome(1, 1, 2, 1, 3), outcome(0, None, 2, 3, 3), outcome(0, None, 2, 3, 3)]
    program = program_of(home, tmp_path, outcomes)
    done = subprocess.run([BIN / "python", program], env=home.env, capture_output=True, text=True, timeout=900, check=False)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("STATES ")] or [done.stdout + done.stderr]
    states = [(run["quality_gate"], run["publish"]) for run in json.loads(line.removeprefix("STATES "))]
    assert states == [("success", "success"), ("failed", "upstream_failed"), ("success", "success"), ("success", "skipped")]
    events = [json.loads(extra) for (extra,) in home.rows("select extra from asset_event order by id")]
    assert [e["versions"] for e in events] == [{"from": None, "to": 1, "id": "t"}, {"from": 1, "to": 3, "id": "t"}]
    assert [e["changes"] for e in events] == [10, 21] and [e["last_batch"] for e in events] == [0, 2]
    assert events[1]["rejected"] == {"late": 3} and events[1]["batches"] == {"count": 2, "first": 1, "last": 2}
    calls = [json.loads(text)[0] for text in (tmp_path / "calls.jsonl").read_text().splitlines()]
    counted = [words for words in calls if words[:2] == ["airflow", "batches"]]
    assert counted == [["airflow", "batches", f"{tmp_path}/small.yaml", "--after=0", "--upto=2", "--format", "json"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_dag_test_that_is_ended_ends_its_run(number: int, home: Home, tmp_path: Path) -> None:
    program = program_of(home, tmp_path, [None])
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([BIN / "python", program], env=home.env, stdout=log, stderr=log, start_new_session=True)
    pids: list[int] = []
    try:
        end = time.monotonic() + 300
        while not (tmp_path / "engine").exists() or not (tmp_path / "engine").read_text():
            assert process.poll() is None and time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.1)
        run = next(pid for words, pid in map(json.loads, (tmp_path / "calls.jsonl").read_text().splitlines()) if words[0] == "run")
        pids = [run, int((tmp_path / "engine").read_text())]
        assert all(child._started(pid) is not None for pid in pids)
        process.send_signal(number)
        while any(child._started(pid) is not None for pid in pids):
            assert time.monotonic() < end, "the run goes on"
            time.sleep(0.1)
        process.wait(120)
    finally:
        for pid in (process.pid, *pids):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    assert home.rows("select 1 from asset_event") == []
