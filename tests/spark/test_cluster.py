"""Jobs on a real standalone cluster: the tables of ``local[2]``, whatever is killed; what does not fit is told before the first batch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, table, write_file
from tests.spark.kinds import KINDS, all_types, groups, types_of
from tests.spark.processes import PROC, Run, kill
from tests.spark.standalone import ROOT, WITHOUT, Cluster, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not PROC.is_dir(), reason="finds processes in /proc"),
]

ALL = "import sys; from skyband.jobs.cli import main; sys.exit(max(main(['run', spec, '--finish']) for spec in sys.argv[1:]))"
"""Runs many jobs with one engine."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers with a core each."""
    made = Cluster(tmp_path_factory.mktemp("standalone") / "cluster", python_path=str(ROOT))
    yield made
    made.close()


def job(directory: Path, kind: str, files: int = 4) -> Path:
    """A job of ``kind`` with rows in so many files, a batch each; its spec."""
    spec = KINDS[kind].write(directory, max_files=1)
    for n, rows in enumerate(groups(KINDS[kind].rows(11, 240), files, 11)):
        write_file(directory, f"{n}.csv", rows, at=n)
    return spec


def on_cluster(cluster: Cluster, spec: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a job there, to its end."""
    command = [sys.executable, "-m", "skyband.jobs.cli", "run", str(spec), "--finish"]
    return subprocess.run(
        command, env=environment(cluster, **env), capture_output=True, text=True, timeout=400, check=False, start_new_session=True
    )


def started(cluster: Cluster, spec: Path, **env: str) -> Run:
    """Starts a job there, and waits for its first batch."""
    command = [sys.executable, "-m", "skyband.jobs.cli", "run", str(spec), "--finish"]
    process = subprocess.Popen(
        command, env=environment(cluster, **env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    made = Run(process)
    assert made.wait_for_batches(1, 300), made.said
    return made


def ended(made: Run) -> None:
    """It comes to its end."""
    try:
        assert made.ended(400) and made.process.returncode == 0, made.said
    finally:
        kill(made.family)


def test_jobs_of_every_kind_come_to_the_tables_of_one_machine(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    assert set().union(*(types_of(KINDS[k].write(tmp_path / "types" / k, 1)) for k in KINDS)) == all_types()
    specs = [job(tmp_path / "cluster" / kind, kind, files=2) for kind in KINDS]
    done = subprocess.run(
        [sys.executable, "-c", ALL, *map(str, specs)], env=environment(cluster, PYTHONPATH=str(ROOT)), capture_output=True, text=True,
        timeout=1800, check=False, start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for kind in KINDS:
        run(spark, job(tmp_path / "local" / kind, kind, files=2))
        assert_equal_tables(tmp_path / "cluster" / kind, tmp_path / "local" / kind)
    assert all("Launch command" in cluster.log(name) for name in ("worker0", "worker1"))


@pytest.fixture(scope="module")
def alone(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keyed job, left alone on this machine."""
    directory = tmp_path_factory.mktemp("alone") / "keyed"
    run(spark, job(directory, "keyed"))
    return directory


def test_a_worker_killed_in_the_middle_of_a_batch(cluster: Cluster, alone: Path, tmp_path: Path) -> None:
    made = started(cluster, job(tmp_path / "keyed", "keyed"))
    # Its Python stands still: whichever batch is under way stays so.
    pythons = cluster.pythons("worker0")
    assert pythons
    for python in pythons:
        os.kill(python.pid, signal.SIGSTOP)
    time.sleep(3)
    stuck = len(made.batches)
    time.sleep(2)
    assert len(made.batches) == stuck and not made.ended(0.1)
    cluster.kill("worker0")
    ended(made)
    cluster.start_worker(0)
    assert_equal_tables(tmp_path / "keyed", alone)


def test_shards_run_on_two_workers(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    """Each of two shards has a task of its own; one worker is lost in the middle."""
    run(spark, job(tmp_path / "local" / "shards", "shards", files=3))
    made = started(cluster, job(tmp_path / "shards", "shards", files=3))
    assert cluster.pythons("worker0") and cluster.pythons("worker1")
    cluster.kill("worker0")
    ended(made)
    cluster.start_worker(0)
    assert_equal_tables(tmp_path / "shards", tmp_path / "local" / "shards")
    # What shards count comes by batch: both have searched.
    counted = [json.loads(row["counters"]) for row in table(tmp_path / "shards", "runs").to_pylist()]
    assert all(sum(c.get(f"shard.{n}.us", 0) for c in counted) > 0 for n in (0, 1))


def test_the_master_killed_and_started_again(cluster: Cluster, alone: Path, tmp_path: Path) -> None:
    made = started(cluster, job(tmp_path / "keyed", "keyed"))
    cluster.kill("master")
    time.sleep(2)
    cluster.start_master()
    ended(made)
    assert_equal_tables(tmp_path / "keyed", alone)


def test_the_driver_killed_and_submitted_again(cluster: Cluster, alone: Path, tmp_path: Path) -> None:
    spec = job(tmp_path / "keyed", "keyed")
    made = started(cluster, spec)
    kill(made.family)
    made.ended(30)
    # Between two tables of a batch, too.
    killed = on_cluster(cluster, spec, SKYBAND_FAILPOINT="sink.between:2")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = on_cluster(cluster, spec)
    assert done.returncode == 0, done.stderr
    assert_equal_tables(tmp_path / "keyed", alone)


def test_all_executors_lost(cluster: Cluster, alone: Path, tmp_path: Path) -> None:
    """The run ends instead of waiting for good, and the next one goes on."""
    spec = job(tmp_path / "keyed", "keyed")
    made = started(cluster, spec, SKYBAND_EXECUTOR_WAIT="3")
    for n in (0, 1):
        cluster.kill(f"worker{n}")
    assert made.ended(120) and made.process.returncode == 3 and any("SKY-E614" in line for line in made.output(10)), made.said
    for n in (0, 1):
        cluster.start_worker(n)
    done = on_cluster(cluster, spec)
    assert done.returncode == 0, done.stderr
    assert_equal_tables(tmp_path / "keyed", alone)


SEE = """
import os, sys
from pathlib import Path
from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.spark import executors
from skyband.framework.streaming.spark.session import get_session
spark = get_session("see")
there = Path("/proc/self/cwd/_skyband")  # what is there depends on who looks
there.mkdir()
for look in (lambda: executors.check(spark, there), lambda: executors.see(spark, str(there)), lambda: executors.see(spark, sys.argv[1])):
    try:
        look()
        print("seen")
    except SkybandError as e:
        print(e.code, e.message)
"""


def test_directories_that_executors_do_not_see_are_named(cluster: Cluster, tmp_path: Path) -> None:
    env = environment(cluster, PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", SEE, str(tmp_path)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    sink, source, seen = done.stdout.splitlines()
    assert sink.startswith("SKY-E613 the sink /proc/self/cwd is not seen by executors on ")
    assert source.startswith("SKY-E613 the source /proc/self/cwd/_skyband is not seen") and seen == "seen"
    assert list(tmp_path.iterdir()) == [tmp_path / "_skyband"] and not list((tmp_path / "_skyband").iterdir())


@pytest.mark.parametrize("python, said", [("/gone/python", "executors have no Python /gone/python"), (WITHOUT, "skyband ")])
def test_executors_with_another_environment_are_told_before_the_first_batch(tmp_path: Path, python: str, said: str) -> None:
    bare = Cluster(tmp_path / "cluster", workers=1)
    try:
        done = on_cluster(bare, job(tmp_path / "keyed", "keyed"), PYSPARK_PYTHON=python)
    finally:
        bare.close()
    assert done.returncode == 3 and "SKY-E612" in done.stderr and said in done.stderr, done.stderr
    assert not (tmp_path / "keyed" / "out" / "_skyband" / "checkpoint").exists()
