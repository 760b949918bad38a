"""Scale: a backlog of ten million rows in Parquet and CSV (pairs, top-k, groups), and a hundred thousand keys against one; with the memory
of every process.

``python -m bench scale``; SKYBAND_BENCH_ROWS and SKYBAND_BENCH_KEYS make it smaller.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from bench.pipeline import tree_cpu

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "scale"
ROWS = int(os.environ.get("SKYBAND_BENCH_ROWS", "10000000"))
KEYS = int(os.environ.get("SKYBAND_BENCH_KEYS", "100000"))
FILES = 40

MOST = {"parquet": "32m", "csv": "80m"}
"""Bytes of a batch: about as many rows of the one as of the other."""
GROUPS = 10_000
"""Groups of the job with groups, of sizes by Zipf's law."""
ENTRIES = {
    "topk_pairs": "type: topk_pairs, scoring: near", "topk": "type: topk, scoring: high",
    "topk_groups": "type: topk_groups, group: g, score: sum(y)",
}  # fmt: skip
"""The query of a job, by its type."""
SPEC = """\
job: {job}
source:
  format: {form}
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, k: bigint, x: double, y: double{more}}}
  id: [id]
  unique: {unique}
  event_time: {{column: ts, watermark: 1 second}}
{partition}
window: {window}
scoring:
  near: {{expression: "abs(a.x - b.x) + abs(a.y - b.y)", direction: min}}
  high: {{expression: "x + y", direction: max}}
queries:
  found: {{{query}, k: {k}}}
sink: {{path: "{directory}/out"}}
run: {{max_bytes: {most}}}
"""


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.streaming.spark.session import get_session

    spark = get_session("skyband-bench")
    _job(spark, "warm", 50_000, 0, "{count: 1000}", 20)
    yield _job(spark, "one drop", ROWS, 0, "{count: 1000}", 20)
    yield _job(spark, "one drop, top-k", ROWS, 0, "{count: 1000}", 20, "topk")
    yield _job(spark, "one drop of CSV", ROWS, 0, "{count: 1000}", 20, form="csv")
    yield _job(spark, "one drop of CSV, top-k", ROWS, 0, "{count: 1000}", 20, "topk", form="csv")
    yield _job(spark, "one drop, groups", ROWS, 0, "{count: 100000}", 10, "topk_groups")
    rows = 4 * KEYS
    yield _job(spark, "one key", rows, 1, "{count: 100}", 5)
    yield _job(spark, "many keys", rows, KEYS, "{count: 100}", 5)


def _job(
    spark: Any, name: str, rows: int, keys: int, window: str, k: int, query: str = "topk_pairs", form: str = "parquet"
) -> dict[str, Any]:  # fmt: skip
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    directory = WORK / name.replace(",", "").replace(" ", "-")
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "in").mkdir(parents=True)
    rng = np.random.default_rng(1)
    per_file = -(-rows // FILES)
    for i in range(FILES):
        first = i * per_file
        n = min(per_file, rows - first)
        if n <= 0:
            break
        at = pa.array((1_600_000_000_000_000 + 10_000 * np.arange(first, first + n)).astype("datetime64[us]"))
        stamps = at.cast(pa.string()) if form == "csv" else at.cast(pa.timestamp("us", "UTC"))
        columns = {"id": np.arange(first, first + n), "ts": stamps, "k": rng.integers(0, max(keys, 1), n)}
        columns |= {"x": rng.random(n), "y": rng.random(n)}
        if query == "topk_groups":
            columns["g"] = rng.zipf(1.1, n) % GROUPS
        table, path = pa.table(columns), directory / "in" / f"{i:03}.{form}"
        if form == "csv":
            pc.write_csv(table, path)
        else:
            pq.write_table(table, path)
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))
    spec = directory / "spec.yaml"
    partition = "  partition_by: [k]" if keys > 1 else ""
    spec.write_text(
        SPEC.format(
            job=directory.name,
            directory=directory,
            form=form,
            most=MOST[form],
            unique="checked",
            partition=partition,
            window=window,
            k=k,
            query=ENTRIES[query],
            more=", g: bigint" if query == "topk_groups" else "",
        )
    )
    plan = load_plan(str(spec))
    batches: list[Batch] = []
    with Memory() as memory:
        start, cpu = time.perf_counter(), tree_cpu()
        Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=True)
        seconds, cpu = time.perf_counter() - start, tree_cpu() - cpu
    accepted = sum(b.get("accepted") for b in batches)
    assert accepted == rows, f"{accepted} of {rows} rows accepted"
    return {
        "operator": query,
        "params": {"job": name, "rows": rows, "keys": max(keys, 1), "window": window, "k": k, "batches": len(batches)},
        "cpu_ns_per_event": 1e3 * sum(b.get("us_operator") for b in batches) / rows,
        "wall_ns_per_event": 1e9 * seconds / rows,
        "peers": {},
        "rows_per_second": rows / seconds,
        "cpu_us_per_row": 1e6 * cpu / rows,
        "peak_mb": memory.peak,
    }


class Memory:
    """Peak resident memory by kind of process (MB), sampled twice a second while the block runs (Linux)."""

    def __enter__(self) -> Memory:
        self.peak: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            for path in Path("/proc").glob("[0-9]*"):
                try:
                    name = (path / "comm").read_text().strip()
                    status = (path / "status").read_text()
                except OSError:
                    continue
                kind = "engine (JVM)" if name == "java" else "python" if name.startswith("python") else None
                if kind and "VmRSS:" in status:
                    mb = int(status.split("VmRSS:")[1].split()[0]) // 1024
                    self.peak[f"largest {kind} process"] = max(self.peak.get(f"largest {kind} process", 0), mb)
