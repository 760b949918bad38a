"""Rows of the source found again by their position: the very rows at it, from the files that are asked for."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.sources.csv.format import CsvFormat
from skyband.framework.tables.sql.data_dictionary import source as source_sql
from skyband.framework.tables.sql.source_read import numbered_rows, why_not
from tests.framework.sources.test_position import csv_text, plan_of

CELLS = ["1", "", "x", "4", "5", "y", "7"]


@pytest.mark.parametrize("seed", range(4))
def test_only_rows_at_the_positions_are_found(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    for name in ("a.csv", "b.csv.gz", "c.csv"):
        data = csv_text(CELLS, blank=rng.choice(["", "\n"])).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    wanted = {(rng.choice(["a.csv", "b.csv.gz", "gone.csv"]), rng.randrange(1, 10)) for _ in range(6)}
    keys = pa.table({"file": [f for f, _ in wanted], "file_row": pa.array([n for _, n in wanted], pa.int64())})
    read: list[str] = []
    first_rows = CsvFormat.first_rows

    def noted(self: CsvFormat, source, path: str, most: int, found) -> None:  # type: ignore[no-untyped-def]
        read.append(Path(path).name)
        first_rows(self, source, path, most, found)

    monkeypatch.setattr(CsvFormat, "first_rows", noted)
    files = [str(f) for f in sorted(tmp_path.iterdir())]
    found = numbered_rows(plan_of(tmp_path).source, files, keys)
    there = {(name, n) for name, n in wanted if name != "gone.csv" and n <= len(CELLS) and CELLS[n - 1] not in ("x", "y")}
    assert found.column_names == ["ts", "x", "file", "file_row"]
    rows = {(r["file"], r["file_row"]): r["x"] for r in found.to_pylist()}
    assert rows == {(name, n): float(CELLS[n - 1]) if CELLS[n - 1] else None for name, n in there} and len(rows) == found.num_rows
    assert set(read) == {name for name, _ in wanted} - {"gone.csv"} and len(read) == len(set(read))


def test_options_with_which_only_spark_numbers_rows(tmp_path: Path) -> None:
    assert why_not(plan_of(tmp_path, options="{encoding: windows-1252}").source) is None
    assert "multiline" in str(why_not(plan_of(tmp_path, options="{multiLine: true}").source))


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "trino"])
def test_other_engines_do_not_number_rows(tmp_path: Path, dialect: str) -> None:
    text = source_sql(plan_of(tmp_path, "parquet"), dialect)
    assert all(line.startswith("-- ") for line in text.splitlines()) and "file_row bigint" in text
