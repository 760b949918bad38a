"""What is lost is told: files of an unfinished batch, tables, and files that cannot be read are never passed over in silence."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.streaming.run.spark_engine import SparkEngine
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Files, Sink
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.framework.verify.small import altered
from tests.spark.cuts import stream, verified
from tests.spark.jobs import changes, run, run_apart, sorted_rows, table, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
ROWS = stream(21, 160)


def part(i: int, n: int = 4) -> list[list[object]]:
    size = len(ROWS) // n
    return ROWS[i * size : (i + 1) * size]


def job(directory: Path, files: int = 4, reject: bool = False, max_files: int = 2) -> Path:
    """A job over ``files`` good files, not run yet."""
    directory.mkdir(exist_ok=True)
    for i in range(files):
        write_file(directory, f"{2 * i}.csv", part(i, files), at=20 * i)
    spec = write_spec(directory, queries=QUERIES, max_files=max_files)
    if reject:
        spec.write_text(spec.read_text().replace("format: csv", "format: csv\n  on_bad_file: reject"))
    return spec


def landed(directory: Path, name: str, content: bytes, at: int) -> None:
    (directory / "in" / name).write_bytes(content)
    os.utime(directory / "in" / name, (1_600_000_000 + at, 1_600_000_000 + at))


@pytest.fixture(scope="module")
def good(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job with nothing but good files, finished."""
    directory = tmp_path_factory.mktemp("good") / "job"
    run(spark, job(directory))
    return directory


def assert_as_good(directory: Path, good: Path) -> None:
    assert changes(directory, "far5").equals(changes(good, "far5"))
    for name in ("far5", "far5_now"):
        assert sorted_rows(table(directory, name)) == sorted_rows(table(good, name)), name


