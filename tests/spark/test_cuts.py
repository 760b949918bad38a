"""The change stream is a function of the accepted rows alone: files, restarts and partitions leave no trace (docs/semantics 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skyband.framework.streaming.rows.outbox import LEAST
from skyband.framework.streaming.rows.shuffle_files import ShuffleFiles
from skyband.framework.streaming.spark.scratch import scratch_directory
from tests.spark.cuts import job, stream, without_spark
from tests.spark.jobs import QUERIES, changes, run, stamp, table, write_file, write_spec

pytestmark = pytest.mark.spark
NAMES = ("far5", "far3", "near4", "hourly")


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_files_restarts_and_partitions_leave_no_trace(spark, tmp_path, keyed, monkeypatch):
    """Nor does the way that rows go from task to task: by Spark, or in files that are gone afterwards."""
    rows = stream(5)
    in_files = []
    remove = ShuffleFiles.done

    def done(self: ShuffleFiles, batch: int) -> None:
        in_files.append(len(list((Path(self._directory) / str(batch)).glob("*"))))
        remove(self, batch)

    monkeypatch.setattr(ShuffleFiles, "done", done)
    keys = ("grp",) if keyed else ()
    results = {}

    def one(name: str, **how: Any) -> Path:
        directory = job(spark, tmp_path / name, rows, keyed=keyed, **how)
        results[name] = {q: changes(directory, q, keys) for q in NAMES}
        return directory

    first = one("one", partitions=1, max_files=100, files=1, restart=False)
    assert not any(in_files)
    monkeypatch.setenv(LEAST, "0")
    one("seven", partitions=4 if keyed else 1, max_files=2, files=7, restart=True)
    one("fifty", partitions=4, max_files=20, files=50, restart=False)
    assert sum(in_files) > 7 and not [p for p in (scratch_directory() / "rows").rglob("*") if p.is_file()]
    for q in NAMES:
        assert results["one"][q].num_rows > 50
        assert results["seven"][q].equals(results["one"][q]), q
        assert results["fifty"][q].equals(results["one"][q]), q
    runs = table(first, "runs").to_pylist()
    assert sum(r["rows_in"] for r in runs) == len(rows)
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    assert table(first, "rejected").num_rows == sum(r["rejected"] for r in runs) > 0
    assert results["one"]["far5"].equals(without_spark(first, "far5", keys))


def test_equal_timestamps_across_two_files_lose_nothing(spark, tmp_path):
    spec = write_spec(tmp_path, watermark="0 seconds", queries=QUERIES, max_files=1, window="{count: 600}")
    same = [[i, stamp(0), "p", i % 7, i % 3, "a"] for i in range(505)]
    write_file(tmp_path, "1.csv", same[:250], at=1)
    write_file(tmp_path, "2.csv", same[250:], at=2)
    write_file(tmp_path, "3.csv", [[9999, stamp(1), "p", 1, 1, "b"]], at=3)
    run(spark, spec)
    runs = table(tmp_path, "runs").to_pylist()
    assert sum(r["accepted"] for r in runs) == 506
    assert sum(r["rejected"] for r in runs) == 0
    assert table(tmp_path, "heads")["last_seq"].to_pylist() == [505]
