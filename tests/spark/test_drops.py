"""A drop is a unit: what lies there when a run starts is as one file, whatever the order of its files and the bound of a batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.cuts import stream
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, table, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def by_time(rows: list[list[Any]], files: int) -> list[list[list[Any]]]:
    """The rows in files as of months: each has a span of event time of its own."""
    rows = sorted(rows, key=lambda r: r[1])
    size = -(-len(rows) // files)
    return [rows[i * size : (i + 1) * size] for i in range(files)]


def whole(spark: SparkSession, folder: Path, rows: list[list[Any]], finish: bool, **spec: Any) -> Path:
    folder.mkdir()
    write_file(folder, "all.csv", rows, at=0)
    run(spark, write_spec(folder, **spec), finish=finish)
    return folder


@pytest.mark.parametrize("keyed", [False, True])
def test_neither_order_nor_bounds_of_a_drop_matter(spark: SparkSession, tmp_path: Path, keyed: bool) -> None:
    rows = stream(8, 300)
    how: dict[str, Any] = {"partition": keyed, "buckets": 3 if keyed else None, "watermark": "10 minutes"}
    one = whole(spark, tmp_path / "one", rows, finish=keyed, **how)
    drop = tmp_path / "drop"
    drop.mkdir()
    spec = write_spec(drop, max_files=2, **how)
    if keyed:
        spec.write_text(spec.read_text().replace("max_files: 2", "max_bytes: 3k"))
    rng = random.Random(keyed)
    for i, some in enumerate(by_time(rows, 12)):
        write_file(drop, f"{i:02}.csv", some, at=rng.randrange(4))
    batches = run(spark, spec, finish=keyed)
    assert sum(b.get("rows_in") > 0 for b in batches) > 3
    assert_equal_tables(drop, one, same_cuts=False, same_files=False)
    assert max(r["frontier"] for r in table(drop, "runs").to_pylist()) == max(r["frontier"] for r in table(one, "runs").to_pylist())
    assert table(drop, "rejected").num_rows > 0 and not any(b.get("late") for b in batches)
