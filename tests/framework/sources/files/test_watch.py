"""Source files watched over without a JVM: its logs, files that vanish or change, files that cannot be read."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.bad_files import named_in, suspects, why
from skyband.framework.sources.files.ledger import Ledger, SetAside
from skyband.framework.sources.files.watch import FileWatch
from skyband.framework.sources.logs import files_log_damage, offset, taken
from skyband.framework.sources.registry import source_format
from tests.framework.streaming import checkpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
NODE = SourceNode("csv", "in", (("header", "true"),), (Field("id", "bigint", "int", "id"),))
SAID = """\
org.apache.spark.SparkException: Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file {url}.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:940)
Caused by: java.io.EOFException: Unexpected end of input stream in file:/data/in/b.csv.gz
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Batches 0 to 2 are done, 3 is planned: each has one file, ``in/<batch>.csv``."""
    (tmp_path / "in").mkdir()
    for i in range(5):
        (tmp_path / "in" / f"{i}.csv").write_text("id\n1\n")
        os.utime(tmp_path / "in" / f"{i}.csv", (1_000 + i, 1_000 + i))
    checkpoints.make(tmp_path / "out" / "_skyband", batches=3, planned=4)
    return tmp_path / "out" / "_skyband"


def watch(home: Path, bad: dict[str, str] | None = None, spelled: str = "{}") -> FileWatch:
    """A watch for which Spark cannot read the files in ``bad`` (name -> why)."""
    source = SourceNode("csv", spelled.format(home.parent.parent / "in"), NODE.options, NODE.fields)
    return FileWatch(source, home, ["id"], lambda spark, url: (bad or {}).get(url.rsplit("/", 1)[-1]))


def refused(home: Path, committed: bool = False) -> SkybandError:
    with pytest.raises(SkybandError) as e:
        watch(home).at_start(committed)
    return e.value


def file(home: Path, batch: int) -> Path:
    return home.parent.parent / "in" / f"{batch}.csv"


def test_all_is_well(home: Path) -> None:
    assert watch(home).at_start(committed=True) == []
    assert watch(home).before_commit(3) == []
    assert (watch(home).left_out(), watch(home).rejected(3)) == ([], [])


def test_a_file_of_an_unfinished_batch_must_be_there(home: Path) -> None:
    file(home, 1).unlink()
    assert watch(home).at_start(committed=False) == []
    file(home, 3).unlink()
    for error in (refused(home), refused(home, committed=True)):
        assert error.code == "SKY-E301" and f"is gone, first: {file(home, 3)}" in error.message and "put every file back" in str(error.hint)
    with pytest.raises(SkybandError, match="is gone"):
        watch(home).before_commit(3)


def test_a_file_found_for_a_batch_that_was_not_planned_yet_must_be_there(home: Path) -> None:
    checkpoints.plan(home, 4)
    (home / "checkpoint" / "offsets" / "4").unlink()
    assert watch(home).at_start(committed=False) == []
    file(home, 4).unlink()
    assert str(file(home, 4)) in refused(home).message


def test_a_file_that_changed_after_it_was_read_is_pointed_out(home: Path) -> None:
    for batch in (0, 2):
        os.utime(file(home, batch))
    assert watch(home).at_start(committed=True) == [
        "2 source files changed after the rows were read, which stay as they were (first: 0.csv)"
    ]


def test_a_file_of_a_batch_that_is_partly_written_must_not_change(home: Path) -> None:
    os.utime(file(home, 3))
    assert watch(home).at_start(committed=False) == []
    error = refused(home, committed=True)
    assert error.code == "SKY-E301" and "changed after a part of the batch was written" in error.message
    assert "was of 1970-01-01T00:16:43.000+00:00" in error.message


def test_what_is_read_is_what_is_expected_from_then_on(home: Path) -> None:
    os.utime(file(home, 3), (5_000, 5_000))
    assert len(watch(home).before_commit(3)) == 1
    assert watch(home).before_commit(3) == watch(home).at_start(committed=True) == []
    os.utime(file(home, 3), (1_003, 1_003))
    assert refused(home, committed=True).code == "SKY-E301"


@pytest.mark.parametrize("gone", ["3", "1"])
def test_the_engines_log_of_files_must_be_whole(home: Path, gone: str) -> None:
    (home / "checkpoint" / "sources" / "0" / gone).unlink()
    error = refused(home)
    assert error.code == "SKY-E303" and f"sources/0/{gone} is gone" in error.message


def test_a_log_of_files_that_is_cut_off_is_told(home: Path) -> None:
    (home / "checkpoint" / "sources" / "0" / "2").write_text('v1\n{"path":"file:/')
    error = refused(home)
    assert error.code == "SKY-E303" and "sources/0/2 cannot be read" in error.message


def test_a_compacted_log_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "sources" / "0"
    lines = [json.dumps({"path": f"file:///in/{i}", "timestamp": i, "batchId": i}, separators=(",", ":")) for i in range(40_000)]
    log.mkdir(parents=True)
    (log / "39998.compact").write_text("\n".join(["v1", *lines[:39_999]]))
    (log / "39999").write_text("v1\n" + lines[39_999])
    assert [t.number for t in taken(log)] == list(range(40_000))
    assert [(t.url, t.modified_ms) for t in taken(log, 39_996)] == [(f"file:///in/{i}", i) for i in (39_997, 39_998, 39_999)]
    assert files_log_damage(log, 39_999) is None
    assert files_log_damage(log, 40_000) == "sources/0/40000 is gone"
    assert offset(tmp_path, 7) == -1


def test_the_file_the_engine_names_and_those_like_it_are_set_aside(home: Path) -> None:
    checkpoint = home / "checkpoint"
    entries = [json.dumps({"path": file(home, i).as_uri(), "timestamp": 0, "batchId": 3}) for i in (3, 4)]
    (file(home, 4).parent / "other.csv").write_text("no,id\n1,2\n")
    entries.append(json.dumps({"path": (file(home, 4).parent / "other.csv").as_uri(), "timestamp": 0, "batchId": 3}))
    (checkpoint / "sources" / "0" / "3").write_text("\n".join(["v1", *entries]))
    said = SAID.format(url=file(home, 3).as_uri())
    fine = watch(home)
    assert fine.set_aside(NO_SPARK, said, 3) == [] and fine.left_out() == []  # reading it works now
    bad = watch(home, {"3.csv": "torn", "other.csv": "no header", "4.csv": "never asked"})
    assert bad.set_aside(NO_SPARK, "out of memory", 3) == []
    assert len(bad.set_aside(NO_SPARK, said, 3)) == 2
    later = watch(home)
    assert [u.rsplit("/", 1)[-1] for u in later.left_out()] == ["3.csv", "other.csv"]
    assert later.rejected(3) == [
        ("3.csv", '{"file": "3.csv", "bytes": 5, "problem": "torn"}'),
        ("other.csv", '{"file": "other.csv", "bytes": 10, "problem": "no header"}'),
    ]
    file(home, 3).unlink()
    assert later.at_start(committed=False) == [] and later.rejected(2) == []
    (checkpoint / "commits" / "3").write_text("v1\n{}")
    assert watch(home).left_out() == []


def test_a_file_that_is_gone_or_closed_is_not_a_bad_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = SAID.format(url=file(home, 3).as_uri())
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SkybandError, match="may not be read"):
        watch(home, {"3.csv": "denied"}).set_aside(NO_SPARK, said, 3)
    file(home, 3).unlink()
    with pytest.raises(SkybandError, match="is gone"):
        watch(home, {"3.csv": "gone"}).set_aside(NO_SPARK, said, 3)
    assert Ledger.load(home).aside == {}


def test_the_ledger_is_replaced_whole(tmp_path: Path) -> None:
    ledger = Ledger.load(tmp_path)
    ledger.aside["file:///a"] = SetAside(4, 10, "torn")
    ledger.read_as["file:///b"] = 7
    ledger.save()
    assert Ledger.load(tmp_path) == ledger and [p.name for p in tmp_path.iterdir()] == ["files.json"]
    (tmp_path / "files.json").write_text('{"aside": ')
    with pytest.raises(SkybandError) as e:
        Ledger.load(tmp_path)
    assert e.value.code == "SKY-E303"


def test_what_the_engine_says_of_a_file() -> None:
    said = SAID.format(url="file:///data/in%20put/b.csv.gz")
    assert named_in(said) == ["file:///data/in%20put/b.csv.gz"]
    assert why(said) == "EOFException: Unexpected end of input stream in b.csv.gz"
    header = said + "Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.\n Header: \x00a, y\n"
    assert why(header) == "its header is not that of the other files (it begins: ?a, y)"
    mismatch = (
        "x\nCaused by: a.B: [FAILED_READ_FILE.Y] Encountered error while reading file file:/a/b.parquet. Expected bigint, actual BINARY."
    )
    assert why(mismatch) == "Expected bigint, actual BINARY."
    assert len(why("Caused by: " + "x" * 1_000)) == 300
    told = source_format("parquet").failure(said, None)
    assert told is not None and told.code == "SKY-E301"
    assert told.message == "the file /data/in put/b.csv.gz cannot be read: EOFException: Unexpected end of input stream in b.csv.gz"
    assert source_format("csv").failure(said, ["id"]) is not None


def test_files_that_look_bad(tmp_path: Path) -> None:
    text = b"id,x\n" + b"1,2\n" * 1_000
    files = {
        "good.csv": text, "good.csv.gz": gzip.compress(text), "good.csv.bz2": bz2.compress(text), "empty.csv": b"",
        "cut.csv.gz": gzip.compress(text)[:-9], "plain.csv.gz": text, "cut.csv.bz2": bz2.compress(text)[:-9], "header.csv": b"id,y\n",
        "utf16.csv": text.decode().encode("utf-16"), "rubbish.csv": bytes(range(256)) * 9,
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    paths = {n: str(tmp_path / n) for n in files}
    assert suspects(NODE, ["id", "x"], paths) == [n for n in files if not n.startswith(("good", "empty"))]
    table = pa.table({"id": [1]})
    for kind, write in (("parquet", pa.parquet.write_table), ("orc", pa.orc.write_table)):
        good, bad, gone = (str(tmp_path / f"{n}.{kind}") for n in ("good", "bad", "gone"))
        write(table, good)
        Path(bad).write_bytes(Path(good).read_bytes()[:-3])
        assert suspects(SourceNode(kind, "in", (), ()), None, {"good": good, "bad": bad, "gone": gone}) == ["bad", "gone"]


def test_a_bad_first_file_gives_no_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"not packed")
    (tmp_path / "b.csv").write_bytes("id,x\n".encode("utf-16"))
    (tmp_path / "c.csv").write_text("id,x\n1,2\n")
    csv = source_format("csv")
    fields = (Field("id", "bigint", "int", "id"),)

    def columns(on_bad_file: str) -> list[str] | None:
        return csv.columns(NO_SPARK, SourceNode("csv", str(tmp_path), (("header", "true"),), fields, on_bad_file=on_bad_file))  # type: ignore[arg-type]

    with pytest.raises(SkybandError) as e:
        columns("stop")
    assert e.value.code == "SKY-E301" and "a.csv.gz cannot be read" in e.value.message and "on_bad_file: reject" in str(e.value.hint)
    (tmp_path / "a.csv.gz").unlink()
    with pytest.raises(SkybandError, match=r"read from b\.csv"):
        columns("stop")
    assert columns("reject") == ["id", "x"]
    (tmp_path / "c.csv").unlink()
    with pytest.raises(SkybandError, match=r"read from b\.csv"):
        columns("reject")


@pytest.mark.parametrize("name", ["a[1].csv", "b{1,2}.csv", "c*.csv", "d?.csv", "e\\\\.csv"])
def test_a_name_that_is_a_pattern_is_refused_before_it_is_planned(home: Path, name: str) -> None:
    (home.parent.parent / "in" / name).write_text("id\n1\n")
    told = refused(home)
    assert told.code == "SKY-E301" and name in told.message and "rename" in str(told.hint)
    (home.parent.parent / "in" / name).rename(home.parent.parent / "in" / "fine.csv")
    assert watch(home).at_start(False) == []


@pytest.mark.parametrize("spelled", ["file:{}", "file://{}"])
def test_such_a_name_is_seen_however_the_source_is_spelled(home: Path, spelled: str) -> None:
    (home.parent.parent / "in" / "a[1].csv").write_text("id\n1\n")
    with pytest.raises(SkybandError, match=r"a\[1\]\.csv"):
        watch(home, spelled=spelled).at_start(False)


def test_a_batch_with_a_name_that_is_a_pattern_is_planned_anew_once_it_is_renamed(home: Path) -> None:
    log, directory = home / "checkpoint" / "sources" / "0" / "3", home.parent.parent / "in"
    (directory / "3.csv").rename(directory / "3[a].csv")
    log.write_text(log.read_text().replace("3.csv", "3%5Ba%5D.csv"))
    with pytest.raises(SkybandError) as e:
        watch(home).before_commit(3)
    assert e.value.code == "SKY-E301" and "3[a].csv" in e.value.message
    assert refused(home).message == e.value.message and log.exists()
    (directory / "3[a].csv").rename(directory / "3b.csv")
    assert watch(home).at_start(False) == []
    assert not log.exists() and not (home / "checkpoint" / "offsets" / "3").exists()
    assert [t.number for t in taken(home / "checkpoint" / "sources" / "0")] == [0, 1, 2]


def test_of_a_batch_that_is_partly_written_nothing_is_taken_back(home: Path) -> None:
    log, directory = home / "checkpoint" / "sources" / "0" / "3", home.parent.parent / "in"
    log.write_text(log.read_text().replace("3.csv", "3%5Ba%5D.csv"))
    (directory / "3.csv").rename(directory / "3b.csv")
    assert "gone" in refused(home, committed=True).message and log.exists()
