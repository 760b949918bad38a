"""Runs of a spec's DAG whose connection names a cluster, in a real Airflow and on a real standalone cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.airflow.home import FAR, ROWS, Home
from tests.spark.jobs import changes, run_apart, table, write_file, write_spec
from tests.spark.standalone import ROOT, Cluster

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
SCHEDULE = "{cron: '@daily', connection: spark_prod, retries: {count: 0}}"
PASSWORD = "hunter2hunter2"


def test_a_spec_with_a_connection_runs_on_its_cluster(home: Home, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", python_path=str(ROOT))
    try:
        home.more |= {
            "AIRFLOW_CONN_SPARK_PROD": f"{cluster.url}?spark.executorEnv.SOME_TOKEN={PASSWORD}&spark.executor.memory=900m",
            "PYSPARK_PYTHON": sys.executable,
        }
        place = home.job("small", schedule=SCHEDULE)
        done = home.airflow("dags", "test", "small", seconds=900)
        ran = cluster.log("worker0")
    finally:
        cluster.close()
    said = done.stdout + done.stderr
    assert home.states() == dict.fromkeys(("validate", "run", "quality_gate", "publish", "maintain"), "success"), said
    assert "-Xmx900M" in ran and PASSWORD not in ran and PASSWORD not in said
    assert not [p for p in (place / "out" / "_skyband" / "logs").iterdir() if PASSWORD in p.read_text(errors="replace")]
    # What one machine makes of it.
    alone = tmp_path / "alone"
    for n in range(2):
        write_file(alone, f"{n}.csv", ROWS[50 * n : 50 * (n + 1)], at=n)
    assert run_apart(write_spec(alone, max_files=1, job="small", queries=FAR)).returncode == 0
    assert changes(place, "far5").equals(changes(alone, "far5")) and table(place, "far5_changes").num_rows > 0


def test_a_connection_that_cannot_be_used_fails_the_run_at_once(home: Home) -> None:
    home.job("small", files=0, schedule=SCHEDULE.replace("count: 0", "count: 5"))
    done = home.airflow("dags", "test", "small")
    assert home.states()["run"] == "failed" and "the run has no cluster" in done.stdout + done.stderr
    home.more["AIRFLOW_CONN_SPARK_PROD"] = f"postgres://me:{PASSWORD}@db:5432/x"
    done = home.airflow("dags", "test", "small")
    said = done.stdout + done.stderr
    assert home.states()["run"] == "failed" and "of type 'postgres', not 'spark'" in said and PASSWORD not in said
