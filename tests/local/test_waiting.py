"""Rows that wait for the watermark are counted, and come with the next run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.jobs import run
from tests.spark.jobs import stamp, table, write_file, write_spec

pytestmark = pytest.mark.long


def test_rows_that_wait_are_counted_and_come_with_the_next_run(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, watermark="30 minutes")
    write_file(tmp_path, "1.csv", [[i, stamp(i), "p", i % 5, 1, "a"] for i in range(60)], at=1)
    run(spec, finish=False)
    last = max(table(tmp_path, "runs").to_pylist(), key=lambda r: r["batch_id"])
    assert last["pending"] == 31
    run(spec, finish=True)
    runs = table(tmp_path, "runs").to_pylist()
    assert sum(r["accepted"] for r in runs) == 60
    assert max(runs, key=lambda r: r["batch_id"])["pending"] == 0
