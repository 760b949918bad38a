"""What a task does with a file that it reads itself, without a JVM. That Spark does the same, tests/spark/test_arrow.py shows."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.messages import COUNTS, Tally
from skyband.framework.base.reasons import REASON
from skyband.framework.base.types import readable
from skyband.framework.plan.compile import compile_job
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.csv import arrow_reader
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.parquet.arrow_reader import ParquetArrowReader
from skyband.framework.sources.protocol import CAP, ORIGIN
from skyband.framework.sources.values import arrow_column
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.rows.arrow_intake import URL, ArrowIntake, ReadAndPack, unsupported_file
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.framework.streaming.rows.config import CAPPED, WATERMARK, HostConfig
from skyband.framework.streaming.rows.hashes import xxhash64
from skyband.framework.streaming.rows.rejects import rejected
from tests.framework.plan.test_reader import SPEC

STAMP = pa.timestamp("us", "UTC")


def reader(root: Path, below: bool = False) -> ReadAndPack:
    job, _ = validate_text(SPEC, {})
    assert job is not None
    plan = compile_job(job)
    return ReadAndPack(HostConfig.of(plan, (), "cache"), ParquetArrowReader(str(root), below, plan.source.fields))


def write(path: Path, ids: list[int | None], times: list[int | None]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"id": pa.array(ids, pa.int64()), "ts": pa.array(times, pa.int64()).cast(STAMP), "x": pa.array([0.5] * len(ids))}
    pq.write_table(pa.table(columns), path)
    return path.as_uri()


def frame(urls: list[str], caps: list[int | None] | None = None) -> list[pa.RecordBatch]:
    columns = {URL: urls, ORIGIN: [u.rsplit("/", 1)[-1] for u in urls]} | ({} if caps is None else {CAP: pa.array(caps, pa.int64())})
    return [pa.RecordBatch.from_pydict(columns)]


def test_files_become_blocks_and_the_last_one_has_the_watermark(tmp_path: Path) -> None:
    urls = [write(tmp_path / "a b.parquet", [1, 2, None], [5, 9, 99]), write(tmp_path / "b.parquet", [3, 4], [7, None])]
    out = pa.Table.from_batches(reader(tmp_path)(iter(frame(urls)))).to_pylist()
    assert out[-1]["kind"] == COUNTS
    counts = Tally()
    counts.add(out[-1]["data"])
    assert counts == {"rows_in": 5, "null_id": 1, "null_time": 1, "sent": 3}
    assert int(out[-1][WATERMARK].timestamp() * 1e6) == 9
    rows = pa.concat_tables([bytes_table(r["data"]) for r in out if r["kind"] == "rows"])
    assert rows["id"].to_pylist() == [1, 2, 3]
    assert rows[ORIGIN].to_pylist() == ["a%20b.parquet", "a%20b.parquet", "b.parquet"]
    told = pa.concat_tables([bytes_table(r["data"]) for r in out if r["kind"] == "rejected"])
    assert told["reason"].to_pylist() == ["null_id", "null_time"]
    assert told["text"].to_pylist()[0] == '{"id":null,"ts":"1970-01-01T00:00:00.000099Z","x":0.5}'


def test_caps_bound_what_counts_for_the_watermark(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{name}.parquet", [1, 2], [5, 9]) for name in "ab"]
    out = pa.Table.from_batches(reader(tmp_path)(iter(frame(urls, [6, None])))).to_pylist()
    rows = pa.concat_tables([bytes_table(r["data"]) for r in out if r["kind"] == "rows"])
    assert rows[CAPPED].cast(pa.int64()).to_pylist() == [5, 6, 5, 9]
    assert int(out[-1][WATERMARK].timestamp() * 1e6) == 9


def test_files_that_only_spark_may_read(tmp_path: Path) -> None:
    inside = write(tmp_path / "day=1" / "a.parquet", [1], [1])
    summed = write(tmp_path / "b.parquet", [1], [1])
    (tmp_path / ".b.parquet.crc").write_bytes(b"crc")
    summary = write(tmp_path / "_metadata", [1], [1])
    for url, why in ((inside, "subdirectories"), (summed, "sums"), (summary, "sums"), ("s3://far/a.parquet", "machine")):
        with pytest.raises(UnsupportedFile, match=why) as found:
            list(reader(tmp_path).files.tables(url))
        assert found.value.lasting
    assert len(list(reader(tmp_path, below=True).files.tables(inside))) == 1


@pytest.mark.parametrize("damage", ["cut", "gone", "empty"])
def test_spark_reports_unreadable_files(tmp_path: Path, damage: str) -> None:
    url = write(tmp_path / "a.parquet", [1], [1])
    path = tmp_path / "a.parquet"
    if damage == "gone":
        os.remove(path)
    else:
        path.write_bytes(path.read_bytes()[:-20] if damage == "cut" else b"")
    with pytest.raises(RuntimeError) as found:
        list(reader(tmp_path)(iter(frame([url]))))
    why, lasting = unsupported_file(f"org.apache.spark.SparkException: ...\nRuntimeError: {found.value}\n  at java.lang") or ("", True)
    assert why.startswith("a file cannot be read") and not lasting
    assert unsupported_file("anything else") is None


def test_hashes_equal_sparks() -> None:
    """Values that Spark gives, for every length of text that its hash tells apart, and chained."""
    assert xxhash64([pa.array(["Spark"]), pa.array([[123]]).flatten().cast(pa.int32()), pa.array([2], pa.int32())], 1).tolist() == [
        5602566077635097486
    ]
    assert xxhash64([pa.array([None], pa.int64())], 1).tolist() == [42]
    assert xxhash64([pa.array(["skyband"])], 1).tolist() == [936675635048305179]


def test_csv_is_read_in_pieces_of_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_reader, "_PIECE", 24)
    lines = [f"{i},2020-01-01 00:00:{i:02},{'' if i == 3 else i / 4}" for i in range(30)]
    (tmp_path / "a.csv").write_text("\r\n".join(["id,ts,x", *lines[:10], "", "", *lines[10:]]), newline="")
    files = arrow_reader.CsvArrowReader(str(tmp_path), False, reader(tmp_path).files.fields, ("id", "ts", "x"), ",")  # type: ignore[attr-defined]
    tables = list(files.tables((tmp_path / "a.csv").as_uri()))
    assert len(tables) > 20
    rows = pa.concat_tables(tables)
    assert rows["id"].to_pylist() == list(range(30))
    assert rows["x"].to_pylist() == [None if i == 3 else i / 4 for i in range(30)]
    (tmp_path / "b.csv").write_text("id,ts,x\n" + "\n".join(lines) + "\n7,,\\\n")
    with pytest.raises(UnsupportedFile, match="backslashes"):
        list(files.tables((tmp_path / "b.csv").as_uri()))


def test_dates_and_instants_are_of_the_years_1_to_9999() -> None:
    """As ``Rows`` has it, which the tools use; tests/spark/test_one_verdict.py compares both with Spark."""
    text = SPEC.replace("ts: timestamp", "ts: timestamp, day: date, at: timestamp")
    job, errors = validate_text(text, {})
    assert job is not None, [e.render() for e in errors]
    node = compile_job(job).intake
    days = [None, -719_162, 2_932_896, -719_163, 2_932_897, 2**31 - 1, -(2**31), *[0] * 7]
    micros = [*[0] * 7, None, -62_135_596_800_000_000, 253_402_300_799_999_999, -62_135_596_800_000_001, 253_402_300_800_000_000, 2**63 - 1,
              -(2**63)]  # fmt: skip
    rows = [{"id": i, "ts": i, "x": 0.5, "day": d, "at": m} for i, (d, m) in enumerate(zip(days, micros, strict=True))]
    expected = [None] * 3 + ["year_range:day"] * 4 + [None] * 3 + ["year_range:at"] * 4
    named = {n: [r[n] for r in rows] for n in rows[0]}
    columns = {
        n: arrow_column([named.get(n, [None] * 14)[i] for i in range(14)], node.field(n).type) for n in (f.name for f in node.fields)
    }
    assert ArrowIntake(node).judged(pa.table(columns), "a")[REASON].to_pylist() == expected
    assert Rows(node).table(rows)[REASON].to_pylist() == expected
    told = rejected(ArrowIntake(node).judged(pa.table(columns), "a"), ["day", "at"], "r", "at", ORIGIN)
    assert [t is None for t in told["event_time"].to_pylist()] == [i in (7, 10, 11, 12, 13) for i in range(14)]
    assert told["text"][6].as_py().startswith('{"day":"<value out of range: -2147483648>"')
    assert readable(told)["event_time"].to_pylist() == told["event_time"].to_pylist()
    assert readable(pa.table(columns))["day"].null_count == 5
