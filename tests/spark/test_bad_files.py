"""Files that cannot be read are never passed over in silence: Spark says which, and they are set aside, or stop the run."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.errors import SkybandError
from tests.local.jobs import run as run_by_local_engine
from tests.local.losses import assert_as_good, job, landed
from tests.spark.cuts import verified
from tests.spark.jobs import run, run_apart, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job with nothing but good files, finished."""
    directory = tmp_path_factory.mktemp("good") / "job"
    run_by_local_engine(job(directory))
    return directory


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
