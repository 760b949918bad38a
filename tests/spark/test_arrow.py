"""Sources that tasks read by Arrow: the same rows and tables as when Spark reads them, and files that Spark has to read."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.parquet.arrow_reader import ParquetArrowReader
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake
from skyband.framework.streaming.rows.intake import intake
from skyband.framework.streaming.run import query
from skyband.framework.streaming.run.stream import SparkTasks
from skyband.jobs.spec import load_plan
from tests.spark.jobs import run, sorted_rows, table

pytestmark = pytest.mark.spark

WIDE = """\
job: wide
source:
  format: parquet
  path: "{directory}/in"
  schema:
    {{id: bigint, ts: timestamp, k: int, x: double, f: float, s: string, b: boolean, d: date, m: "decimal(10,2)", n: "decimal(30,3)"}}
  id: [id, s, d, b]
  event_time: {{column: ts}}
  partition_by: [k]
window: {{count: 4}}
scoring:
  high: {{expression: x, direction: max}}
queries:
  best: {{type: topk, scoring: high, k: 2, where: "id > 0 and ts > timestamp '1970-01-01T00:00:00Z'"}}
sink: {{path: "{directory}/out"}}
"""
STAMP = pa.timestamp("us", "UTC")
YEAR_9999 = 253_402_128_000_000_000


def rows(n: int, seed: int = 0) -> dict[str, pa.Array]:
    """Columns with nulls, ends of ranges, odd floats, and texts of all lengths that the hash tells apart."""
    rng = np.random.default_rng(seed)

    def some(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([values[i] if rng.random() > 0.08 else None for i in rng.integers(0, len(values), n)], type_)

    texts = ["", "a", "äö\n", "\0", '"quoted\\', *("x" * i + "yz" for i in range(1, 70))]
    instants = [0, -1, 1, YEAR_9999, YEAR_9999 + 1, 1_600_000_000_123_456, -2_208_988_800_000_000, 2**62]
    return {
        "id": some([0, -1, 2**63 - 1, -(2**63), *range(50)], pa.int64()),
        "ts": some(instants + [1_600_000_000_000_000 + i for i in range(20)], pa.int64()).cast(STAMP),
        "k": some([0, -(2**31), 2**31 - 1, 7], pa.int32()),
        "x": some([0.0, -0.0, float("nan"), float("inf"), 1e-310, 0.1], pa.float64()),
        "f": some([0.0, -0.0, float("nan"), 1.5, 3e38], pa.float32()),
        "s": some(texts, pa.string()),
        "b": some([True, False], pa.bool_()),
        "d": some([date(1900, 1, 1), date(1970, 1, 1), date(9999, 12, 31), date(2024, 2, 29)], pa.date32()),
        "m": some([Decimal("0.00"), Decimal("-99999999.99"), Decimal("12.30")], pa.decimal128(10, 2)),
        "n": some([Decimal("0.001"), Decimal("-123456789012345678901234567.890")], pa.decimal128(30, 3)),
    }


def with_(name: str, column: Any, n: int = 300) -> pa.Table:
    return pa.table(rows(n) | {name: column})


def files() -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    """Files that both read alike: name -> (content, how it is written)."""
    base = rows(300)
    micros = base["ts"].cast(pa.int64())
    millis = pa.array([None if v is None else v // 1000 for v in micros.to_pylist()], pa.int64())
    found: dict[str, tuple[pa.Table, dict[str, Any]]] = {
        "plain": (pa.table(base), {}),
        "seeds": (
            pa.table(rows(2000, 1)),
            {"row_group_size": 70, "data_page_size": 100, "compression": "zstd", "data_page_version": "2.0"},
        ),
        "none": (pa.table(base).slice(0, 0), {}),
        "plain_encoding": (pa.table(base), {"use_dictionary": False, "compression": "none", "store_schema": False}),
        "upper": (pa.table(base).rename_columns([c.upper() for c in base]), {}),
        "fewer": (pa.table(base).drop_columns(["s", "m", "f"]), {}),
        "no_id": (pa.table(base).drop_columns(["id"]), {}),
        "turned": (pa.table(dict(reversed(base.items()))), {}),
        "more": (pa.table(base | {"other": pa.array([{"id": 1}] * 300), "ids": pa.array([[1]] * 300)}), {}),
        "int32": (with_("id", pa.array(range(300), pa.int32())), {}),
        "int8": (pa.table(base | {"id": pa.array([-5] * 300, pa.int8()), "k": pa.array([7] * 300, pa.int16())}), {}),
        "float32": (with_("x", base["f"]), {}),
        "millis": (with_("ts", millis.cast(pa.timestamp("ms", "UTC"))), {}),
        "zone": (with_("ts", micros.cast(pa.timestamp("us", "Europe/Berlin"))), {}),
        "large": (with_("s", base["s"].cast(pa.large_string())), {}),
    }
    return found


def odd_files() -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    """Files that Spark has to read, or to refuse."""
    base = rows(300)
    stamps = pa.array([datetime(2020, 1, 1)] * 300)
    return {
        "nanos": (with_("ts", stamps.cast(pa.timestamp("ns", "UTC"))), {"version": "2.6"}),
        "no_zone": (with_("ts", stamps.cast(pa.timestamp("us"))), {}),
        "int96": (with_("ts", stamps.cast(pa.timestamp("us", "UTC"))), {"use_deprecated_int96_timestamps": True}),
        "old": (with_("ts", pa.array([datetime(1899, 12, 31, tzinfo=UTC)] * 300, STAMP)), {}),
        "old_day": (with_("d", pa.array([date(1582, 10, 4)] * 300)), {}),
        "bytes": (with_("s", base["s"].cast(pa.binary())), {}),
        "no_text": (with_("s", pa.Array.from_buffers(pa.string(), 300, pa.array([b"\xff"] * 300).buffers())), {}),
        "unsigned": (with_("k", pa.array([1] * 300, pa.uint32())), {}),
        "other_scale": (with_("m", pa.array([Decimal("1.5")] * 300, pa.decimal128(10, 1))), {}),
        "twice": (pa.table([*base.values(), base["id"]], [*base, "ID"]), {}),
        "dictionary": (with_("s", base["s"].dictionary_encode()), {}),
        "text_for_number": (with_("id", base["s"]), {}),
    }


def bits(made: pa.Table) -> pa.Table:
    """A table whose floats are their bits: what differs by -0.0 or is no number can be compared."""
    for i, f in enumerate(made.schema):
        if pa.types.is_floating(f.type):
            column = made[f.name].combine_chunks()
            width = pa.int64() if f.type == pa.float64() else pa.int32()
            made = made.set_column(i, f.name, pa.Array.from_buffers(width, len(column), column.buffers(), offset=column.offset))
    return made


def test_arrow_gives_what_the_engine_gives(spark, tmp_path):
    """Every value, reason and hash, file by file."""
    (tmp_path / "in").mkdir()
    (tmp_path / "spec.yaml").write_text(WIDE.format(directory=tmp_path))
    plan = load_plan(str(tmp_path / "spec.yaml"))
    for name, (content, how) in {**files(), **odd_files()}.items():
        pq.write_table(content, tmp_path / "in" / f"{name}.parquet", **how)
    mine = ParquetArrowReader(str(tmp_path / "in"), False, plan.source.fields)
    paths = [tmp_path / "in" / f"{name}.parquet" for name in files()]
    frame = intake(spark_reader.files(spark, plan.source, None, False, [str(p) for p in paths]), plan.intake)
    theirs = frame.toArrow()
    reasons = set()
    for path in paths:
        made = [ArrowIntake(plan.intake).judged(t, path.name) for t in mine.tables(path.as_uri())]
        expected = theirs.filter(pa.compute.equal(theirs[ORIGIN], path.name))
        assert sum(t.num_rows for t in made) == expected.num_rows, path.name
        if made:
            whole = pa.concat_tables(made).select(expected.column_names)
            reasons |= set(whole["__reason"].to_pylist())
            assert bits(whole.cast(expected.schema)).equals(bits(expected)), path.name
    assert reasons == {None, "null_id", "null_time", "time_range", "null_key", "int_range"}
    for name in odd_files():
        with pytest.raises(UnsupportedFile) as found:
            list(mine.tables((tmp_path / "in" / f"{name}.parquet").as_uri()))
        assert found.value.lasting, name


SMALL = """\
job: small
source:
  format: parquet
  path: "{directory}/in"
  {more}
  schema: {{id: bigint, ts: timestamp, g: string, x: double}}
  id: [id]
  event_time: {{column: ts, watermark: 10 minutes}}
  partition_by: [g]