def test_bad_files_are_set_aside_and_the_others_count(
    spark: SparkSession, tmp_path: Path, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "job"
    spec = job(directory, reject=True, max_files=4)
    text = (directory / "in" / "4.csv").read_bytes()
    bad = {
        "1 a.csv.gz": gzip.compress(text)[:200],
        "3.csv": bytes(range(256)) * 20,
        "5.csv": text.decode().encode("utf-16"),
        "7.csv": text.replace(b"id,ts", b"ts,id"),
        "0.csv.gz": b"",
    }
    for i, (name, content) in enumerate(bad.items()):
        landed(directory, name, content, at=5 + 10 * i)
    run(spark, spec)
    assert_as_good(directory, good)
    rejected = [r for r in table(directory, "rejected").to_pylist() if r["reason"] == "bad_file"]
    told = {r["origin"]: json.loads(r["text"]) for r in rejected}
    # An empty file has no rows: it is not bad.
    assert {n: t["bytes"] for n, t in told.items()} == {quote(n): len(c) for n, c in bad.items() if c}
    assert told[quote("1 a.csv.gz")]["file"] == "1 a.csv.gz" and "end" in told[quote("1 a.csv.gz")]["problem"]
    assert "header" in told["5.csv"]["problem"] and "header" in told["7.csv"]["problem"]
    runs = table(directory, "runs").to_pylist()
    assert sum(r["rejected_bad_file"] for r in runs) == 4
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    assert "file 3.csv cannot be read and is set aside" in capsys.readouterr().err
    assert verified(spec)
    # What is set aside stays so; the next run finds nothing new.
    assert run(spark, spec) == []
    assert len(table(directory, "rejected")) == len(table(good, "rejected")) + 4


def test_a_file_with_a_line_that_no_reader_can_hold_is_set_aside_before_it_is_read(
    spark: SparkSession, tmp_path: Path, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for reject in (True, False):
        directory = tmp_path / str(reject)
        spec = job(directory, reject=reject, max_files=4)
        spec.write_text(spec.read_text().replace("format: csv", "format: csv\n  max_line: 64k"))
        head = (directory / "in" / "4.csv").read_bytes().partition(b"\n")[0] + b"\n"
        landed(directory, "3.csv", head + b"7," + b"x" * (65 << 10), at=5)
        landed(directory, "5.csv.gz", gzip.compress(head + bytes(8 << 20)), at=15)
        landed(directory, "7.csv", b"x" * (1 << 21), at=25)
        if not reject:
            with pytest.raises(SkybandError) as e:
                run(spark, spec)
            assert e.value.code == "SKY-E301" and "3.csv cannot be read: it has a line of more than 65,536 bytes" in e.value.message
            assert "source.max_line" in str(e.value.hint)
            assert table(directory, "runs").num_rows == 0
            continue
        run(spark, spec)
        assert_as_good(directory, good)
        rejected = [r for r in table(directory, "rejected").to_pylist() if r["reason"] == "bad_file"]
        assert {json.loads(r["text"])["problem"] for r in rejected} == {"it has a line of more than 65,536 bytes: source.max_line"}
        assert sorted(r["origin"] for r in rejected) == ["3.csv", "5.csv.gz", "7.csv"]
        assert "file 3.csv cannot be read and is set aside" in capsys.readouterr().err
        assert verified(spec)


def test_a_bad_file_stops_a_run_by_name_and_is_read_once_it_is_repaired(
    spark: SparkSession, tmp_path: Path, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "job"
    spec = job(directory)
    intact = (directory / "in" / "4.csv").read_bytes()
    landed(directory, "4.csv", intact[:100] + bytes(300), at=40)
    (directory / "in" / "4.csv").rename(directory / "in" / "4.csv.gz")
    for _ in range(2):
        with pytest.raises(SkybandError) as e:
            run(spark, spec)
        assert e.value.code == "SKY-E301"
        assert e.value.message.startswith(f"the file {directory}/in/4.csv.gz cannot be read: ")
        assert "on_bad_file: reject" in str(e.value.hint)
    landed(directory, "4.csv.gz", gzip.compress(intact), at=999)
    capsys.readouterr()
    run(spark, spec)
    assert "1 source file changed between being found and batch 1" in capsys.readouterr().err
    assert_as_good(directory, good)
    run(spark, spec)
    assert "changed" not in capsys.readouterr().err


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize("point", ["aside.before", "aside.after", "state.after:2", "sink.before:2", "sink.between:4", "sink.after:2"])
def test_killed_around_a_bad_file_it_is_set_aside_once(tmp_path: Path, good: Path, point: str) -> None:
    directory = tmp_path / "job"
    spec = job(directory, reject=True)
    landed(directory, "3.csv.gz", gzip.compress((directory / "in" / "2.csv").read_bytes())[:-50], at=30)
    killed = run_apart(spec, "--finish", failpoint=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run_apart(spec, "--finish")
    assert again.returncode == 0, again.stderr
    assert_as_good(directory, good)
    rejected = table(directory, "rejected").to_pylist()
    assert [r["origin"] for r in rejected if r["reason"] == "bad_file"] == ["3.csv.gz"]
    assert sum(r["rejected_bad_file"] for r in table(directory, "runs").to_pylist()) == 1
    assert len(rejected) == len(table(good, "rejected")) + 1


@pytest.mark.parametrize("kind", ["json", pytest.param("parquet", marks=pytest.mark.slow)])
def test_other_formats(spark: SparkSession, tmp_path: Path, good: Path, kind: str) -> None:
    directory = tmp_path / "job"
    spec = job(directory, reject=True)
    spec.write_text(spec.read_text().replace("format: csv", f"format: {kind}").replace("  options: {header: true}\n", ""))
    for path in sorted((directory / "in").glob("*.csv")):
        times = (path.stat().st_mtime, path.stat().st_mtime)
        rows = pyarrow.csv.read_csv(path)
        to = path.with_suffix(f".{kind}")
        if kind == "parquet":
            rows = rows.set_column(1, "ts", rows["ts"].cast(pa.timestamp("us", "UTC")))
            kinds = {"id": pa.int64(), "x": pa.float64(), "y": pa.float64()}
            pq.write_table(rows.cast(pa.schema([(f.name, kinds.get(f.name, f.type)) for f in rows.schema])), to)
        else:
            to.write_text("".join(json.dumps(r, default=lambda t: t.isoformat()) + "\n" for r in rows.to_pylist()))
        os.utime(to, times)
        path.unlink()
    whole = (directory / "in" / f"2.{kind}").read_bytes()
    landed(directory, f"3.{kind}" + (".gz" if kind == "json" else ""), (gzip.compress(whole) if kind == "json" else whole)[:-100], at=30)
    landed(directory, f"5.{kind}", bytes(range(256)) * 20, at=50)
    run(spark, spec)
    assert_as_good(directory, good)
    found = Counter((r["reason"], r["origin"]) for r in table(directory, "rejected").to_pylist())
    if kind == "parquet":
        assert found["bad_file", "3.parquet"] == found["bad_file", "5.parquet"] == 1
    else:
        # Spark can read lines of rubbish: they are rows that do not parse, none of them lost.
        assert found["bad_file", "3.json.gz"] == 1 and found["parse", "5.json"] > 1


@pytest.fixture
def stopped(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], tuple[Path, Path]]:
    """A job whose second batch is not finished: before its rows are in the tables, or ``committed``, after that."""

    def stop(committed: bool) -> tuple[Path, Path]:
        directory = tmp_path / "job"
        spec = job(directory)
        commit = Sink.commit

        def broken(sink: Sink, batch_id: int, blocks: dict[str, pa.Table], files: Files) -> None:
            if committed or batch_id == 0:
                commit(sink, batch_id, blocks, files)
            if batch_id == 1:
                raise SkybandError("SKY-E401", "the disk is full")

        with monkeypatch.context() as m:
            m.setattr(Sink, "commit", broken)
            with pytest.raises(SkybandError, match="the disk is full"):
                run(spark, spec, finish=False)
        return directory, spec

    return stop


def test_a_file_of_an_unfinished_batch_that_vanished_stops_the_run(
    spark: SparkSession, good: Path, stopped: Callable[[bool], tuple[Path, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, spec = stopped(False)
    (directory / "in" / "0.csv").unlink()  # of a batch that is done: it may go
    (directory / "in" / "4.csv").rename(directory / "away")
    with pytest.raises(SkybandError) as e:
        run(spark, spec)
    assert e.value.code == "SKY-E301"
    assert f"1 source file of an unfinished batch is gone, first: {directory}/in/4.csv" in e.value.message
    (directory / "away").rename(directory / "in" / "4.csv")
    os.utime(directory / "in" / "2.csv")
    run(spark, spec)
    assert_as_good(directory, good)
    assert "1 source file changed after the rows were read, which stay as they were (first: 2.csv)" in capsys.readouterr().err


def test_a_file_of_a_batch_that_is_partly_written_may_not_change(
    spark: SparkSession, good: Path, stopped: Callable[[bool], tuple[Path, Path]]
) -> None:
    directory, spec = stopped(True)
    file = directory / "in" / "6.csv"
    text, times = file.read_bytes(), (file.stat().st_atime, file.stat().st_mtime)
    file.write_bytes(text[:200])
    with pytest.raises(SkybandError) as e:
        run(spark, spec)
    assert e.value.code == "SKY-E301"
    assert f"changed after a part of the batch was written, first: {file}" in e.value.message
    file.write_bytes(text)
    os.utime(file, times)
    run(spark, spec)
    assert_as_good(directory, good)


@pytest.fixture
def copied(good: Path) -> Iterator[Path]:
    """The finished job, to be damaged: put back afterwards."""
    kept = good.with_name("kept")
    shutil.copytree(good, kept)
    yield good
    shutil.rmtree(good)
    kept.rename(good)


def test_a_lost_table_stops_run_and_verify_and_results_are_made_anew(spark: SparkSession, copied: Path) -> None:
    spec, out = copied / "spec.yaml", copied / "out"
    before = {n: sorted_rows(table(copied, n)) for n in ("far5", "far5_now")}
    assert verified(spec)
    for name in before:
        shutil.rmtree(out / name)
    with pytest.raises(SkybandError) as e:
        run(spark, spec)
    assert e.value.code == "SKY-E304" and "--rebuild-results" in str(e.value.hint)
    assert not verified(spec) and not (out / "far5").exists()
    plan = load_plan(str(spec))
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), lambda batch: None).run(rebuild=True)
    assert {n: sorted_rows(table(copied, n)) for n in before} == before
    assert len(before["far5"]) > 25 and verified(spec)
    for name in ("runs", "far5_changes"):
        (out / name).rename(out / f"_{name}")
        with pytest.raises(SkybandError) as e:
            run(spark, spec)
        assert e.value.code == "SKY-E304" and f"table '{name}' is gone" in e.value.message
        assert not verified(spec) and not (out / name).exists()
        (out / f"_{name}").rename(out / name)
    assert run(spark, spec) == []


def test_verify_tells_the_first_difference_in_full_and_fails(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def verify(*more: str) -> tuple[int, str]:
        code = cli.main(["verify", str(copied / "spec.yaml"), "--replay-only", *more])
        return code, capsys.readouterr().out

    (copied / "in").rename(copied / "away")
    assert cli.main(["verify", str(copied / "spec.yaml")]) == 0
    assert "not compared with the source: " in capsys.readouterr().out
    code, said = verify()
    assert code == 0 and "row counts: runs, heads and rejected agree with the other tables" in said
    altered(load_plan(str(copied / "spec.yaml")), "far5_now", lambda rows: [r | {"rank": r["rank"] % 5 + 1} for r in rows])
    code, said = verify()
    assert code == 1 and "far5: replayed" in said
    assert re.fullmatch(r"DIFFERENT: 5 differences of 3 kinds found: all [0-9]+ changes replayed", said.splitlines()[-1])
    # The first of each kind in full.
    assert said.count("      expected  rank ") == said.count("      found  rank ") == 3
    assert said.count("    and 1 more difference of this kind\n") == 2
