"""Jobs whose tasks write all files themselves, rows for each other too: the tables of jobs whose rows go by the driver; with kills."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.streaming.rows.outbox import LEAST
from skyband.framework.tables.results import derive as parts
from tests.seeds import cases
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, write_file
from tests.spark.kills import chain, summary, unclean
from tests.spark.kinds import KINDS, groups
from tests.spark.processes import PROC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_tasks_are_the_rows_of_the_driver(spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for way, least in (("tasks", "0"), ("driver", str(1 << 40))):
        monkeypatch.setenv(LEAST, least)
        directory = tmp_path / way
        spec = KINDS[kind].write(directory, max_files=1)
        for n, rows in enumerate(groups(KINDS[kind].rows(11, 240), 3, 11)):
            write_file(directory, f"{n}.csv", rows, at=n)
        # Results likewise: part by part in tasks, and at once in the driver.
        monkeypatch.setattr(parts, "PART_ROWS", 20 if way == "tasks" else 1_000_000)
        run(spark, spec)
        written = [f for f in (directory / "out").glob("*_changes/*.parquet") if re.match(r"part-\d{8}-\d+-", f.name)]
        assert bool(written) == (way == "tasks")
    assert_equal_tables(tmp_path / "tasks", tmp_path / "driver")


@pytest.mark.chaos
@pytest.mark.skipif(not PROC.is_dir(), reason="finds the processes of a run in /proc")
def test_killed_while_tasks_write_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEAST, "0")
    made = chain(spark, tmp_path / "chain", "keyed", seed=57, kills=cases(5))
    assert not made.faults and not made.unequal, summary([made])
    assert not unclean(made.kills), unclean(made.kills)
