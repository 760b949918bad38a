"""Files and directories with odd names: read, or set aside with a reason; never read twice, and never without a word."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.jobs import cli
from tests.spark.jobs import run, stamp, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
EITHER = [False, pytest.param(True, marks=pytest.mark.slow)]
"""Whether Spark reads the files, for a derived column, or Arrow."""

SPEC = """\
job: named
source:
  format: csv
  path: PATH
  OPTIONS
  schema: {id: bigint, ts: timestamp, x: double}
  id: [id]
  event_time: {column: ts}
TRANSFORM
quality: {max_rejected: 100%}
window: {count: 50}
scoring: {high: {expression: x, direction: max}}
queries: {top: {type: topk, scoring: high, k: 50}}
sink: {path: out}
run: {trigger: once}
"""


def job(directory: Path, path: str, options: str = "", by_spark: bool = False) -> Path:
    """A job whose files Arrow reads, or Spark."""
    text = SPEC.replace("PATH", path).replace("  OPTIONS\n", f"  {options}\n" if options else "")
    text = text.replace("TRANSFORM\n", "transform: [{derive: {y: x * 2}}]\n" if by_spark else "")
    (directory / "job.yaml").write_text(text)
    return directory / "job.yaml"


def put(path: Path, *ids: int, at: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["id,ts,x", *(f"{i},{stamp(i)},{i}" for i in ids), ""]))
    os.utime(path, (1_600_000_000 + at, 1_600_000_000 + at))


def ids(directory: Path) -> list[int]:
    return sorted(table(directory, "top_now")["id"].to_pylist())


@pytest.mark.parametrize("by_spark", EITHER)
def test_a_name_that_spark_takes_for_a_pattern_stops_no_job_that_rejects_files(
    spark: SparkSession, tmp_path: Path, by_spark: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = job(tmp_path, "in", "on_bad_file: reject", by_spark)
    for n, name in enumerate(("a.csv", "b*.csv", "b[1].csv", "c?.csv", "{d}.csv", "r (1).csv")):
        put(tmp_path / "in" / name, n)
    run(spark, spec, finish=True)
    assert ids(tmp_path) == [0, 5]
    rejected = [r for r in table(tmp_path, "rejected").to_pylist() if r["reason"] == "bad_file"]
    assert sorted(json.loads(r["text"])["file"] for r in rejected) == ["b*.csv", "b[1].csv", "c?.csv", "{d}.csv"]
    assert all("takes its name for a pattern: rename it" in json.loads(r["text"])["problem"] for r in rejected)
    runs = table(tmp_path, "runs").to_pylist()
    assert sum(r["rejected_bad_file"] for r in runs) == 4 and sum(r["rows_in"] for r in runs) == 6
    # One that comes later, and nothing else with it, is reported in a batch of its own.
    put(tmp_path / "in" / "late*.csv", 9)
    run(spark, spec, finish=True)
    assert sum(r["rejected_bad_file"] for r in table(tmp_path, "runs").to_pylist()) == 5 and ids(tmp_path) == [0, 5]
    assert cli.main(["status", str(spec)]) == 0 and "0 files to take" in capsys.readouterr().out
    # Renamed, it is a file like others.
    (tmp_path / "in" / "late*.csv").rename(tmp_path / "in" / "late.csv")
    run(spark, spec, finish=True)
    assert ids(tmp_path) == [0, 5, 9]
    assert cli.main(["verify", str(spec)]) == 0


def test_a_name_that_spark_takes_for_a_pattern_stops_other_jobs(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in" / "b*.csv", 1)
    with pytest.raises(SkybandError, match="for a pattern and would read others twice") as e:
        run(spark, job(tmp_path, "in"), finish=True)
    assert e.value.code == "SKY-E301" and "on_bad_file: reject" in str(e.value.hint)


@pytest.mark.parametrize("by_spark", EITHER)
def test_other_names_are_names(spark: SparkSession, tmp_path: Path, by_spark: bool) -> None:
    names = ("a:b.csv", "a;b.csv", "a#b.csv", "a%25b.csv", "ä ö.csv", "a|b^c.csv", "a&b.csv", "'q\".csv")
    for n, name in enumerate(names):
        put(tmp_path / "in" / name, n)
    spec = job(tmp_path, "in", by_spark=by_spark)
    run(spark, spec, finish=True)
    assert ids(tmp_path) == list(range(len(names))) and table(tmp_path, "rejected").num_rows == 0
    assert cli.main(["verify", str(spec)]) == 0


@pytest.mark.parametrize("by_spark", EITHER)
def test_a_path_that_is_a_file(spark: SparkSession, tmp_path: Path, by_spark: bool) -> None:
    put(tmp_path / "in" / "one.csv", 1, 2)
    put(tmp_path / "in" / "two.csv", 3)
    spec = job(tmp_path, "in/one.csv", by_spark=by_spark)
    run(spark, spec, finish=True)
    assert ids(tmp_path) == [1, 2]
    run(spark, spec, finish=True)
    assert ids(tmp_path) == [1, 2] and cli.main(["verify", str(spec)]) == 0


def test_a_source_whose_directory_looks_like_a_pattern_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "in [2024]" / "a.csv", 1)
    spec = job(tmp_path, '"in [2024]"')
    for command in (["validate", "--data"], ["run"], ["preview"]):
        assert cli.main([*command, str(spec)]) == 2
        said = capsys.readouterr().err
        assert "SKY-E206 Spark takes" in said and "for a pattern, as its path has [ ]" in said and "symbolic link" in said
    (tmp_path / "link").symlink_to(tmp_path / "in [2024]")
    assert cli.main(["validate", "--data", str(job(tmp_path, "link"))]) == 0


def test_columns_of_directories(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in" / "day=01" / "a.csv", 1, at=1)
    put(tmp_path / "in" / "day=02" / "b.csv", 2, at=2)
    spec = job(tmp_path, "in")
    spec.write_text(spec.read_text().replace("x: double}", "x: double, day: string}").replace("type: topk,", "type: topk, carry: [day],"))
    run(spark, spec, finish=True)
    assert sorted(table(tmp_path, "top_now")["day"].to_pylist()) == ["01", "02"]
    assert cli.main(["verify", str(spec)]) == 0


def test_subdirectories_are_warned_of_by_a_run_and_read_if_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "in" / "top.csv", 1)
    put(tmp_path / "in" / "2024" / "01" / "a.csv", 2)
    spec = job(tmp_path, "in")
    assert cli.main(["run", "--finish", str(spec)]) == 0
    assert f"WARNING: 1 file below {tmp_path}/in is not read (first: {tmp_path}/in/2024/01/a.csv)" in capsys.readouterr().err
    assert cli.main(["status", str(spec)]) == 0
    assert "0 files to take" in (out := capsys.readouterr().out) and "1 file below" in out
    assert ids(tmp_path) == [1]