quality: {{max_rejected: 100%}}
window: {{count: 40}}
scoring:
  near: {{expression: "abs(a.x - b.x)", direction: min}}
queries:
  near: {{type: topk_pairs, scoring: near, k: 5}}
sink: {{path: "{directory}/out"}}
run: {{max_files: {max_files}, buckets: 2}}
"""


def content(n: int = 500, seed: int = 5) -> pa.Table:
    """Rows with nulls, ids that come twice, and disorder of up to an hour: some are late."""
    rng = np.random.default_rng(seed)
    minutes = np.arange(n) * 2 - np.where(rng.random(n) < 0.1, rng.integers(0, 60, n), 0)
    ids = 10_000 + np.arange(n) - np.where(rng.random(n) < 0.1, rng.integers(1, 6, n), 0)
    times = 1_600_000_000_000_000 + minutes * 60_000_000
    return pa.table({
        "id": pa.array(ids, mask=rng.random(n) < 0.03), "ts": pa.array(times, mask=rng.random(n) < 0.03).cast(STAMP),
        "g": pa.array(rng.choice(["p", "q", "ü"], n), mask=rng.random(n) < 0.03), "x": pa.array(rng.random(n)),
    })  # fmt: skip


def write(directory: Path, name: str, rows: pa.Table, at: int) -> Path:
    (directory / "in").mkdir(parents=True, exist_ok=True)
    path = directory / "in" / name
    pq.write_table(rows, path)
    os.utime(path, (1_600_000_000 + at, 1_600_000_000 + at))
    return path


def spec(directory: Path, max_files: int, more: str = "") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "spec.yaml"
    path.write_text(SMALL.format(directory=directory, max_files=max_files, more=more))
    return path


def tables_of(directory: Path) -> dict[str, list[str]]:
    """What a job's tables say, whatever batches it came in."""
    return {name: sorted_rows(table(directory, name), without=["batch_id"]) for name in ("near_changes", "near", "rejected", "heads")}


