"""Airflow itself picks specs up that are dropped into the directory, runs them one after the other, and does not lose or double a row."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.airflow.home import BIN, FAR, ROOT, ROWS, Home
from tests.airflow.standalone import below, standalone
from tests.spark.jobs import changes, run_apart, sorted_rows, table, write_file, write_spec

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]
FILES = 30


def test_a_dropped_spec_runs_and_outlives_worker_and_user(home: Home, tmp_path: Path) -> None:
    with standalone(home) as airflow:
        home.job("small")
        done = lambda dag: home.rows(f"select 1 from dag_run where dag_id = '{dag}' and state = 'success'")  # noqa: E731
        airflow.until(lambda: done("small"), "the spec that was dropped does not run")
        assert set(home.events()) == {f"small.{t}" for t in ("far5", "far5_changes", "far5_now")}
        ((run,),) = home.rows("select run_id from dag_run where dag_id = 'small'")
        tasks = ("validate", "run", "quality_gate", "publish", "maintain")
        seen = look(f"{airflow.url}/dags/small/runs/{quote(run)}", tmp_path / "dag.png", *tasks)

        # Another one, on its news; and again news.
        place = home.job("later", files=FILES, schedule="{assets: [small.far5_now], retries: {count: 5, wait: 1 second}}")
        airflow.until(lambda: home.rows("select 1 from dag where dag_id = 'later'"), "no DAG comes of the second spec")
        write_file(home.directory / "small", "9.csv", ROWS[100:150], at=9)
        airflow.api("dags/small/dagRuns", {"logical_date": None})
        airflow.until(lambda: "batch 1:" in airflow.log("later", "run", 1), "news of an asset start nothing")

        # The worker dies; the run does not, and the next try goes on watching it.
        (jvm_pid,) = below(home, f"run\0{home.specs}/later.yaml")
        ((worker,),) = home.rows("select pid from task_instance where dag_id = 'later' and task_id = 'run'")
        os.kill(worker, signal.SIGKILL)
        airflow.until(lambda: "Reconnecting to existing job" in airflow.log("later", "run", 2), "the run is not found again")
        assert below(home, f"run\0{home.specs}/later.yaml") == [jvm_pid] and "process " not in airflow.log("later", "run", 2)

        # A user clears the task: the run ends, and the next one goes on from its checkpoint.
        ((run,),) = home.rows("select run_id from dag_run where dag_id = 'later'")
        asked = {"dry_run": False, "dag_run_id": run, "task_ids": ["run"], "only_failed": False}
        airflow.api("dags/later/clearTaskInstances", asked)
        airflow.until(lambda: jvm_pid not in below(home), "a cleared task's run goes on")
        airflow.until(lambda: done("later"), "the cleared run does not come to its end")
        assert not below(home, f"run\0{home.specs}/later.yaml")

    alone = tmp_path / "alone"
    (alone / "in").mkdir(parents=True)
    for file in (place / "in").iterdir():
        (alone / "in" / file.name).hardlink_to(file)
    left_alone = run_apart(write_spec(alone, max_files=1, job="later", queries=FAR))
    assert left_alone.returncode == 0, left_alone.stderr
    assert changes(place, "far5").equals(changes(alone, "far5"))
    for name in ("far5", "far5_now", "heads"):
        assert sorted_rows(table(place, name), ("batch_id",)) == sorted_rows(table(alone, name), ("batch_id",))
    if not seen:
        pytest.skip("all but the look at the page has passed: it needs chromium")


def look(url: str, file: Path, *texts: str) -> bool:
    """A real browser sees the texts on the page; its picture is kept where ``SKYBAND_PICTURES`` says. False where there is no browser."""
    if shutil.which("chromium") is None:
        return False
    done = subprocess.run(
        [BIN / "python", ROOT / "tests" / "airflow" / "browser.py", url, str(file), *texts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert file.stat().st_size > 10_000
    if directory := os.environ.get("SKYBAND_PICTURES"):
        shutil.copy(file, Path(directory) / "airflow.png")
    return True
