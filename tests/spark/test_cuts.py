"""The change stream is a function of the accepted rows alone: files, restarts and partitions leave no trace (architecture 3.4)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from skyband.framework.streaming.bucket import Bucket
from skyband.framework.streaming.config import HostConfig
from tests.spark.jobs import QUERIES, changes, run, stamp, table, write_file, write_spec

pytestmark = pytest.mark.spark
NAMES = ("far5", "far3", "near4", "hourly")


def stream(seed: int, n: int = 420) -> list[list[object]]:
    """Rows with ties, duplicate ids, nulls and disorder of up to 50 minutes."""
    rng = random.Random(seed)
    rows: list[tuple[float, list[object]]] = []
    for i in range(n):
        minute = i * 2 + rng.choice([0, 0, 1])
        ident = rng.randrange(n) if rng.random() < 0.15 else 10_000 + i
        x = "" if rng.random() < 0.05 else rng.randrange(12)
        rows.append((minute, [ident, stamp(minute), rng.choice("pqr"), x, rng.randrange(4), rng.choice("ab")]))
    rows.sort(key=lambda r: r[0] + rng.random() * 50)
    return [r for _, r in rows]


def write(folder: Path, rows: list[list[object]], files: int, only: slice = slice(None)) -> None:
    size = -(-len(rows) // files)
    for i in list(range(files))[only]:
        write_file(folder, f"{i:03}.csv", rows[i * size : (i + 1) * size], at=10 * i)


@pytest.mark.parametrize("keyed", [False, True])
def test_files_restarts_and_partitions_leave_no_trace(spark, tmp_path, keyed):
    rows = stream(5)
    keys = ("grp",) if keyed else ()
    results = {}

    def one(name: str, partitions: int, max_files: int, files: int, restart: bool) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        spec = write_spec(folder, partition=keyed, max_files=max_files, buckets=3 if keyed else None)
        if restart:
            write(folder, rows, files, slice(0, files // 2))
            run(spark, spec, finish=False, partitions=partitions)
            write(folder, rows, files, slice(files // 2, None))
        else:
            write(folder, rows, files)
        run(spark, spec, partitions=partitions)
        results[name] = {q: changes(folder, q, keys) for q in NAMES}
        return folder

    first = one("one", partitions=1, max_files=100, files=1, restart=False)
    one("seven", partitions=4 if keyed else 1, max_files=2, files=7, restart=True)
    one("fifty", partitions=4, max_files=20, files=50, restart=False)
    for q in NAMES:
        assert results["one"][q].num_rows > 50
        assert results["seven"][q].equals(results["one"][q]), q
        assert results["fifty"][q].equals(results["one"][q]), q
    runs = table(first, "runs").to_pylist()
    assert sum(r["rows_in"] for r in runs) == len(rows)
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    assert table(first, "rejected").num_rows == sum(r["rejected"] for r in runs) > 0
    assert results["one"]["far5"].equals(without_spark(first, "far5", keys))


def without_spark(folder: Path, query: str, keys: tuple[str, ...]):
    """The same job's changes by the bucket's code alone, fed from the CSV files in one block."""
    import pyarrow as pa
    import pyarrow.csv

    from skyband.framework.streaming.blocks import bytes_table, table_bytes
    from skyband.jobs.spec import load_plan

    plan = load_plan(str(folder / "spec.yaml"))
    config = HostConfig.of(plan, (), "test")
    files = sorted((folder / "in").glob("*.csv"))
    options = pa.csv.ConvertOptions(
        column_types={f.name: f.type for f in config.row_schema() if not f.name.startswith("__")}, strings_can_be_null=True
    )
    rows = pa.concat_tables([pa.csv.read_csv(f, convert_options=options) for f in files])
    for name in config.row_schema().names:
        if name == "__origin":
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
        elif name.startswith("__h"):
            rows = rows.append_column(name, rows["id"])
        elif name.startswith("__k"):
            rows = rows.append_column(name, rows["grp"].combine_chunks().dictionary_encode().indices.cast(pa.int64()))
    bucket = Bucket(config, 0)
    newest = max(rows["ts"].cast(pa.int64()).to_pylist())
    out = bucket.run([table_bytes(rows.select(config.row_schema().names))], 0)
    out += bucket.run([], newest // 1000 + 1)
    parts = [bytes_table(data) for kind, data in out if kind == f"changes:{query}"]
    got = pa.concat_tables(parts).sort_by([(k, "ascending") for k in (*keys, "step", "pos")])
    reference = changes(folder, query, keys)
    return got.select(reference.column_names).cast(reference.schema)


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
