"""Measure both engines side by side: a run over one new file, small batches, the delay of a continuous run, and a million rows.

``new file``: ``skyband run`` over one new file of 1,000 rows (medians of ``RUNS``): seconds, and processor seconds of all its processes.
``batch``: milliseconds and processor milliseconds for each of ``FILES`` further files of one run, a batch each. ``continuous``: from a
file's name appearing to the row of ``runs`` that commits it. ``million``: microseconds a row of Parquet, start included, and of processor
time. ``times``: the figures of Spark divided by those of the local engine.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "engines"
ENGINES = ("spark", "local")
RUNS = int(os.environ.get("BENCH_RUNS", "5"))
FILES = int(os.environ.get("BENCH_FILES", "40"))
ROWS = 1_000
_SPEC = """\
job: engines
source:
  format: {format}
  path: "{directory}/in"
  schema: {{id: bigint, at: timestamp, points: double}}
  id: [id]
  event_time: {{column: at, watermark: 1 second}}
window: {{time: 10 minutes}}
scoring: {{points: {{expression: points, direction: max}}}}
queries: {{best: {{type: topk, scoring: points, k: 10}}}}
sink: {{path: "{directory}/out"}}
run: {{max_files: {files}, buckets: 1}}
"""


def run() -> Iterator[dict[str, Any]]:
    """Measure each kind of work by each engine, in turns."""
    shutil.rmtree(WORK, ignore_errors=True)
    works: dict[str, Callable[[str], tuple[float, float]]] = {
        "new file": _new_file, "batch": _batches, "continuous": _continuous, "million": _million,
    }  # fmt: skip
    for what, measure in works.items():
        found = {engine: measure(engine) for engine in ENGINES}
        for engine, (elapsed, cpu) in found.items():
            yield {"params": {"what": what, "engine": engine}, "elapsed": elapsed, "cpu": cpu}
        spark, local = found["spark"], found["local"]
        yield {"params": {"what": what, "engine": "times"}, "elapsed": spark[0] / local[0], "cpu": spark[1] / local[1] if local[1] else 0.0}


def _job(name: str, engine: str, format_: str = "csv", files: int = 1_000) -> Path:
    directory = WORK / f"{name}-{engine}"
    (directory / "in").mkdir(parents=True)
    (directory / "job.yaml").write_text(_SPEC.format(format=format_, directory=directory, files=files))
    return directory


def _put(directory: Path, number: int) -> None:
    """Write a file of ``ROWS`` rows, modified a second after the one before; its name appears when it is complete."""
    lines = ["id,at,points"]
    for i in range(number * ROWS, (number + 1) * ROWS):
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_700_000_000 + i // 10))
        lines.append(f"{i},{at}.{i % 10}Z,{i * 7919 % 100_003}")
    path = directory / "in" / f"_{number:05}.csv"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    path.rename(path.with_name(path.name[1:]))


def _command(directory: Path, engine: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "skyband.jobs.cli", "run", str(directory / "job.yaml"), "--quiet", "--engine", engine, *arguments]


def _measured(directory: Path, engine: str, *arguments: str) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(_command(directory, engine, *arguments), check=True, capture_output=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _new_file(engine: str) -> tuple[float, float]:
    directory = _job("new", engine)
    _put(directory, 0)
    _measured(directory, engine)
    found = []
    for number in range(1, RUNS + 1):
        _put(directory, number)
        found.append(_measured(directory, engine))
    return statistics.median(s for s, _ in found), statistics.median(c for _, c in found)


def _batches(engine: str) -> tuple[float, float]:
    """Milliseconds a batch: what a run over many files takes longer than one over one file."""
    directory = _job("batches", engine, files=1)
    _put(directory, 0)
    _measured(directory, engine)
    _put(directory, 1)
    one = _measured(directory, engine)
    for number in range(2, FILES + 3):
        _put(directory, number)
    many = _measured(directory, engine)
    return 1000 * (many[0] - one[0]) / FILES, 1000 * (many[1] - one[1]) / FILES


def _continuous(engine: str) -> tuple[float, float]:
    """Median seconds from a file to its row of ``runs``. No processor time: looks at the tables are a part of it."""
    directory = _job("continuous", engine)
    _put(directory, 0)
    _measured(directory, engine)
    process = subprocess.Popen(_command(directory, engine, "--continuous"), stderr=subprocess.DEVNULL)
    found = []
    try:
        for number in range(1, FILES // 2 + 1):
            _put(directory, number)
            began = time.perf_counter()
            while _rows(directory) < (number + 1) * ROWS:
                time.sleep(0.01)
            found.append(time.perf_counter() - began)
            time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    # The first ones wait for the start.
    return statistics.median(found[len(found) // 4 :]), 0.0


def _rows(directory: Path) -> int:
    runs = DeltaTable(str(directory / "out" / "runs")).to_pyarrow_table(columns=["rows_in"])
    return sum(runs["rows_in"].to_pylist())


def _million(engine: str) -> tuple[float, float]:
    directory, count = _job("million", engine, "parquet"), 1_000_000
    at = pa.array(1_700_000_000_000_000 + 10_000 * np.arange(count), pa.timestamp("us", "UTC"))
    rows = pa.table({"id": np.arange(count), "at": at, "points": np.random.default_rng(1).random(count)})
    pq.write_table(rows, directory / "in" / "rows.parquet")
    seconds, cpu = _measured(directory, engine)
    return 1e6 * seconds / count, 1e6 * cpu / count
