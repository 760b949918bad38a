"""What is lost is reported: files of an unfinished batch, tables, and files that are too large are never passed over in silence."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Files, Sink
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.framework.verify.small import altered
from tests.local.jobs import local_engine, run
from tests.local.losses import assert_as_good, job, landed
from tests.spark.cuts import verified
from tests.spark.jobs import sorted_rows, table

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job with nothing but good files, finished."""
    directory = tmp_path_factory.mktemp("good") / "job"
    run(job(directory))
    return directory


def test_a_file_with_a_line_that_no_reader_can_hold_is_set_aside_before_it_is_read(
    tmp_path: Path, good: Path, capsys: pytest.CaptureFixture[str]
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
                run(spec)
            assert e.value.code == "SKY-E301" and "3.csv cannot be read: it has a line of more than 65,536 bytes" in e.value.message
            assert "source.max_line" in str(e.value.hint)
            assert table(directory, "runs").num_rows == 0
            continue
        run(spec)
        assert_as_good(directory, good)
        rejected = [r for r in table(directory, "rejected").to_pylist() if r["reason"] == "bad_file"]
        assert {json.loads(r["text"])["problem"] for r in rejected} == {"it has a line of more than 65,536 bytes: source.max_line"}
        assert sorted(r["origin"] for r in rejected) == ["3.csv", "5.csv.gz", "7.csv"]
        assert "file 3.csv cannot be read and is set aside" in capsys.readouterr().err
        assert verified(spec)


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], tuple[Path, Path]]:
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
                run(spec, finish=False)
        return directory, spec

    return stop


def test_a_file_of_an_unfinished_batch_that_vanished_stops_the_run(
    good: Path, stopped: Callable[[bool], tuple[Path, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, spec = stopped(False)
    (directory / "in" / "0.csv").unlink()  # of a batch that is done: it may go
    (directory / "in" / "4.csv").rename(directory / "away")
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E301"
    assert f"1 source file of an unfinished batch is gone, first: {directory}/in/4.csv" in e.value.message
    (directory / "away").rename(directory / "in" / "4.csv")
    os.utime(directory / "in" / "2.csv")
    run(spec)
    assert_as_good(directory, good)
    assert "1 source file changed after the rows were read, which stay as they were (first: 2.csv)" in capsys.readouterr().err


def test_a_file_of_a_batch_that_is_partly_written_may_not_change(good: Path, stopped: Callable[[bool], tuple[Path, Path]]) -> None:
    directory, spec = stopped(True)
    file = directory / "in" / "6.csv"
    text, times = file.read_bytes(), (file.stat().st_atime, file.stat().st_mtime)
    file.write_bytes(text[:200])
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E301"
    assert f"changed after a part of the batch was written, first: {file}" in e.value.message
    file.write_bytes(text)
    os.utime(file, times)
    run(spec)
    assert_as_good(directory, good)


@pytest.fixture
def copied(good: Path) -> Iterator[Path]:
    """The finished job, to be damaged: put back afterwards."""
    kept = good.with_name("kept")
    shutil.copytree(good, kept)
    yield good
    shutil.rmtree(good)
    kept.rename(good)


def test_a_lost_table_stops_run_and_verify_and_results_are_made_anew(copied: Path) -> None:
    spec, out = copied / "spec.yaml", copied / "out"
    before = {n: sorted_rows(table(copied, n)) for n in ("far5", "far5_now")}
    assert verified(spec)
    for name in before:
        shutil.rmtree(out / name)
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E304" and "--rebuild-results" in str(e.value.hint)
    assert not verified(spec) and not (out / "far5").exists()
    plan = load_plan(str(spec))
    Runner(local_engine(), plan, writer_for(plan.sink), lambda batch: None).run(rebuild=True)
    assert {n: sorted_rows(table(copied, n)) for n in before} == before
    assert len(before["far5"]) > 25 and verified(spec)
    for name in ("runs", "far5_changes"):
        (out / name).rename(out / f"_{name}")
        with pytest.raises(SkybandError) as e:
            run(spec)
        assert e.value.code == "SKY-E304" and f"table '{name}' is gone" in e.value.message
        assert not verified(spec) and not (out / name).exists()
        (out / f"_{name}").rename(out / name)
    assert run(spec) == []


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
