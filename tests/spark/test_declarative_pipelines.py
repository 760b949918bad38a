"""The example of docs/how-to/declarative-pipelines.md: Spark Declarative Pipelines makes a table, and a job follows it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from skyband.framework.base.java import find_java_home
from skyband.framework.streaming.spark.session import SHIPPED
from skyband.jobs.cli import main

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROJECT = Path(__file__).resolve().parents[2] / "specs" / "pipelines"
HEADER = "date,carrier,flight,origin,dest,departed,air_time"
STORAGE = "file:///srv/flights/storage"


def day(number: int) -> str:
    """Return the departures of a day as CSV: one in ten is cancelled, one in twenty has no time in the air."""
    chance, rows = random.Random(number), [HEADER]
    for flight in range(40):
        minute = chance.randrange(6 * 60, 22 * 60)
        departed = "" if chance.random() < 0.1 else f"2013-01-{number:02d}T{minute // 60:02d}:{minute % 60:02d}:00"
        air_time = "" if not departed or chance.random() < 0.05 else chance.randrange(280, 400)
        carrier, origin, dest = chance.choice(["AA", "UA"]), chance.choice(["JFK", "EWR"]), chance.choice(["SFO", "LAX"])
        rows.append(f"2013-01-{number:02d},{carrier},{flight},{origin},{dest},{departed},{air_time}")
    return "\n".join(rows) + "\n"


class Pipeline:
    """A copy of the example in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.home, self.files = directory / "pipelines", directory / "files"
        shutil.copytree(PROJECT, self.home, ignore=shutil.ignore_patterns("__pycache__"))
        self.files.mkdir()
        settings, spec = self.home / "conf" / "spark-defaults.conf", self.home / "spark-pipeline.yaml"
        # Download what Skyband downloads, and no more; the rest is among Spark's own jars.
        settings.write_text(f"{settings.read_text()}\nspark.jars.excludes {','.join(SHIPPED)}\n")
        assert STORAGE in spec.read_text()
        spec.write_text(spec.read_text().replace(STORAGE, (directory / "storage").as_uri()))

    def run(self) -> None:
        """Run the pipeline. Skip the test if it cannot be started here."""
        command, java = Path(sys.executable).parent / "spark-pipelines", find_java_home()
        if not command.exists() or java is None:
            pytest.skip("spark-pipelines, or Java, is not installed")
        # SPARK_TESTING: the server of Spark Connect, which the command starts, takes a free port instead of 15002.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
        env |= {"FILES": str(self.files), "SPARK_CONF_DIR": str(self.home / "conf"), "JAVA_HOME": str(java), "SPARK_TESTING": "1"}
        env |= {"PYSPARK_PYTHON": sys.executable, "PATH": f"{command.parent}:{os.environ['PATH']}"}
        done = subprocess.run([command, "run"], cwd=self.home, env=env, capture_output=True, text=True, check=False, timeout=900)
        said = done.stdout + done.stderr
        if "Starting run..." not in said:
            pytest.skip(f"spark-pipelines cannot be started here: {said[-2000:]}")
        assert done.returncode == 0 and "Run is COMPLETED" in said, said[-5000:]

    def operations(self, table: str) -> set[str]:
        """Return what the commits of one of its tables were."""
        return {str(commit["operation"]) for commit in DeltaTable(str(self.home / "spark-warehouse" / table)).history()}


def changes(tables: Path) -> list[dict[str, Any]]:
    """Return the changes of the query without what depends on batches and on how many rows came before."""
    rows = DeltaTable(str(tables / "parted_changes")).to_pyarrow_table().to_pylist()
    kept = [{k: v for k, v in row.items() if k in KEPT or k.startswith(("older_", "newer_"))} for row in rows]
    return sorted(kept, key=lambda row: [str(row[k]) for k in sorted(row)])


KEPT = {"changed_at", "change", "score", "cause"}


def test_a_job_follows_the_streaming_table_of_a_pipeline(spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of each: the result is that of the same rows read from the files themselves."""
    pipeline = Pipeline(tmp_path)
    monkeypatch.setenv("LANDING", str(pipeline.home / "spark-warehouse"))
    monkeypatch.setenv("WAREHOUSE", str(tmp_path / "tables"))
    followed, direct = pipeline.home / "departures.yaml", tmp_path / "direct.yaml"
    text = followed.read_text()
    for old, new in {
        "job: departures": "job: direct",
        "format: delta": "format: csv\n  options: {header: true}",
        "${LANDING}/departures": str(pipeline.files),
        "${WAREHOUSE}/departures": "${WAREHOUSE}/direct",
        "window: ": "quality: {max_rejected: 100%}\nwindow: ",  # cancelled flights, which the pipeline leaves out
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    direct.write_text(text)
    for numbers, how in (([1, 2], "--once"), ([3], "--finish")):
        for number in numbers:
            (pipeline.files / f"{number}.csv").write_text(day(number))
        pipeline.run()
        assert main(["run", str(followed), how, "--quiet"]) == 0
        assert main(["run", str(direct), how, "--quiet"]) == 0
    found = changes(tmp_path / "tables" / "departures")
    assert len(found) > 10 and found == changes(tmp_path / "tables" / "direct")
    # What the page says about the kinds of tables.
    assert pipeline.operations("departures") == {"CREATE TABLE", "STREAMING UPDATE", "SET TBLPROPERTIES"}
    assert "TRUNCATE" in pipeline.operations("routes")
