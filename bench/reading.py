"""Reading by Spark against reading by Arrow, end to end: CSV and Parquet, pairs and top-k, by turns in one warm session.

Processor time of all processes, nanoseconds a row; ``SKYBAND_BENCH_ROWS`` (1,500,000) rows of five columns in files of 250,000.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from bench.pipeline import ROOT, tree_cpu

WORK = ROOT / "build" / "bench" / "reading"
ROWS = int(os.environ.get("SKYBAND_BENCH_ROWS", "1500000"))
PER_FILE = 250_000
SCORES = {"topk_pairs": "abs(a.x - b.x) + abs(a.y - b.y)", "topk": "x + y"}
SPEC = """\
job: {kind}
source:
  format: {kind}
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, k: bigint, x: double, y: double}}
  id: [id]
  event_time: {{column: ts, watermark: 1 second}}
window: {{count: 1000}}
scoring: {{near: {{expression: "{score}", direction: min}}}}
queries: {{near: {{type: {type}, scoring: near, k: 20}}}}
sink: {{path: "{directory}/out"}}
run: {{max_bytes: 32m}}
"""


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.streaming.spark.session import get_session

    spark = get_session("skyband-bench", quick=False)
    for kind in ("csv", "parquet"):
        for query in SCORES:
            _job(spark, kind, query, 200_000, arrow=False)  # starts workers, compiles
            took = {arrow: _job(spark, kind, query, ROWS, arrow) for arrow in (False, True)}
            (by_spark, _), (cpu, seconds) = took[False], took[True]
            yield {
                "operator": query,
                "params": {"format": kind, "rows": ROWS},
                "cpu_ns_per_event": 1e9 * cpu / ROWS,
                "wall_ns_per_event": 1e9 * seconds / ROWS,
                "peers": {"read by Spark": 1e9 * by_spark / ROWS},
                "times_less": by_spark / cpu,
                "rows_per_second": ROWS / seconds,
            }


def _job(spark: Any, kind: str, query: str, rows: int, arrow: bool) -> tuple[float, float]:
    """Seconds of processor time and by the clock of one run over fresh files into fresh tables."""
    from skyband.framework.streaming.run import query as building
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    shutil.rmtree(WORK, ignore_errors=True)
    _write(WORK / "in", kind, rows)
    (WORK / "spec.yaml").write_text(SPEC.format(directory=WORK, kind=kind, type=query, score=SCORES[query]))
    plan, accepted, by_arrow = load_plan(str(WORK / "spec.yaml")), 0, building.by_arrow

    def count(batch: Batch) -> None:
        nonlocal accepted
        accepted += batch.get("accepted")

    cpu, began = tree_cpu(), time.perf_counter()
    building.by_arrow = by_arrow if arrow else lambda *_: False
    try:
        Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), count).run(once=True, finish=True)
    finally:
        building.by_arrow = by_arrow
    assert accepted == rows
    return tree_cpu() - cpu, time.perf_counter() - began


def _write(directory: Path, kind: str, rows: int) -> None:
    directory.mkdir(parents=True)
    random = np.random.default_rng(1)
    for number, first in enumerate(range(0, rows, PER_FILE)):
        n = min(PER_FILE, rows - first)
        at = pa.array((1_600_000_000_000_000 + 10_000 * np.arange(first, first + n)).astype("datetime64[us]"))
        stamps = at.cast(pa.string()) if kind == "csv" else at.cast(pa.timestamp("us", "UTC"))
        columns = {
            "id": np.arange(first, first + n),
            "ts": stamps,
            "k": np.zeros(n, np.int64),
            "x": random.random(n),
            "y": random.random(n),
        }
        path = directory / f"{number:03}.{kind}"
        if kind == "csv":
            pc.write_csv(pa.table(columns), path)
        else:
            pq.write_table(pa.table(columns), path)
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
