"""Harsh surroundings: a full disk, a sink that cannot be written, odd files and directories, clocks that jump. Through the command
itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.streaming.run import batch as batch_module
from skyband.framework.streaming.run import runner
from skyband.framework.streaming.run import stream as stream_module
from skyband.framework.streaming.run.commit import CommitBatch
from skyband.framework.streaming.spark.stop_signal import STOP
from skyband.jobs.cli import main
from tests.spark.cuts import stream, verified, write
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import COLUMNS, changes, run, stamp, table, write_file, write_spec
from tests.spark.kinds import KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("spark")]

FAR = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
GOOD = [[i, stamp(i), "p", i % 5, 1, "ab"[i % 2]] for i in range(40)]
LONG = 30_000_000

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def skyband(capsys: pytest.CaptureFixture[str]) -> Command:
    """``skyband run`` in this process: (exit code, what it said as errors)."""

    def command(spec: Path, *arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        with STOP.handled(lambda number: None):
            code = main(["run", str(spec), *arguments])
        return code, capsys.readouterr().err

    return command


def one_error(said: str, code: str) -> str:
    """The one line of ``said`` that is an error: it has this code, and nothing is a traceback."""
    errors = [line for line in said.splitlines() if line.startswith("SKY-")]
    assert len(errors) == 1 and errors[0].startswith(code), said
    assert "Traceback" not in said and "SKY-E9" not in said, said
    return errors[0]


def small(directory: Path, kind: str = "csv", source: str = "") -> Path:
    """The spec of a job with one query in a new directory. ``source``: another setting of its source."""
    directory.mkdir()
    spec = write_spec(directory, queries=FAR, source=source)
    if kind == "json":
        spec.write_text(spec.read_text().replace("format: csv", "format: json").replace("  options: {header: true}\n", ""))
    return spec


def json_file(directory: Path, name: str, rows: list[list[Any]]) -> None:
    """Rows as a JSON file of the job, which appears whole."""
    (directory / "in" / f"_{name}").write_text("".join(json.dumps(dict(zip(COLUMNS, r, strict=True))) + "\n" for r in rows))
    os.replace(directory / "in" / f"_{name}", directory / "in" / name)


class Mount:
    """A place below which a file system is mounted; skips the test where this may not be."""

    def __init__(self, at: Path) -> None:
        self.at = at
        at.mkdir(parents=True)

    def do(self, *arguments: str) -> None:
        try:
            done = subprocess.run(["mount", *arguments, str(self.at)], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("needs the command mount")
        if done.returncode:
            pytest.skip(f"needs the right to mount: {done.stderr.strip()}")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    made = Mount(tmp_path / "job" / "out")
    yield made
    subprocess.run(["umount", "-l", str(made.at)], capture_output=True, check=False)


@pytest.mark.long
def test_a_full_disk_is_named_and_nothing_is_lost(skyband: Command, spark: SparkSession, tmp_path: Path, mount: Mount) -> None:
    kind = KINDS["deletions"]
    rows = kind.rows(3, 240)
    mount.do("-t", "tmpfs", "-o", "size=64k", "none")
    spec = tmp_path / "job" / "spec.yaml"
    made = kind.write(tmp_path / "as-made", 3)
    for f in made.parent.iterdir():
        os.replace(f, spec.parent / f.name)
    spec.write_text(spec.read_text().replace(str(made.parent), str(spec.parent)))
    write(spec.parent, rows, 9)
    refusals = 0
    for size in range(64, 8_000, 400):
        mount.do("-o", f"remount,size={size}k")
        code, said = skyband(spec, "--finish")
        if code == 0:
            break
        assert code == 3, said
        assert "no space left on device" in one_error(said, "SKY-E30").lower()
        refusals += 1
    assert code == 0 and refusals >= 2
    alone = kind.write(tmp_path / "alone", 100)
    write(alone.parent, rows, 9)
    run(spark, alone)
    assert_equal_tables(spec.parent, alone.parent, same_cuts=False)
    assert verified(spec)


def test_a_sink_that_cannot_be_written_is_named(skyband: Command, tmp_path: Path) -> None:
    spec = small(tmp_path / "job")
    write_file(spec.parent, "1.csv", GOOD, at=1)
    (spec.parent / "out").write_text("a file, not a directory")
    code, said = skyband(spec, "--finish")
    assert code == 2
    assert f"{spec.parent}/out cannot be written" in one_error(said, "SKY-E203")


def test_a_sink_that_is_read_only_is_named_and_written_later(skyband: Command, tmp_path: Path, mount: Mount) -> None:
    made = small(tmp_path / "as-made")
    spec = tmp_path / "job" / "spec.yaml"
    spec.write_text(made.read_text().replace(str(made.parent), str(spec.parent)))
    write_file(spec.parent, "1.csv", GOOD, at=1)
    mount.do("--bind", str(mount.at))
    mount.do("-o", "remount,ro,bind")
    code, said = skyband(spec, "--finish")
    assert code == 2 and "Read-only file system" in one_error(said, "SKY-E203")
    mount.do("-o", "remount,rw,bind")
    assert skyband(spec, "--finish")[0] == 0
    assert sum(r["accepted"] for r in table(spec.parent, "runs").to_pylist()) == len(GOOD)
    mount.do("-o", "remount,ro,bind")
    code, said = skyband(spec, "--finish")
    assert code == 2 and "Read-only file system" in one_error(said, "SKY-E203")


@pytest.mark.slow
def test_ten_thousand_tiny_files_are_read_once_each(spark: SparkSession, tmp_path: Path) -> None:
    rows = stream(5, 10_000)
    specs = [small(tmp_path / name) for name in ("tiny", "whole")]
    write(tmp_path / "tiny", rows, len(rows))
    write(tmp_path / "whole", rows, 1)
    specs[0].write_text(specs[0].read_text().replace("max_files: 100", "max_files: 5000"))
    for spec in specs:
        run(spark, spec)
    assert_equal_rows_but_origin(*(s.parent for s in specs))
    assert table(tmp_path / "tiny", "runs").num_rows <= 2 + 4


def assert_equal_rows_but_origin(a: Path, b: Path) -> None:
    """The tables of two jobs whose rows lay in other files: ``rejected`` names those."""
    assert changes(a, "far5").equals(changes(b, "far5"))
    rejected = [sorted((r["reason"], r["text"]) for r in table(f, "rejected").to_pylist()) for f in (a, b)]
    assert rejected[0] == rejected[1]
    sums = [[sum(r[c] for r in table(f, "runs").to_pylist()) for c in ("rows_in", "accepted", "rejected")] for f in (a, b)]
    assert sums[0] == sums[1]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_line_of_30_mb_is_kept_and_harms_no_other(skyband: Command, tmp_path: Path, kind: str) -> None:
    spec = small(tmp_path / "job", kind, "max_line: 64m")
    job = spec.parent
    (job / "in").mkdir()
    # Not a number, of 30 million characters: in memory as often as Spark likes, within its 2 GB.
    rows = [[1000, stamp(50), "p", "z" * LONG, 1, "a"], [1001, stamp(51), "p", 2, 1, "b"]]
    if kind == "csv":
        write_file(job, "1.csv", GOOD, at=1)
        write_file(job, "2.csv", rows, at=2)
    else:
        json_file(job, "1.json", GOOD)
        json_file(job, "2.json", rows)
    code, said = skyband(spec, "--finish")
    assert code == 0, said
    assert sum(r["accepted"] for r in table(job, "runs").to_pylist()) == len(GOOD) + 1
    (rejected,) = table(job, "rejected").to_pylist()
    assert rejected["reason"] == "parse" and rejected["origin"] == f"2.{kind}"
    assert len(rejected["text"]) > LONG and "1000" in rejected["text"][:20]


def test_a_csv_directory_needs_one_file_when_the_job_runs_first(skyband: Command, tmp_path: Path) -> None:
    spec = small(tmp_path / "job")
    landing = spec.parent / "in"
    code, said = skyband(spec, "--finish")
    assert code == 2 and f"there is no directory {landing}" in one_error(said, "SKY-E206")
    for prepare in (landing.mkdir, (landing / "empty.csv").touch):
        prepare()
        code, said = skyband(spec, "--finish")
        assert code == 3 and f"no files to read in {landing}" in one_error(said, "SKY-E301")
    write_file(spec.parent, "1.csv", GOOD, at=1)
    (landing / "header.csv").write_text(",".join(COLUMNS) + "\n")
    assert skyband(spec, "--finish")[0] == 0
    assert [sum(r[c] for r in table(spec.parent, "runs").to_pylist()) for c in ("rows_in", "accepted", "rejected")] == [40, 40, 0]


def test_a_json_directory_may_be_empty_and_gets_its_first_file_later(skyband: Command, tmp_path: Path) -> None:
    spec = small(tmp_path / "job", "json")
    job = spec.parent
    code, said = skyband(spec, "--finish")
    assert code == 2 and f"there is no directory {job}/in" in one_error(said, "SKY-E206")
    (job / "in").mkdir()
    code, said = skyband(spec, "--finish")
    assert code == 0 and "done: 0 rows" in said
    (job / "in" / "empty.json").touch()
    code, said = skyband(spec, "--finish")
    assert code == 0 and "done: 0 rows" in said
    json_file(job, "1.json", GOOD)
    assert skyband(spec, "--finish")[0] == 0
    assert [sum(r[c] for r in table(job, "runs").to_pylist()) for c in ("rows_in", "accepted", "rejected")] == [40, 40, 0]


def test_a_continuous_run_waits_for_its_first_file(skyband: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small(tmp_path / "job", "json")
    job = spec.parent
    (job / "in").mkdir()
    begun = threading.Event()
    start = stream_module.start

    def started(*arguments: Any) -> Any:
        query = start(*arguments)
        begun.set()
        return query

    def first_file() -> None:
        assert begun.wait(240)
        json_file(job, "1.json", GOOD)

    original = CommitBatch.__call__

    def commit(self: CommitBatch, df: Any, batch_id: int) -> None:
        original(self, df, batch_id)
        if table(job, "runs").num_rows and sum(r["rows_in"] for r in table(job, "runs").to_pylist()):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(stream_module, "start", started)
    monkeypatch.setattr(CommitBatch, "__call__", commit)
    later = threading.Thread(target=first_file)
    later.start()
    code, said = skyband(spec, "--continuous")
    later.join()
    assert code == 0 and "done: " in said
    monkeypatch.undo()
    assert skyband(spec, "--finish")[0] == 0
    assert sum(r["accepted"] for r in table(job, "runs").to_pylist()) == 40


class Jumping(datetime):
    """A clock that stands at another year in every run."""

    years = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + timedelta(days=365 * cls.years)


def test_clocks_that_jump_change_nothing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sorted(stream(6, 120), key=lambda r: str(r[1]))
    steady, jumping = small(tmp_path / "steady"), small(tmp_path / "jumping")
    write(steady.parent, rows, 4)
    run(spark, steady)
    wall = time.time
    for module in (batch_module, runner):
        monkeypatch.setattr(module, "datetime", Jumping)
    monkeypatch.setattr(time, "time", lambda: wall() + 365 * 86_400 * Jumping.years)
    # Forward, then back by sixty years; each file's stamp is as wrong as the clock, and later than all that the next ones have.
    for i, (years, stamped) in enumerate([(0, 4_000_000_000), (30, 16_000_000_000), (-30, 1), (0, 1_000_000_000)]):
        monkeypatch.setattr(Jumping, "years", years)
        write(jumping.parent, rows, 4, slice(i, i + 1))
        os.utime(jumping.parent / "in" / f"{i:03}.csv", (stamped, stamped))
        run(spark, jumping, finish=i == 3)
    assert_equal_tables(jumping.parent, steady.parent, same_cuts=False)
    when = [r["batch_time"] for r in table(jumping.parent, "runs").sort_by("batch_id").to_pylist()]
    assert when != sorted(when)
