"""Tables of a thousand queries through Spark into Delta: rows per second, against the same job with an operator that does nothing.

Three million rows of four independent columns, a window of a million rows: 1,000 linear top-k queries (k = 20) of one table, 1,000 linear
threshold queries that about 20 rows of the window pass each, and one top-k query, each a job of its own. Jobs write the changes of every
query after every event. SKYBAND_BENCH_ROWS makes it smaller.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.idle import Idle
from bench.pipeline import tree_cpu
from bench.topk import NAMES, D, weights

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "queries"
ROWS = int(os.environ.get("SKYBAND_BENCH_ROWS", "3000000"))
WINDOW = min(1_000_000, ROWS // 3)
FILES = 30
Q = 1000

SPEC = """\
job: {job}
source:
  format: parquet
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, x0: double, x1: double, x2: double, x3: double}}
  id: [id]
  event_time: {{column: ts, watermark: 1 second}}
window: {{count: {window}}}
scoring:
  one: {{linear: {{x0: 0.3, x1: 0.2, x2: 0.9, x3: 0.5}}}}
queries:
  {query}
sink: {{path: "{directory}/out-{job}"}}
run: {{max_bytes: 16m}}
"""
JOBS = {
    "topk-1000": "many: {type: topk, k: 20, queries_from: {format: csv, path: queries.csv}}",
    "threshold-1000": "many: {type: threshold, queries_from: {format: csv, path: limits.csv}}",
    "topk-1": "one: {type: topk, scoring: one, k: 20}",
}


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.streaming.spark.session import get_session

    _write_input()
    spark = get_session("skyband-bench", quick=False)
    for job, query in JOBS.items():
        yield from _job(spark, job, query)


def _write_input() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "in").mkdir(parents=True)
    rng = np.random.default_rng(1)
    per_file = -(-ROWS // FILES)
    sample = rng.random((WINDOW, D))
    w = weights(Q)
    head = "name," + ",".join(f"weight_{n}" for n in NAMES)
    (WORK / "queries.csv").write_text("\n".join([head, *(f"q{i}," + ",".join(map(repr, row)) for i, row in enumerate(w.tolist()))]) + "\n")
    least = [float(np.partition(sample @ row, -20)[-20]) for row in w]
    rows = (f"q{i}," + ",".join(map(repr, [*row, low])) for i, (row, low) in enumerate(zip(w.tolist(), least, strict=True)))
    (WORK / "limits.csv").write_text("\n".join([head + ",at_least", *rows]) + "\n")
    for i in range(FILES):
        first, n = i * per_file, min(per_file, ROWS - i * per_file)
        at = (1_600_000_000_000_000 + 1_000 * np.arange(first, first + n)).astype("datetime64[us]")
        x = rng.random((n, D))
        columns = {"id": np.arange(first, first + n), "ts": pa.array(at, pa.timestamp("us", "UTC"))}
        path = WORK / "in" / f"{i:03}.parquet"
        pq.write_table(pa.table(columns | {name: x[:, j] for j, name in enumerate(NAMES)}), path)
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))


def _job(spark: Any, job: str, query: str) -> Iterator[dict[str, Any]]:
    from skyband.jobs.spec import load_plan

    spec = WORK / f"{job}.yaml"
    spec.write_text(SPEC.format(job=job, directory=WORK, window=WINDOW, query=query))
    plan = load_plan(str(spec))
    operator = plan.operators[0]
    nothing = replace(operator, operator=Idle(operator.attributes, operator.window, operator.operator.roles), skyband=False)
    idle = replace(plan, operators=(nothing,))
    _once(spark, plan)  # starts workers, compiles kernels
    made = {"idle": _once(spark, idle), job: _once(spark, plan)}
    for name, m in made.items():
        yield {
            "operator": type(operator.operator).__name__ if name == job else "idle",
            "params": {"job": job, "rows": int(m["rows"]), "N": WINDOW, "queries": len(plan.queries[0].asked)},
            "cpu_ns_per_event": 1e9 * m["cpu"] / m["rows"],
            "wall_ns_per_event": 1e9 * m["seconds"] / m["rows"],
            "peers": {},
            "rows_per_second": m["rows"] / m["seconds"],
            "changes": int(m["changes"]),
            "operator_ns": m["operator"] / m["rows"],
            "of_idle": made["idle"]["seconds"] / m["seconds"],
        }


def _once(spark: Any, plan: Any) -> dict[str, float]:
    """One run over everything with a finish into fresh tables."""
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for

    shutil.rmtree(plan.sink, ignore_errors=True)
    batches: list[Batch] = []
    cpu, start = tree_cpu(), time.perf_counter()
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=True)
    seconds = time.perf_counter() - start
    rows = sum(b.get("accepted") for b in batches)
    assert rows == ROWS, f"{rows} of {ROWS} rows accepted"
    return {
        "rows": rows, "seconds": seconds, "cpu": tree_cpu() - cpu, "changes": sum(b.get("changes") for b in batches),
        "operator": 1e3 * sum(b.get("us_operator") for b in batches),
    }  # fmt: skip
