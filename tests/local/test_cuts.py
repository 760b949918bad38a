"""The change stream is a function of the accepted rows alone: files, batches and restarts leave no trace (docs/semantics 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.local.jobs import run
from tests.spark.cuts import job, stream, without_spark
from tests.spark.jobs import QUERIES, changes, stamp, table, write_file, write_spec

pytestmark = pytest.mark.long
NAMES = ("far5", "far3", "near4", "hourly")


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_files_and_restarts_leave_no_trace(tmp_path: Path, keyed: bool) -> None:
    rows = stream(5)
    keys = ("grp",) if keyed else ()
    results = {}

    def one(name: str, **how: Any) -> Path:
        directory = job(None, tmp_path / name, rows, keyed=keyed, partitions=1, **how)
        results[name] = {q: changes(directory, q, keys) for q in NAMES}
        return directory

    first = one("one", max_files=100, files=1, restart=False)
    one("seven", max_files=2, files=7, restart=True)
    one("fifty", max_files=20, files=50, restart=False)
    for q in NAMES:
        assert results["one"][q].num_rows > 50
        assert results["seven"][q].equals(results["one"][q]), q
        assert results["fifty"][q].equals(results["one"][q]), q
    runs = table(first, "runs").to_pylist()
    assert sum(r["rows_in"] for r in runs) == len(rows)
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    assert table(first, "rejected").num_rows == sum(r["rejected"] for r in runs) > 0
    assert results["one"]["far5"].equals(without_spark(first, "far5", keys))


def test_equal_timestamps_across_two_files_lose_nothing(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, watermark="0 seconds", queries=QUERIES, max_files=1, window="{count: 600}")
    same = [[i, stamp(0), "p", i % 7, i % 3, "a"] for i in range(505)]
    write_file(tmp_path, "1.csv", same[:250], at=1)
    write_file(tmp_path, "2.csv", same[250:], at=2)
    write_file(tmp_path, "3.csv", [[9999, stamp(1), "p", 1, 1, "b"]], at=3)
    run(spec)
    runs = table(tmp_path, "runs").to_pylist()
    assert sum(r["accepted"] for r in runs) == 506
    assert sum(r["rejected"] for r in runs) == 0
    assert table(tmp_path, "heads")["last_seq"].to_pylist() == [505]