@pytest.mark.parametrize("arrow", [True, False])
def test_a_query_keeps_its_settings_and_the_session_its_own(spark, tmp_path, monkeypatch, arrow):
    """Steps that move blocks are not compiled; what Spark makes of rows is."""
    if not arrow:
        monkeypatch.setattr(query, "by_arrow", lambda plan, job: False)
    names = ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    seen = []

    as_it_is = SparkTasks.run

    def batch(tasks, made, *about):
        seen.append(tuple(made.sparkSession.conf.get(n) for n in names))
        return as_it_is(tasks, made, *about)

    monkeypatch.setattr(SparkTasks, "run", batch)
    path = spec(tmp_path, max_files=10)
    write(tmp_path, "0.parquet", content(60), 0)
    spark.conf.set(names[0], "3")
    before = [spark.conf.get(n) for n in names]
    run(spark, path, partitions=1)
    run(spark, path, partitions=3)
    assert {*seen} == {("1", "false", "NO_CODEGEN") if arrow else ("1", "true", "FALLBACK")}
    assert [spark.conf.get(n) for n in names] == before


@pytest.mark.slow
def test_one_checkpoint_serves_both_readers(spark, tmp_path, monkeypatch):
    """A job that Arrow begins, a file hands to Spark in the middle of a drop and another run goes on with; one by Spark alone."""
    all_rows = content()
    parts = [all_rows.slice(i * 125, 125) for i in range(4)]
    parts[2] = parts[2].set_column(2, "g", parts[2]["g"].combine_chunks().dictionary_encode())
    made = {}
    for name in ("both", "engine"):
        directory = tmp_path / name
        path = spec(directory, max_files=1)
        if name == "engine":
            monkeypatch.setattr(query, "by_arrow", lambda plan, job: False)
        for i in (0, 1, 2):
            write(directory, f"{i}.parquet", parts[i], i)
            if i == 0:
                run(spark, path, finish=False)
                assert Layout(str(directory / "out")).known().engine_reads == ""
        run(spark, path, finish=False)
        assert ("dictionary" in Layout(str(directory / "out")).known().engine_reads) == (name == "both")
        write(directory, "3.parquet", parts[3], 3)
        run(spark, path)
        made[name] = tables_of(directory)
    for reason in ("late", "duplicate_id", "null_id", "null_key", "null_time"):
        assert any(f"('reason', '{reason}')" in row for row in made["both"]["rejected"]), reason
    assert len(made["both"]["near_changes"]) > 400
    assert made["both"] == made["engine"]


def test_a_damaged_file_is_set_aside_as_ever_and_arrow_comes_back(spark, tmp_path):
    path = spec(tmp_path, max_files=10, more="on_bad_file: reject")
    write(tmp_path, "0.parquet", content(60), 0)
    bad = write(tmp_path, "1.parquet", content(60, 6), 1)
    bad.write_bytes(bad.read_bytes()[:-30])
    os.utime(bad, (1_600_000_001, 1_600_000_001))
    run(spark, path)
    rejected = table(tmp_path, "rejected").to_pylist()
    assert [r["origin"] for r in rejected if r["reason"] == "bad_file"] == ["1.parquet"]
    assert Layout(str(tmp_path / "out")).known().engine_reads == ""
    assert sum(DeltaTable(str(tmp_path / "out" / "runs")).to_pyarrow_table()["rows_in"].to_pylist()) == 61
