"""Small jobs for Spark tests: rows as CSV files, a spec, a run in this process or another, tables read back by delta-rs."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.streaming.run.batch import Batch

START = datetime(2020, 1, 1, tzinfo=UTC)
COLUMNS: tuple[str, ...] = ("id", "ts", "grp", "x", "y", "side")

SPEC = """\
job: {job}
source:
  format: csv
  path: "{directory}/in"
  options: {{header: true}}
  schema: {{id: bigint, ts: timestamp, grp: string, x: double, y: double, side: string{more}}}
  id: [id]
  event_time: {{column: ts, watermark: {watermark}, tie_break: [side]}}
{partition}
{source}
quality:
  max_rejected: 100%
  rows:
    - {{name: sane_x, expect: "x < 1000000"}}
{deletes}
window: {window}
scoring:
  far: {{expression: "abs(a.x - b.x) + abs(a.y - b.y)", direction: max}}
  near: {{expression: "abs(a.x - b.x)", direction: min}}
{scoring}
queries:
{queries}
sink: {{path: "{directory}/out"}}
run: {{trigger: once, max_files: {max_files}{buckets}}}
"""

QUERIES = """\
  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}
  far3: {type: topk_pairs, scoring: far, k: 3, window: {count: 20}}
  near4: {type: topk_pairs, scoring: near, k: 4, where: "a.side <> b.side", max_score: 3}
  hourly: {type: topk_pairs, scoring: near, k: 3, every: 1 hour}
"""


def stamp(minutes: float) -> str:
    """An event time ``minutes`` after the start."""
    return (START + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def write_file(directory: Path, name: str, rows: Sequence[Sequence[Any]], at: int, columns: Sequence[str] = COLUMNS) -> None:
    """One CSV file in the job's landing directory, modified at second ``at`` (Spark reads files in that order)."""
    target = directory / "in" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name("_" + name)
    with open(temporary, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(columns)
        out.writerows(rows)
    os.utime(temporary, (1_600_000_000 + at, 1_600_000_000 + at))
    os.replace(temporary, target)


def write_spec(
    directory: Path,
    window: str = "{count: 50, time: 5 hours}",
    queries: str = QUERIES,
    watermark: str = "1 hour",
    partition: bool = False,
    max_files: int = 100,
    job: str = "small",
    buckets: int | None = None,
    scoring: str = "",
    deletes: str = "",
    source: str = "",
    shards: int | None = None,
    more: Mapping[str, str] | None = None,
) -> Path:
    """The spec of a small job below ``directory``. ``more``: columns beside ``COLUMNS``, with their types."""
    path = directory / "spec.yaml"
    path.write_text(
        SPEC.format(
            job=job, directory=directory, window=window, queries=queries, watermark=watermark, max_files=max_files,
            partition="  partition_by: [grp]" if partition else "", scoring=scoring, deletes=deletes, source=f"  {source}",
            more="".join(f", {name}: {type_}" for name, type_ in (more or {}).items()),
            buckets=(f", buckets: {buckets}" if buckets else "") + (f", shards: {shards}" if shards else ""),
        )
    )  # fmt: skip
    return path


def without_row_rule(spec: Path) -> None:
    """Take the row rule out of a spec: Spark's tasks then read its files by Arrow."""
    text = spec.read_text()
    begin, end = text.index("  rows:\n    - {name: sane_x"), text.index("\n", text.index("    - {name: sane_x")) + 1
    spec.write_text(text[:begin] + text[end:])


def by_the_local_engine(spec: Path) -> None:
    """Let every command run the job by the local engine: the spec says so."""
    text = spec.read_text()
    assert text.count("run: {trigger: once, ") == 1
    spec.write_text(text.replace("run: {trigger: once, ", "run: {engine: local, trigger: once, "))


def run(spark: SparkSession | None, spec: Path, finish: bool = True, partitions: int = 2) -> list[Batch]:
    """Runs the job in this process, by Spark or, without a session, by the local engine; its batches."""
    from skyband.framework.streaming.local.engine import LocalEngine
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    plan = load_plan(str(spec))
    batches: list[Batch] = []
    if spark is not None:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    engine = LocalEngine(no_spark) if spark is None else SparkEngine(spark)
    Runner(engine, plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=finish)
    return batches


def no_spark() -> SparkSession:
    raise AssertionError("the local engine asked for Spark")


def _apart(spec: Path, arguments: Sequence[str], failpoint: str | None, command: str = "run") -> tuple[list[str], dict[str, str]]:
    env = dict(os.environ, SKYBAND_MASTER="local[2]", SKYBAND_SHUFFLE_PARTITIONS="2")
    env.pop("SKYBAND_FAILPOINT", None)
    if failpoint:
        env["SKYBAND_FAILPOINT"] = failpoint
    return [sys.executable, "-m", "skyband.jobs.cli", command, str(spec), *arguments], env


def run_apart(
    spec: Path, *arguments: str, failpoint: str | None = None, before: Sequence[str] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``skyband run`` in a process of its own, which may be made to kill itself at a fail point, by the command ``before``."""
    command, env = _apart(spec, arguments, failpoint)
    return subprocess.run(
        [*before, *command], capture_output=True, text=True, timeout=600, env=env | environment, check=False, start_new_session=True
    )


def verified_apart(spec: Path) -> bool:
    """What ``skyband verify`` says, with a JVM of its own: one that runs already takes no more packages."""
    command, env = _apart(spec, ("--keys", "3", "--instants", "40", "--seed", "1"), None, "verify")
    return subprocess.run(command, capture_output=True, timeout=300, env=env, check=False, start_new_session=True).returncode == 0


def start_apart(spec: Path, *arguments: str, tmp: Path | None = None) -> subprocess.Popen[str]:
    """Starts ``skyband run`` and does not wait. ``tmp``: a directory for what a killed engine leaves behind."""
    command, env = _apart(spec, arguments, None)
    if tmp is not None:
        tmp.mkdir(exist_ok=True)
        env |= {"TMPDIR": str(tmp), "SPARK_LOCAL_DIRS": str(tmp), "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={tmp}"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True)


def table(directory: Path, name: str) -> pa.Table:
    """A table of the job, by delta-rs."""
    return DeltaTable(str(directory / "out" / name)).to_pyarrow_table()


def changes(directory: Path, query: str, keys: Sequence[str] = ()) -> pa.Table:
    """The change stream of a query in its order, without ``batch_id``."""
    rows = table(directory, f"{query}_changes").drop_columns(["batch_id"])
    return rows.sort_by([(k, "ascending") for k in (*keys, "step", "pos")])


def sorted_rows(rows: pa.Table, without: Sequence[str] = ()) -> list[str]:
    """Rows as sorted text, for comparing tables whose order means nothing."""
    return sorted(map(repr, rows.select(sorted(n for n in rows.column_names if n not in without)).to_pylist()))
