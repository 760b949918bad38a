"""ORC that is read by Arrow: file by file what Spark reads, or left to Spark."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pytest

from skyband.framework.base.reasons import REASON
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.orc import arrow_reader
from skyband.framework.sources.orc.arrow_reader import OrcArrowReader, OrcType, column_types
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake
from skyband.framework.streaming.rows.intake import intake
from skyband.jobs.spec import load_plan
from tests.spark.test_arrow import STAMP, WIDE, bits, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INSTANTS = [None, 0, 1, -1_000_000, -2_208_988_800_000_000, 9_223_300_000_000_000, 1_600_000_000_123_456, 253_402_300]
BASE = rows(300) | {"ts": pa.array([INSTANTS[i % len(INSTANTS)] for i in range(300)], pa.int64()).cast(STAMP)}


def with_(**columns: Any) -> pa.Table:
    return pa.table(BASE | columns)


def clock(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()).cast(pa.timestamp("us"))


def files() -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    """Files that both read alike: name -> (content, how it is written)."""
    base = BASE
    return {
        "plain": (with_(), {}),
        "clock": (with_(ts=clock(base["ts"])), {}),
        "stripes": (pa.concat_tables([with_()] * 60), {"stripe_size": 4096, "batch_size": 100, "compression": "zstd"}),
        "coded": (with_(), {"dictionary_key_size_threshold": 1.0, "compression": "snappy"}),
        "none": (with_().slice(0, 0), {}),
        "upper": (with_().rename_columns([c.upper() for c in base]), {}),
        "fewer": (with_().drop_columns(["s", "m", "f"]), {}),
        "no_id": (with_().drop_columns(["id"]), {}),
        "turned": (pa.table(dict(reversed(base.items()))), {}),
        "more": (with_(other=pa.array([{"id": 1}] * 300), ids=pa.array([[1]] * 300)), {}),
        "int32": (with_(id=pa.array(range(300), pa.int32())), {}),
        "int8": (with_(id=pa.array([-5] * 300, pa.int8()), k=pa.array([7] * 300, pa.int16())), {}),
        "float32": (with_(x=base["f"]), {}),
    }


def odd_files() -> dict[str, pa.Table]:
    """Files that Spark has to read, or to refuse."""
    stamps = pa.array([datetime(2020, 1, 1)] * 300)
    return {
        "nanos": with_(ts=pa.array([1_600_000_000_123_456_789] * 300, pa.int64()).cast(pa.timestamp("ns"))),
        "early": with_(ts=pa.array([-1] * 300, pa.int64()).cast(STAMP)),
        "far": with_(ts=clock(pa.array([253_402_300_799_000_000] * 300, pa.int64()))),
        "old": with_(ts=pa.array([datetime(1899, 12, 31, tzinfo=UTC)] * 300, STAMP)),
        "old_day": with_(d=pa.array([date(1582, 10, 4)] * 300)),
        "bytes": with_(s=BASE["s"].cast(pa.binary())),
        "no_text": with_(s=pa.Array.from_buffers(pa.string(), 300, pa.array([b"\xff"] * 300).buffers())),
        "other_scale": with_(m=pa.array([Decimal("1.5")] * 300, pa.decimal128(10, 1))),
        "twice": pa.table([*BASE.values(), BASE["id"]], [*BASE, "ID"]),
        "text_for_number": with_(id=BASE["s"]),
        "wider": with_(k=BASE["id"]),
        "positions": with_().rename_columns([f"_col{i}" for i in range(len(BASE))]),
        "day_for_time": with_(ts=pa.array([date(2020, 1, 1)] * 300)),
        "others": pa.table({"other": stamps}),
    }


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "in").mkdir()
    (tmp_path / "spec.yaml").write_text(WIDE.format(directory=tmp_path).replace("format: parquet", "format: orc"))
    return load_plan(str(tmp_path / "spec.yaml"))


def written_by_spark(spark: SparkSession, zone: str, path: Path) -> None:
    """Write the rows by Spark, on a machine whose time zone is ``zone``."""
    zones = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        spark.createDataFrame(with_()).coalesce(1).write.orc(str(path.with_suffix("")))
    finally:
        zones.setDefault(before)
    next(path.with_suffix("").glob("*.orc")).rename(path)


def test_files_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path, plan: Plan) -> None:
    """Every value, reason and hash, file by file."""
    names = [*files(), "of_spark", "of_berlin"]
    for name, (content, how) in files().items():
        pa.orc.write_table(content, str(tmp_path / "in" / f"{name}.orc"), **how)
    written_by_spark(spark, "UTC", tmp_path / "in" / "of_spark.orc")
    written_by_spark(spark, "Europe/Berlin", tmp_path / "in" / "of_berlin.orc")
    assert pa.orc.ORCFile(str(tmp_path / "in" / "stripes.orc")).nstripes > 2
    mine = OrcArrowReader(str(tmp_path / "in"), False, plan.source.fields)
    paths = [tmp_path / "in" / f"{name}.orc" for name in names]
    theirs = intake(spark_reader.files(spark, plan.source, None, False, [str(p) for p in paths]), plan.intake).toArrow()
    reasons = set()
    for path in paths:
        made = [ArrowIntake(plan.intake).judged(t, path.name) for t in mine.tables(path.as_uri())]
        expected = theirs.filter(pc.equal(theirs[ORIGIN], path.name))
        assert sum(t.num_rows for t in made) == expected.num_rows, path.name
        if made:
            whole = pa.concat_tables(made).select(expected.column_names)
            reasons |= set(whole[REASON].to_pylist())
            assert bits(whole.cast(expected.schema)).equals(bits(expected)), path.name
    assert reasons == {None, "null_id", "null_time", "time_range", "null_key", "int_range"}


def test_files_that_spark_has_to_read(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = OrcArrowReader(str(tmp_path / "in"), False, plan.source.fields)
    for name, content in odd_files().items():
        path = tmp_path / "in" / f"{name}.orc"
        pa.orc.write_table(content, str(path))
        with pytest.raises(UnsupportedFile) as found:
            list(mine.tables(path.as_uri()))
        assert found.value.lasting, name
    good = tmp_path / "in" / "good.orc"
    pa.orc.write_table(with_(ts=clock(BASE["ts"])), str(good))
    assert sum(t.num_rows for t in mine.tables(good.as_uri())) == 300
    with monkeypatch.context() as elsewhere, pytest.raises(UnsupportedFile, match="a file has timestamp"):
        elsewhere.setattr(time, "tzname", ("CET", "CEST"))
        list(mine.tables(good.as_uri()))
    damaged = tmp_path / "in" / "damaged.orc"
    for data in (good.read_bytes()[:-30], good.read_bytes()[200:], b"", b"ORC"):
        damaged.write_bytes(data)
        with pytest.raises(UnsupportedFile) as found:
            list(mine.tables(damaged.as_uri()))
        assert not found.value.lasting


def test_types_in_the_footer(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow shows the texts of ``char`` and ``varchar`` as those of ``string``; a type of Spark's own stands beside that of ORC."""
    path = tmp_path / "in" / "a.orc"
    pa.orc.write_table(with_(ts=clock(BASE["ts"])), str(path))
    tail = pa.orc.ORCFile(str(path)).reader.serialized_file_tail()
    types = column_types(tail)
    assert types == {n: OrcType(kind, b"") for n, kind in zip(BASE, (4, 9, 3, 6, 5, 7, 0, 15, 14, 14), strict=True)}
    mine = OrcArrowReader(str(tmp_path / "in"), False, plan.source.fields)
    for name, kind, written in (("s", 16, b""), ("s", 17, b""), ("ts", 9, b"timestamp_ntz")):
        monkeypatch.setattr(arrow_reader, "column_types", lambda tail, other=(name, kind, written): types | {other[0]: OrcType(*other[1:])})
        with pytest.raises(UnsupportedFile, match=f"where {name} is"):
            list(mine.tables(path.as_uri()))
    (attribute,) = [column_types(_with_attribute(tail))[n] for n in ("ts",)]
    assert attribute == OrcType(9, b"timestamp_ntz")


def _with_attribute(tail: bytes) -> bytes:
    """The tail of a file with what Spark writes beside the type of ``ts``."""
    text = b"\n\x17spark.sql.catalyst.type\x12\rtimestamp_ntz"
    pair = b":" + bytes([len(text)]) + text
    clock_type = b'"\x08\x08\x09 \x00(\x000\x00'
    assert tail.count(clock_type) == 1
    made = tail.replace(clock_type, b'"' + bytes([8 + len(pair)]) + clock_type[2:] + pair)
    # The length of the footer, which is the second field.
    at = tail.index(b"\x12", tail[1] + 2) + 1
    size = (tail[at] & 127) + (tail[at + 1] << 7) + len(pair)
    return made[:at] + bytes([(size & 127) | 128, size >> 7]) + made[at + 2 :]
