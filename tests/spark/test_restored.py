"""Whole sinks that are put back from a backup, and two jobs or runs over one sink: nothing is lost, and nothing is written twice."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.jobs.cli import main
from tests.spark.cuts import verified, write
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, run_apart, start_apart, table
from tests.spark.kinds import KINDS, OVER_RESULTS, Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 12
RESTORED = {"deletions": KINDS["deletions"], "keyed": KINDS["keyed"], **OVER_RESULTS}


def accepted(job: Path) -> int:
    return sum(r["accepted"] for r in table(job, "runs").to_pylist())


@pytest.mark.parametrize("kind", RESTORED.values(), ids=RESTORED)
def test_a_sink_that_is_restored_reads_again_what_came_since(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    """A backup is taken between two runs, the job goes on for three more, and the whole directory is put back: the next run is equal to
    one after the backup, and so is one after that which reads new files."""
    rows = kind.rows(11, 360)
    spec = kind.write(tmp_path / "job", 2)
    job, sink, backup = spec.parent, spec.parent / "out", tmp_path / "backup"
    write(job, rows, FILES, slice(0, 4))
    run(spark, spec, finish=False)
    shutil.copytree(sink, backup)
    kept = accepted(job)
    for cut in (slice(4, 6), slice(6, 8), slice(8, 9)):
        write(job, rows, FILES, cut)
        run(spark, spec, finish=False)
    assert accepted(job) > kept > 0
    shutil.rmtree(sink)
    shutil.copytree(backup, sink)
    assert accepted(job) == kept
    run(spark, spec, finish=False)
    write(job, rows, FILES, slice(9, None))
    run(spark, spec)
    alone = kind.write(tmp_path / "alone", 100)
    write(alone.parent, rows, FILES)
    run(spark, alone)
    assert_equal_tables(job, alone.parent, same_cuts=False)
    assert verified(spec)


def test_two_runs_at_once_are_one(spark: SparkSession, tmp_path: Path) -> None:
    """Three runs start at one moment over one sink: one of them runs, the others are refused by name, and every row is taken once."""
    kind = KINDS["corrections"]
    rows = kind.rows(12, 240)
    spec = kind.write(tmp_path / "job", 1)
    write(spec.parent, rows, FILES)
    started = [start_apart(spec, "--finish") for _ in range(3)]
    ended = [(p.communicate(timeout=600)[1], p.returncode) for p in started]
    codes = sorted(code for _, code in ended)
    refused = [said for said, code in ended if code != 0]
    # A run that starts after another has ended finds nothing to do.
    assert codes[0] == 0 and all("SKY-E302" in said and "Traceback" not in said for said in refused), ended
    assert run_apart(spec, "--finish").returncode == 0
    alone = kind.write(tmp_path / "alone", 100)
    write(alone.parent, rows, FILES)
    run(spark, alone)
    assert_equal_tables(spec.parent, alone.parent, same_cuts=False)


def test_another_job_writes_nothing_into_a_sink(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = KINDS["corrections"]
    spec = kind.write(tmp_path / "job", 100)
    job, other = spec.parent, tmp_path / "job" / "other.yaml"
    write(job, kind.rows(13, 60), 2)
    run(spark, spec)
    (job / "link").symlink_to(job / "out")
    before = {p: p.stat().st_mtime_ns for p in (job / "out").rglob("*") if p.is_file()}
    text = spec.read_text()
    assert text.startswith("job: small\n") and f"{job}/out" in text and before
    for where in ("out", "link", "out/best20_changes", "out/inner", "link/inner"):
        other.write_text(text.replace("job: small\n", "job: other\n", 1).replace(f"{job}/out", f"{job}/{where}"))
        capsys.readouterr()
        assert main(["run", str(other)]) == 2
        said = capsys.readouterr().err
        assert "SKY-E205" in said and ("another job" in said or "that of job 'small'" in said) and "Traceback" not in said, said
        assert {p: p.stat().st_mtime_ns for p in (job / "out").rglob("*") if p.is_file()} == before
