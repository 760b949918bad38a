"""``skyband submit`` on a cluster whose workers have no Skyband: the tables of ``local[2]``, from an archive that is made once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run
from tests.spark.processes import PROC
from tests.spark.standalone import WITHOUT, Cluster, environment
from tests.spark.test_cluster import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not PROC.is_dir(), reason="finds processes in /proc"),
]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose workers have no Skyband. What executors have unpacked is large, and goes at the end."""
    directory = tmp_path_factory.mktemp("bare") / "cluster"
    made = Cluster(directory)
    yield made
    made.close()
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's directory, where the archive stays."""
    directory = tmp_path_factory.mktemp("cache")
    directory.chmod(0o700)
    yield directory
    shutil.rmtree(directory)


def on(cluster: Cluster, cache: Path, command: str, spec: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a job there by ``command``, to its end."""
    env = environment(cluster, SKYBAND_CACHE=str(cache), **more)
    asked = [sys.executable, "-m", "skyband.jobs.cli", command, str(spec), "--finish"]
    return subprocess.run(asked, env=env, cwd=spec.parent, capture_output=True, text=True, timeout=400, check=False, start_new_session=True)


def test_a_job_on_machines_without_skyband(spark: SparkSession, bare: Cluster, cache: Path, tmp_path: Path) -> None:
    # Without the archives nothing comes of it.
    refused = on(bare, cache, "run", job(tmp_path / "refused", "keyed"), PYSPARK_PYTHON=WITHOUT)
    assert refused.returncode == 3 and "SKY-E612" in refused.stderr, refused.stderr

    # Kernels that are compiled here go with them.
    run(spark, job(tmp_path / "local", "keyed"))
    spec = job(tmp_path / "submitted", "keyed")
    before = {p.name for p in spec.parent.iterdir()}
    done = on(bare, cache, "submit", spec)
    assert done.returncode == 0 and "packing " in done.stderr, done.stderr
    assert_equal_tables(tmp_path / "submitted", tmp_path / "local")
    # Nothing is left where the command was started.
    assert {p.name for p in spec.parent.iterdir()} - before == {"out"}

    # Executors had the driver's Skyband from the archive, and no way into the driver's directories.
    places = list(bare.directory.glob("work*/app-*/*/skyband-code/skyband/__init__.py"))
    assert {p.relative_to(bare.directory).parts[0] for p in places} == {"work0", "work1"}
    packages = list(bare.directory.glob("work*/app-*/*/environment/lib/python*/site-packages"))
    assert len(packages) == len(places)
    assert not [p for place in packages for p in place.iterdir() if p.name == "skyband" or p.name.startswith("__editable__")]

    archives = {p.name: p.stat().st_ino for p in (cache / "environments").glob("*.tar.gz")}
    assert sorted(name.partition("-")[0] for name in archives) == ["environment", "skyband"]
    again = on(bare, cache, "submit", job(tmp_path / "again", "keyed"))
    assert again.returncode == 0 and "packing " not in again.stderr, again.stderr
    assert_equal_tables(tmp_path / "again", tmp_path / "local")
    assert {p.name: p.stat().st_ino for p in (cache / "environments").glob("*.tar.gz")} == archives
