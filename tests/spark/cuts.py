"""One stream cut into files, batches, runs and partitions in different ways: the jobs of the cut tests, and what must be equal."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.jobs.reading import verify
from skyband.jobs.spec import load_plan
from tests.spark.jobs import COLUMNS, changes, run, sorted_rows, stamp, table, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def write(directory: Path, rows: list[list[object]], files: int, only: slice = slice(None), columns: Sequence[str] = COLUMNS) -> None:
    size = -(-len(rows) // files)
    for i in list(range(files))[only]:
        write_file(directory, f"{i:03}.csv", rows[i * size : (i + 1) * size], at=10 * i, columns=columns)


def job(
    spark: SparkSession | None,
    directory: Path,
    rows: list[list[object]],
    partitions: int,
    max_files: int,
    files: int,
    restart: bool,
    keyed: bool,
    prepare: Callable[[Path], None] = lambda directory: None,
    **spec: Any,
) -> Path:
    """A finished job over ``rows`` in ``files`` files, in one run or two; ``prepare`` writes what its spec needs beside it. Its
    directory. Without a session the local engine runs it, which divides nothing among ``partitions``."""
    directory.mkdir()
    prepare(directory)
    path = write_spec(directory, partition=keyed, max_files=max_files, buckets=3 if keyed else None, **spec)
    columns = (*COLUMNS, *spec.get("more", ()))
    if restart:
        write(directory, rows, files, slice(0, files // 2), columns)
        run(spark, path, finish=False, partitions=partitions)
        write(directory, rows, files, slice(files // 2, None), columns)
    else:
        write(directory, rows, files, columns=columns)
    run(spark, path, partitions=partitions)
    return directory


def whole_and_in_parts(
    spark: SparkSession | None, directory: Path, rows: list[list[object]], keyed: bool, **more: Any
) -> tuple[Path, Path]:
    """The same job in one file, batch, run and partition, and in nine files, two runs and two partitions."""
    whole = job(spark, directory / "whole", rows, partitions=1, max_files=100, files=1, restart=False, keyed=keyed, **more)
    parts = job(spark, directory / "parts", rows, partitions=2, max_files=3, files=9, restart=True, keyed=keyed, **more)
    return whole, parts


def same(whole: Path, parts: Path, query: str, streams: Sequence[str]) -> pa.Table:
    """Asserts that both jobs, and the bucket without Spark, gave the same changes, and equal results; the changes."""
    expected = changes(whole, query, streams)
    assert expected.num_rows > 25
    assert changes(parts, query, streams).equals(expected), query
    assert expected.equals(without_spark(whole, query, streams)), query
    for of in (query, f"{query}_now"):
        assert sorted_rows(table(parts, of)) == sorted_rows(table(whole, of)), of
    return expected


def verified(spec: Path) -> bool:
    """What ``skyband verify`` says."""
    parsers = argparse.ArgumentParser().add_subparsers()
    verify.add_parser(parsers)
    words = [str(spec), "--keys", "3", "--instants", "40", "--seed", "1"]
    return verify.run(parsers.choices["verify"].parse_args(words)).code == 0


def without_spark(directory: Path, query: str, keys: Sequence[str]) -> pa.Table:
    """The same job's changes by the bucket's code alone, fed from the CSV files in one block."""
    plan = load_plan(str(directory / "spec.yaml"))
    config = HostConfig.of(plan, (), "test")
    files = sorted((directory / "in").glob("*.csv"))
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
    reference = changes(directory, query, keys)
    return got.select(reference.column_names).cast(reference.schema)
