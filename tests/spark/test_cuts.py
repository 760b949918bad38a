"""Spark cuts one stream into files, runs and tasks, and writes the tables of one batch of the local engine: all query types.

Nothing of what cuts do to a type needs Spark: tests/local has that, type by type.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.streaming.rows.outbox import LEAST
from skyband.framework.streaming.rows.shuffle_files import ShuffleFiles
from skyband.framework.streaming.spark.scratch import scratch_directory
from tests.local.jobs import run as run_by_local_engine
from tests.spark import jobs
from tests.spark.cuts import write
from tests.spark.equality import assert_equal_tables
from tests.spark.kinds import KINDS, MORE, OVER_RESULTS, Kind, all_types, types_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def one_of_each_type(kind: Kind) -> Kind:
    """Return the job with the first query of each type."""
    first: dict[str, str] = {}
    for entry in re.split("(?m)^(?=  [a-z])", kind.queries)[1:]:
        first.setdefault(entry.partition("type: ")[2].partition(",")[0], entry)
    return replace(kind, queries="".join(first.values()))


JOBS = {name: (KINDS | OVER_RESULTS)[name].from_files() for name in ("deletions", "loyalty", "results")}
FEWER = {"one of each type": one_of_each_type(JOBS["deletions"]), "loyalty": JOBS["loyalty"], "results": JOBS["results"]}
"""These have every query type, too."""
COLUMNS = (*jobs.COLUMNS, *MORE)
FILES = 8


def written(directory: Path, name: str, max_files: int) -> Path:
    spec = (JOBS | FEWER)[name].write(directory, max_files)
    jobs.without_row_rule(spec)
    return spec


@pytest.mark.parametrize("name", [*FEWER, pytest.param("deletions", marks=pytest.mark.slow)])
def test_files_runs_and_tasks_leave_no_trace(spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the way that rows go from task to task: by Spark, or in files that are gone afterwards."""
    in_files: list[int] = []
    remove = ShuffleFiles.done

    def done(self: ShuffleFiles, batch: int) -> None:
        in_files.append(len(list((Path(self._directory) / str(batch)).glob("*"))))
        remove(self, batch)

    monkeypatch.setattr(ShuffleFiles, "done", done)
    rows: list[Any] = (JOBS | FEWER)[name].rows(5, 240)
    whole, parts = (written(tmp_path / of, name, files) for of, files in (("whole", 100), ("parts", 3)))
    write(whole.parent, rows, 1, columns=COLUMNS)
    run_by_local_engine(whole)
    half = FILES // 2
    write(parts.parent, rows, FILES, slice(0, half), COLUMNS)
    jobs.run(spark, parts, finish=False, partitions=4)
    assert not any(in_files)
    monkeypatch.setenv(LEAST, "0")
    write(parts.parent, rows, FILES, slice(half, None), COLUMNS)
    jobs.run(spark, parts, partitions=4)
    assert sum(in_files) > 2 and not [p for p in (scratch_directory() / "rows").rglob("*") if p.is_file()]
    assert_equal_tables(parts.parent, whole.parent, same_cuts=False, same_files=False)


def test_the_jobs_have_every_query_type(tmp_path: Path) -> None:
    found: set[str] = set()
    for name in FEWER:
        found |= types_of(written(tmp_path / name, name, 1))
    assert found == all_types()
