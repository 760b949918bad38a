"""Which files of a source Spark reads and which it passes over, told from the disk alone and held against Spark itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.listing import listing, not_read, partition_values, values_of
from skyband.jobs.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = """\
job: below
source:
  format: csv
  path: in
  OPTIONS
  schema: {id: bigint, ts: timestamp, x: double}
  id: [id]
  event_time: {column: ts}
window: {count: 50}
scoring: {high: {expression: x, direction: max}}
queries: {top: {type: topk, scoring: high, k: 5}}
sink: {path: out}
"""
TREE = ("top.csv", "2024/01/a.csv", "2024/b.csv", "_tmp/c.csv", ".hidden.csv", "other/_d.csv", "b*.csv", "b[1].csv", "b{2}.txt", "c:d.csv")
YEARS = ("year=2024/a.csv", "year=2024/day=01/b.csv", "year=2025/day=02/c.csv")


def node(path: object, *options: tuple[str, str], on_bad_file: str = "stop") -> SourceNode:
    fields = (Field("id", "bigint", "int", "id"),)
    return SourceNode("csv", str(path), (("header", "true"), *options), fields, on_bad_file=on_bad_file)  # type: ignore[arg-type]


def make(root: Path, names: tuple[str, ...]) -> Path:
    for i, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"id\n{i}\n")
    return root


CASES: list[tuple[tuple[str, ...], str, tuple[tuple[str, str], ...]]] = [
    (TREE[:6], "", ()),
    (TREE[:6], "", (("recursiveFileLookup", "true"),)),
    (TREE[:6], "/*", ()),
    (TREE[:6], "/{2024,other}", ()),
    (TREE[:6], "/20[0-9][0-9]/*.csv", ()),
    (TREE[:6], "/top.csv", ()),
    (("r (1).csv", "a#b.csv", "a%25b.csv", "ä ö.csv", "a;b.csv", "c:d.csv", "a|b.csv", "e^f.csv", "g&h=1.csv"), "", ()),
    (("a.csv", "b.txt", "c.CSV"), "", (("pathGlobFilter", "*.{csv,CSV}"),)),
    (("a.csv", "b.txt", "ab.csv"), "", (("pathGlobFilter", "[!b]?.csv"),)),
    (YEARS[1:], "", ()),
    ((*YEARS[1:], "top.csv"), "", ()),
    (YEARS[1:], "", (("recursiveFileLookup", "true"),)),
]


@pytest.mark.spark
@pytest.mark.parametrize("names, below, options", CASES)
def test_the_same_files_as_spark_reads(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...], below: str, options: tuple[tuple[str, str], ...]
) -> None:
    from pyspark.sql import functions as F

    from skyband.framework.sources.files import spark_reader
    from skyband.framework.sources.logs import local_path

    make(tmp_path / "in", names)
    source = node(f"{tmp_path}/in{below}", *options)
    found = listing(source)
    assert found is not None and sorted([*found.files, *found.unread])
    read: list[str] = []
    frame = spark_reader.files(spark, source, ["id"], True, None, whole_origin=True).select(F.col("__origin"))
    query = frame.writeStream.foreachBatch(lambda df, _: read.extend(r[0] for r in df.collect())).trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(str(local_path(u)) for u in read) == found.files


@pytest.mark.spark
def test_files_with_marks_of_patterns_are_not_found_where_they_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    from skyband.framework.sources.files import spark_reader

    good = ("a.csv", "r (1).csv", "e^f|g.csv", "z" * 200 + ".csv")
    make(tmp_path / "in", (*good, "b*.csv", "b[1].csv", "b{1}.csv", "b?.csv", "b\\c.csv", "d.txt"))
    for named, expected in ((None, [*good, "d.txt"]), ("*.csv", good), ("[a-e]?*.csv", ("e^f|g.csv",)), ("?.csv", ("a.csv",))):
        options = () if named is None else (("pathGlobFilter", named),)
        source = node(tmp_path / "in", *options, on_bad_file="reject")
        found: list[str] = []
        frame = spark_reader.files(spark, source, ["id"], True, None).select(F.col("__origin"))
        query = frame.writeStream.foreachBatch(lambda df, _, to=found: to.extend(r[0] for r in df.collect()))
        query.trigger(availableNow=True).start().awaitTermination()
        assert sorted(n.replace("%20", " ").replace("%5E", "^").replace("%7C", "|") for n in found) == sorted(expected)


def test_what_is_not_read_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("top.csv", "2024/01/a.csv"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("id,ts,x\n1,2020-01-01 00:00:00,1\n")
    spec = tmp_path / "job.yaml"
    spec.write_text(SPEC.replace("  OPTIONS\n", ""))
    said = f"1 file below {tmp_path}/in is not read (first: {tmp_path}/in/2024/01/a.csv): set source.options recursiveFileLookup: true"
    for command in (["validate", "--data"], ["status"]):
        assert main([*command, str(spec)]) == 0
        out = capsys.readouterr().out
        assert said in out and ("1 file to take" in out or command != ["status"])
    assert main(["preview", str(spec)]) == 0
    assert "(1 file there)" in (out := capsys.readouterr().out) and said in out and "1 would be accepted" in out
    spec.write_text(SPEC.replace("OPTIONS", "options: {recursiveFileLookup: true}"))
    assert main(["validate", "--data", str(spec)]) == 0 and "not read" not in capsys.readouterr().out
    assert main(["status", str(spec)]) == 0 and "2 files to take" in capsys.readouterr().out


def test_values_of_directories(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert partition_values(root, f"{root}/a=1/b=x%20y/f") == {"a": "1", "b": "x y"}
    assert partition_values(root, f"{root}/plain/a=1/f") == {"a": "1"}
    assert partition_values(root, f"{root}/plain/f") == partition_values(root, f"{root}/a=/f") == {}
    assert partition_values(root, f"{root}/a=__HIVE_DEFAULT_PARTITION__/f") == {"a": None}
    make(tmp_path, YEARS)
    assert values_of(node(tmp_path), f"{root}/year=2024/a.csv") == {"year": "2024"}
    assert values_of(node(tmp_path, ("recursiveFileLookup", "true")), f"{root}/year=2024/a.csv") == {}
    assert values_of(node(f"{tmp_path}/*"), f"{root}/year=2024/a.csv") == {}


@pytest.mark.spark
@pytest.mark.parametrize("names", [(*YEARS[1:], "plain/e.csv"), YEARS, ("x/a=1/f.csv", "a=1/f.csv")])
def test_directories_that_spark_refuses_are_refused(spark: SparkSession, tmp_path: Path, names: tuple[str, ...]) -> None:
    from skyband.framework.sources.files import preflight

    make(tmp_path / "in", names)
    found = preflight.missing(node(tmp_path / "in"))
    assert found is not None and found.code == "SKY-E206" and "do not have the same columns" in found.message
    assert preflight.missing(node(tmp_path / "in", ("recursiveFileLookup", "true"))) is None
    with pytest.raises(Exception, match="CONFLICTING"):
        spark.read.csv(str(tmp_path / "in")).count()


def test_files_beside_directories_with_values(tmp_path: Path) -> None:
    make(tmp_path, (*YEARS[1:], "top.csv"))
    said = not_read(node(tmp_path))
    assert said is not None and said.startswith(f"1 file below {tmp_path} is not read (first: {tmp_path}/top.csv): beside directories")
    assert not_read(node("s3://bucket/in")) is None and not_read(SourceNode("delta", str(tmp_path / "gone"), (), ())) is None
