"""What a checkpoint holds of source files that are long gone goes, and Spark goes on from what is left."""

from __future__ import annotations

import json

import pytest

from skyband.framework.sources.files.format import files_taken
from skyband.framework.sources.files.log_pruning import pruned
from tests.spark.jobs import run, stamp, table, write_file, write_spec

pytestmark = pytest.mark.spark

INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"


def test_a_run_goes_on_from_a_list_without_the_files_that_are_long_gone(spark, tmp_path):
    spec = write_spec(tmp_path, queries="  near4: {type: topk_pairs, scoring: near, k: 4}\n", watermark="0 seconds", max_files=1)

    def file(n):
        write_file(tmp_path, f"{n}.csv", [[10 * n + i, stamp(10 * n + i), "p", i % 5, 1, "a"] for i in range(4)], at=n)

    for n in range(5):
        file(n)
    usual = spark.conf.get(INTERVAL)
    spark.conf.set(INTERVAL, "2")
    try:
        run(spark, spec, finish=False)
        home = tmp_path / "out" / "_skyband"
        assert [p.name for p in (home / "checkpoint" / "sources" / "0").glob("*.compact")] != []
        (home / "taken.json").write_text(json.dumps([["2020-01-01T00:00:00+00:00", 2]]))
        for n in range(3):
            (tmp_path / "in" / f"{n}.csv").unlink()
        for n in (5, 6):
            file(n)
        run(spark, spec, finish=False)
        taken = sorted(path.rpartition("/")[2] for path in files_taken(home / "checkpoint"))
        assert (taken, pruned(home / "checkpoint")) == (["3.csv", "4.csv", "5.csv", "6.csv"], 3)
        # Spark has read the list, and written it anew itself: nothing comes twice.
        runs = table(tmp_path, "runs").to_pylist()
        assert [r["rows_in"] for r in runs if r["rows_in"]] == [4] * 7
        assert sum(r["rejected"] for r in runs) == 0
    finally:
        spark.conf.set(INTERVAL, usual)
