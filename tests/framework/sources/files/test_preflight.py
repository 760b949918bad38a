"""What is seen of a source before a JVM starts: no directory, no column, another type."""

from __future__ import annotations

from pathlib import Path
from string import Template

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.preflight import columns, missing
from skyband.framework.sources.registry import source_format
from skyband.framework.spec.models.source import kind_of
from skyband.jobs import cli
from tests.specs import spec_text

SPEC = Template(
    spec_text(
        "looked",
        "{id: bigint, ts: timestamp, x: $type}",
        format="$format",
        window="{count: 50}",
        scoring="{high: {expression: x, direction: max}}",
        queries="{top: {type: topk, scoring: high, k: 2}}",
    )
)


def node(path: object, format_: str = "csv", options: tuple[tuple[str, str], ...] = (("header", "true"),), **types: str) -> SourceNode:
    return SourceNode(format_, str(path), options, tuple(Field(n, t, kind_of(t), n) for n, t in types.items()))


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a#b 100%").mkdir()
    (tmp_path / "x1").mkdir()
    for there in ("", "a#b 100%", "x*", "x[12]", "{x1,x2}"):
        assert missing(node(tmp_path / there)) is None
        assert missing(node(f"file://{tmp_path}/{there}")) is None
    for gone in ("y", "y*", "file:y", "x1/z"):
        told = missing(node(gone if gone.startswith("file") else tmp_path / gone))
        assert told is not None and told.code == "SKY-E206" and "fix source.path" in str(told.hint)
    assert missing(node("s3://bucket/y")) is None and missing(SourceNode("queue", "/nowhere", (), ())) is None


def test_columns_that_a_header_lacks(tmp_path: Path) -> None:
    (tmp_path / "_half.csv").write_text("no\n")
    (tmp_path / "a.csv").write_text("")
    assert columns(node(tmp_path, id="int")) == []
    (tmp_path / "b.csv").write_text("id,ts,temp\n")
    assert columns(node(tmp_path, id="int", temp="double")) == []
    assert columns(node(tmp_path, options=(("header", "false"),), other="int")) == []
    (told,) = columns(node(tmp_path, id="int", tmp="double", more="int"))
    assert told.code == "SKY-E206" and told.message == f"the file {tmp_path}/b.csv lacks the columns 'tmp', 'more'"
    assert str(told.hint).startswith("its header has: id, ts, temp")
    (tmp_path / "c.csv").write_text("id;ts;temp\n")
    assert columns(node(tmp_path, id="int")) == []
    (told,) = columns(node(tmp_path, id="int"), every=True)
    assert "c.csv lacks the column 'id'" in told.message and "source.options.sep" in str(told.hint)


def test_types_of_a_parquet_file(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": pa.array([1], pa.int64()), "x": [1.5], "s": ["a"], "n": pa.array([1], pa.int32())}), tmp_path / "a.parquet"
    )
    fits = {"id": "bigint", "x": "double", "s": "string", "n": "bigint"}
    assert columns(node(tmp_path, "parquet", (), **fits), every=True) == []
    found = columns(node(tmp_path, "parquet", (), id="int", x="float", s="timestamp", n="int", gone="int"))
    assert [(e.message, e.hint) for e in found] == [
        (f"column 'id' of the file {tmp_path}/a.parquet is int64, which cannot be read as int", "declare bigint"),
        (f"column 'x' of the file {tmp_path}/a.parquet is double, which cannot be read as float", "declare double"),
        (f"column 's' of the file {tmp_path}/a.parquet is string, which cannot be read as timestamp", "declare string"),
    ]
    assert "lacks the column 'gone'" in columns(node(tmp_path, "parquet", (), gone="int"), every=True)[0].message


@pytest.mark.parametrize("command", [("validate", "--data"), ("run",)])
def test_a_wrong_source_is_told_before_the_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a JVM is started")

    monkeypatch.setattr("skyband.framework.streaming.spark.session.get_session", never)
    spec = tmp_path / "spec.yaml"

    def said(format_: str = "csv", type_: str = "double") -> str:
        spec.write_text(SPEC.substitute(format=format_, type=type_))
        assert cli.main([*command, str(spec)]) == 2
        return capsys.readouterr().err

    assert f"SKY-E206 there is no directory {tmp_path}/in" in said()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,ts,y\n")
    assert f"SKY-E206 the file {tmp_path}/in/a.csv lacks the column 'x'" in said()
    (tmp_path / "in" / "a.csv").unlink()
    pq.write_table(pa.table({"id": [1], "ts": pa.array([0], pa.timestamp("us")), "x": [1]}), tmp_path / "in" / "a.parquet")
    told = said("parquet", "int")
    assert f"column 'x' of the file {tmp_path}/in/a.parquet is int64, which cannot be read as int" in told and "declare bigint" in told
    if command[0] == "validate":
        spec.write_text(SPEC.substitute(format="parquet", type="bigint"))
        assert cli.main([*command, str(spec)]) == 0


def test_what_the_engine_says_of_a_later_file_is_told_in_full(tmp_path: Path) -> None:
    short = tmp_path / "b.csv"
    short.write_text("id,ts\n1,2\n")
    said = f"Number of column in CSV header is not equal to number of fields in the schema:\n Header length: 2\nCSV file: file://{short}\n"
    told = source_format("csv").failure(said, ["id", "ts", "x"])
    assert told is not None and told.message == f"the header lacks 'x' (CSV file: file://{short})"
    assert told.hint is not None and told.hint.endswith("then run again: id, ts, x")
    said = (
        "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file file:///in/c.parquet. Mismatch\n"
        "Caused by: x.SchemaColumnConvertNotSupportedException: column: [x], physicalType: INT64, logicalType: int\n"
    )
    told = source_format("parquet").failure(said, None)
    assert told is not None and told.message == "column 'x' of the file /in/c.parquet is INT64, which cannot be read as int"
    assert told.hint == "declare bigint"
