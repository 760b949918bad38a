"""Two sources of different formats through Spark: backlogs, several runs and kills give the changes of all rows in their order."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.framework.rehearsal.test_several_sources import ALIKE, MINUTE, QUERIES, SPEC, changes, plan_of, rows_of, run
from tests.spark.cuts import verified
from tests.spark.jobs import run as run_here
from tests.spark.jobs import run_apart, stamp, table

pytestmark = pytest.mark.spark


def spec_of(directory: Path) -> Path:
    path = directory / "spec.yaml"
    path.write_text(SPEC.replace("/nowhere", str(directory)) + "run: {max_files: 1}\n")
    for name in ("asks", "bids"):
        (directory / name).mkdir()
    return path


def write(directory: Path, source: str, number: int, rows: list[dict[str, Any]], modified: int) -> None:
    path = directory / source / f"_{number}"
    with path.open("w", newline="") as file:
        given = [{n: stamp(v / MINUTE) if n == "at" else v for n, v in r.items() if n != "source"} for r in rows]
        if source == "asks":
            out = csv.DictWriter(file, ["id", "at", "symbol", "price"])
            out.writeheader()
            out.writerows(given)
        else:
            file.writelines(json.dumps(r) + "\n" for r in given)
    os.utime(path, (1_600_000_000 + modified, 1_600_000_000 + modified))
    path.rename(directory / source / f"{number}.{'csv' if source == 'asks' else 'json'}")


def found(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    made = {}
    for q in QUERIES:
        rows = table(directory, f"{q}_changes").to_pylist()
        made[q] = sorted(tuple(v for n, v in r.items() if n != "batch_id") for r in rows)
    return made


@pytest.fixture(scope="module")
def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rng = random.Random(3)
    return rows_of(rng, 30, "asks", 3), rows_of(rng, 24, "bids", 5)


@pytest.fixture(scope="module")
def expected(rows: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> dict[str, list[tuple[Any, ...]]]:
    start = 1_577_836_800_000_000  # that of ``stamp``
    return changes(run(plan_of(ALIKE), [[r | {"at": r["at"] + start} for of in rows for r in of]]))


def test_a_backlog_in_any_order_of_its_files(spark: SparkSession, tmp_path: Path, rows: Any, expected: Any) -> None:
    spec = spec_of(tmp_path)
    asks, bids = rows
    # The files of bids come in the wrong order, and one source has all its files before the other's second.
    for i, modified in enumerate((0, 1, 2)):
        write(tmp_path, "asks", i, asks[10 * i : 10 * i + 10], modified)
    for i, modified in enumerate((30, 10, 20)):
        write(tmp_path, "bids", i, bids[8 * i : 8 * i + 8], modified)
    batches = run_here(spark, spec)
    assert sum(b.get("rows_in") for b in batches) == 54 and sum(sum(b.rejected().values()) for b in batches) == 0
    assert found(tmp_path) == expected and verified(spec)


@pytest.mark.slow
def test_runs_and_kills_change_nothing(tmp_path: Path, rows: Any, expected: Any) -> None:
    spec = spec_of(tmp_path)
    asks, bids = rows
    for part, failpoint in enumerate(("caps.released", "state.after", None)):
        write(tmp_path, "asks", part, asks[10 * part : 10 * part + 10], part)
        write(tmp_path, "bids", part, bids[8 * part : 8 * part + 8], part)
        if failpoint is not None:
            killed = run_apart(spec, failpoint=failpoint)
            assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path) == expected
