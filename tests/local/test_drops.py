"""A backlog counts as one file: neither the order of its files nor the bound of a batch changes what becomes of its rows."""

from __future__ import annotations

import random
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from skyband.framework.sources.files.backlog import FileBacklog
from skyband.framework.sources.logs import next_watermark
from tests.local.jobs import run, run_apart
from tests.spark.cuts import stream
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import table, write_file, write_spec

pytestmark = pytest.mark.long


def by_time(rows: list[list[Any]], files: int) -> list[list[list[Any]]]:
    """The rows in files as of months: each has a span of event time of its own."""
    rows = sorted(rows, key=lambda r: r[1])
    size = -(-len(rows) // files)
    return [rows[i * size : (i + 1) * size] for i in range(files)]


def watermark_of(directory: Path) -> int:
    """The watermark of a next batch: F, but for a finish."""
    return next_watermark(directory / "out" / "_skyband" / "checkpoint")


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_neither_order_nor_bounds_of_a_drop_matter(tmp_path: Path, keyed: bool) -> None:
    rows = stream(8, 300)
    how: dict[str, Any] = {"partition": keyed, "buckets": 3 if keyed else None, "watermark": "10 minutes"}
    one, drop = tmp_path / "one", tmp_path / "drop"
    for directory in (one, drop):
        directory.mkdir()
    write_file(one, "all.csv", rows, at=0)
    run(write_spec(one, **how), finish=keyed)
    spec = write_spec(drop, max_files=2, **how)
    if keyed:
        spec.write_text(spec.read_text().replace("max_files: 2", "max_bytes: 3k"))
    rng = random.Random(keyed)
    for i, some in enumerate(by_time(rows, 12)):
        write_file(drop, f"{i:02}.csv", some, at=rng.randrange(4))
    batches = run(spec, finish=keyed)
    assert sum(b.get("rows_in") > 0 for b in batches) > 3
    assert_equal_tables(drop, one, same_cuts=False, same_files=False)
    assert watermark_of(drop) == watermark_of(one) > 0
    assert table(drop, "rejected").num_rows > 0 and not any(b.get("late") for b in batches)


def test_footers_of_parquet_files_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    monkeypatch.setattr(FileBacklog, "rows", lambda self, spark, urls: read.append(urls))
    rows = [[r[0], datetime.fromisoformat(str(r[1])), r[2], float(str(r[3] or 0)), float(str(r[4])), r[5]] for r in stream(10, 120)]
    spec = write_spec(tmp_path, watermark="0 seconds", max_files=1)
    text = spec.read_text().replace("format: csv", "format: parquet").replace("  options: {header: true}\n", "")
    quality = text[text.index("quality:") : text.index("window:")]
    spec.write_text(text.replace(quality, ""))
    (tmp_path / "in").mkdir()
    parts = by_time(rows, 4)
    for i in (2, 1, 3, 0):
        columns = dict(zip(("id", "ts", "grp", "x", "y", "side"), map(list, zip(*parts[i], strict=True)), strict=True))
        made = pa.table(columns).set_column(1, "ts", pa.array(columns["ts"], pa.timestamp("us", "UTC")))
        pyarrow.parquet.write_table(made, tmp_path / "in" / f"{i}.parquet")
    batches = run(spec)
    assert sum(b.get("accepted") for b in batches) == 120 and read == []
    assert not any(b.get("rejected_parse") or b.get("late") for b in batches)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize("point", ["caps.planned", "sink.between:4", "state.after:3", "caps.released"])
def test_killed_in_the_middle_of_a_drop(tmp_path: Path, point: str) -> None:
    rows = stream(12, 240)
    parts = by_time(rows, 6)
    for directory, files in ((tmp_path / "one", 100), (tmp_path / "drop", 1)):
        directory.mkdir()
        write_spec(directory, watermark="10 minutes", max_files=files, partition=True)
    one, drop = tmp_path / "one", tmp_path / "drop"
    write_file(one, "all.csv", rows, at=0)
    for part in (4, 3, 2, 0):
        write_file(drop, f"{part}.csv", parts[part], at=9 - part)
    killed = run_apart(drop / "spec.yaml", failpoint=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    late = point == "caps.released"
    for part in (5,) if late else (5, 1):
        write_file(drop, f"{part}.csv", parts[part], at=20 - part)
    if late:
        # F has passed them: they would be late in any job.
        without = [r for i, p in enumerate(parts) if i != 1 for r in p]
        write_file(one, "all.csv", without, at=0)
    for directory in (one, drop):
        done = run_apart(directory / "spec.yaml", "--finish")
        assert done.returncode == 0, done.stderr
    assert_equal_tables(drop, one, same_cuts=False, same_files=False)
