"""What Spark reads the columns of Parquet files as: every type against every declared one, told here and held against Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.sources.columnar import column_types
from skyband.framework.sources.columnar.files import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MICROS = [1_577_836_800_000_000 + i * 1_000_000 for i in range(3)]
DECIMALS = ["1.25", "2.50", "3.00"]
UNITS = (("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1))
UTC = pa.timestamp("us", "UTC")
KINDS: dict[str, Any] = {
    **{f"int{n}": pa.array([1, 2, 3], getattr(pa, f"int{n}")()) for n in (8, 16, 32, 64)},
    **{f"uint{n}": pa.array([1, 2, 2**n - 5], getattr(pa, f"uint{n}")()) for n in (8, 16, 32, 64)},
    "float": pa.array([1.5, 2, 3], pa.float32()), "double": pa.array([1.5, 2, 3]), "bool": pa.array([True, False, None]),
    "string": pa.array(["a", "b", None]), "large_string": pa.array(["a", "b", None], pa.large_string()),
    "binary": pa.array([b"a", b"b", b"c"]),
    "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(), "date": pa.array([1, 2, 3], pa.date32()),
    **{f"decimal{p}_{s}": pa.array(DECIMALS).cast(pa.decimal128(p, s)) for p, s in ((9, 2), (18, 4), (38, 10))},
    **{f"ts_{u}": pa.array([m * 1000 // k for m in MICROS], pa.timestamp(u)) for u, k in UNITS}, "ts_utc": pa.array(MICROS, UTC),
    "ts_berlin": pa.array(MICROS, pa.timestamp("us", "Europe/Berlin")),
    "ns_utc": pa.array([m * 1000 + 7 for m in MICROS], pa.timestamp("ns", "UTC")), "time": pa.array([1, 2, 3], pa.time64("us")),
    "ints": pa.array([[1, 2], [3], None], pa.list_(pa.int32())), "bigints": pa.array([[1, 2], [3], None], pa.list_(pa.int64())),
    "floats": pa.array([[1.5], [2, 3], None], pa.list_(pa.float32())), "doubles": pa.array([[1.5], [2, 3], None], pa.list_(pa.float64())),
    "texts": pa.array([["a"], ["b"], None]), "null": pa.nulls(3), "int96": pa.array([m * 1000 for m in MICROS], pa.timestamp("ns")),
    "struct": pa.array([{"a": 1}, None, {"a": 2}]), "float16": pa.array([1.5, 2, 3]).cast(pa.float16()),
}  # fmt: skip
DECLARED = (
    "int", "bigint", "float", "double", "string", "boolean", "timestamp", "date", "decimal(9,2)", "decimal(18,4)", "decimal(20,0)",
    "decimal(38,10)", "array<int>", "array<bigint>", "array<string>", "array<float>", "array<double>",
)  # fmt: skip


def write(path: Path, kind: str, dictionary: bool = True) -> Path:
    pq.write_table(pa.table({"c": KINDS[kind]}), path, use_dictionary=dictionary, use_deprecated_int96_timestamps=kind == "int96")
    return path


def read_as(spark: SparkSession, path: Path, kinds: list[str], declared: str) -> dict[str, list[Any]]:
    """What Spark reads the columns of a file as. Raises what Spark raises."""
    from pyspark.sql import functions as F

    frame = spark.read.schema(", ".join(f"{kind} {declared}" for kind in kinds)).parquet(str(path))
    cell = {"timestamp": F.unix_micros, "date": F.unix_date}.get(declared, F.col)
    rows = frame.select(*(cell(kind) for kind in kinds)).collect()
    return {kind: [row[n] for row in rows] for n, kind in enumerate(kinds)}


@pytest.mark.spark
@pytest.mark.parametrize("instants", ["int96", "int64"])
def test_what_is_read_is_what_spark_reads(spark: SparkSession, tmp_path: Path, instants: str) -> None:
    """All types that are read as a declared one are columns of one file."""
    columns = {kind: KINDS[kind] for kind in KINDS if (kind == "int96") == (instants == "int96")}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=instants == "int96")
    file, seen = opened("parquet", str(path)), set[str]()
    ours = file.head(10)
    for declared in DECLARED:
        kinds = [k for k in columns if column_types.parquet_reads(file.schema.field(k).type, file.physical_of((k,)), declared)]
        theirs = read_as(spark, path, kinds, declared) if kinds else {}
        for kind in kinds:
            assert column_types.values(ours.column(kind), declared) == theirs[kind], (kind, declared)
        seen |= set(kinds)
    assert set(columns) - seen == {"float16", "struct"} & columns.keys()


@pytest.mark.spark
@pytest.mark.parametrize("third", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_what_is_refused_is_what_spark_refuses(spark: SparkSession, tmp_path: Path, third: int) -> None:
    """A third has a third of the declared types for each type, and the other way round."""
    refused = 0
    for m, kind in enumerate(KINDS):
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(pa.table({kind: KINDS[kind]}), path, use_deprecated_int96_timestamps=kind == "int96")
        file = opened("parquet", str(path))
        for declared in (d for n, d in enumerate(DECLARED) if (m + n) % 3 == third):
            # Of whole numbers without a sign Spark makes others when they are large: these are refused although it reads them.
            if kind != "uint32" and not column_types.parquet_reads(file.schema.field(0).type, file.physical_of((kind,)), declared):
                refused += 1
                with pytest.raises(Exception, match=r"."):
                    read_as(spark, path, [kind], declared)
    assert refused > 50


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_proposed_for_a_type_is_read(tmp_path: Path, kind: str) -> None:
    file = opened("parquet", str(write(tmp_path / "a.parquet", kind)))
    there, physical = file.schema.field(0).type, file.physical_of(("c",))
    proposed = column_types.declare(there, physical)
    assert (proposed is None) == (kind in ("struct", "float16", "null", "time")), proposed
    assert proposed is None or column_types.parquet_reads(there, physical, proposed)


def test_names_and_members() -> None:
    assert column_types.twice(["a", "b", "A", "b"]) == {"a": ["a", "A"], "b": ["b", "b"]}
    rows = pa.table({"User": pa.array([{"Score": 1.5, "inner": {"x": 1}}, None])})
    assert column_types.member(rows.schema, ("user", "score")).type == pa.float64()  # type: ignore[union-attr]
    assert column_types.take(rows, ("user", "inner", "X")).to_pylist() == [1, None]  # type: ignore[union-attr]
    assert column_types.member(rows.schema, ("user", "gone")) is None and column_types.take(rows, ("gone",)) is None
