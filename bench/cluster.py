"""Many keys on a cluster against ``local[2]``, in one run. The cluster is a master and two one-core workers on loopback.

``python -m bench cluster``; SKYBAND_BENCH_ROWS and SKYBAND_BENCH_KEYS make it smaller. Per job it reports
rows per second, the driver's peak memory (Python, JVM, heap), the bytes that tasks send to the driver (in all, and per 100,000 changes),
and processor seconds (``processors``: of all processes, including Spark's start).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.pipeline import tree_cpu

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "cluster"
ROWS = int(os.environ.get("SKYBAND_BENCH_ROWS", "2000000"))
KEYS = int(os.environ.get("SKYBAND_BENCH_KEYS", "200000"))
FILES = 40
HEAP = "512m"
"""Of the cluster's driver: about the least that Spark takes. On one machine the driver is the executor, too."""

SPEC = """\
job: cluster
source:
  format: parquet
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, k: bigint, x: double}}
  id: [id]
  unique: assumed
  event_time: {{column: ts, watermark: 1 second}}
  partition_by: [k]
window: {{count: 100}}
scoring:
  high: {{expression: x, direction: max}}
queries:
  best: {{type: topk, scoring: high, k: 5}}
sink: {{path: "{out}"}}
run: {{max_bytes: {batch}, buckets: 64}}
"""


def run() -> Iterator[dict[str, Any]]:
    from tests.spark.standalone import Cluster, environment

    shutil.rmtree(WORK, ignore_errors=True)
    _write_input(WORK / "in")
    local = {k: v for k, v in os.environ.items() if k != "SKYBAND_FAILPOINT"}
    local |= {"SKYBAND_MASTER": "local[2]", "SKYBAND_DRIVER_MEMORY": "2g"}
    yield _measured("local[2]", local)
    cluster = Cluster(WORK / "cluster", python_path=str(ROOT))
    try:
        yield _measured("two workers", environment(cluster, SKYBAND_DRIVER_MEMORY=HEAP))
    finally:
        cluster.close()


def _write_input(directory: Path) -> None:
    directory.mkdir(parents=True)
    rng = np.random.default_rng(1)
    per_file = -(-ROWS // FILES)
    for i, first in enumerate(range(0, ROWS, per_file)):
        n = min(per_file, ROWS - first)
        at = (1_600_000_000_000_000 + 10_000 * np.arange(first, first + n)).astype("datetime64[us]")
        columns = {"id": np.arange(first, first + n), "ts": pa.array(at, pa.timestamp("us", "UTC"))}
        path = directory / f"{i:03}.parquet"
        pq.write_table(pa.table({**columns, "k": rng.integers(0, KEYS, n), "x": rng.random(n)}), path)
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))


def _measured(name: str, environment: dict[str, str]) -> dict[str, Any]:
    out = WORK / name.replace(" ", "-").rstrip("]").replace("[", "-")
    out.mkdir()
    spec = out / "spec.yaml"
    batch = max(1, sum(f.stat().st_size for f in (WORK / "in").glob("*")) * 4 // FILES)
    spec.write_text(SPEC.format(directory=WORK, out=out / "out", batch=batch))
    env = environment | {"SKYBAND_SHUFFLE_PARTITIONS": "2", "PYTHONPATH": str(ROOT)}
    before = tree_cpu()
    done = subprocess.run([sys.executable, "-m", "bench.cluster", str(spec)], env=env, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["accepted"] == ROWS, f"{found['accepted']} of {ROWS} rows accepted"
    return {
        "operator": "topk",
        "params": {"engine": name, "rows": ROWS, "keys": KEYS, "k": 5, "batches": found["batches"], "changes": found["changes"]},
        "cpu_ns_per_event": 1e3 * found["us_operator"] / ROWS,
        "wall_ns_per_event": 1e9 * found["seconds"] / ROWS,
        "peers": {},
        "rows_per_second": ROWS / found["seconds"],
        "peak_mb": found["peak_mb"],
        "message_bytes": found["bytes"],
        "bytes_per_100000_changes": 1e5 * found["bytes"] / found["changes"],
        "seconds": {**found["parts"], "processors": tree_cpu() - before},
    }


def _driver(spec: str) -> dict[str, Any]:
    """Runs a job in this process and says what it took."""
    from skyband.framework.base.lean_arrow import lean_arrow

    # As the command does, first.
    lean_arrow()
    from skyband.framework.streaming.run import commit, results
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.commit import Received
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.streaming.spark.session import get_session
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    plan, sent = load_plan(spec), []
    of, derive = commit.Received.of, results.derive
    parts = {"deriving": 0.0, "in batches": 0.0}

    def counting(messages: Any) -> Received:
        received = list(messages)
        sent.append(sum(len(kind) + len(data) for kind, data in received))
        return of(received)

    def timed(*args: Any) -> None:
        before = time.perf_counter()
        derive(*args)
        parts["deriving"] += time.perf_counter() - before

    setattr(commit.Received, "of", staticmethod(counting))  # noqa: B010 - a class method of a class with slots
    results.derive = timed
    spark = get_session("skyband-bench", quick=False)
    batches: list[Batch] = []
    start = time.perf_counter()
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=True)
    seconds = time.perf_counter() - start
    parts["in batches"] = sum(b.seconds for b in batches)
    assert spark._jvm is not None
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = sum(p.getPeakUsage().getUsed() for p in pools if str(p.getType().name()) == "HEAP")
    (jvm,) = [p for p in _children(os.getpid()) if _said(p, "Name:").endswith("java")]
    peak = {"driver python": _peak(os.getpid()), "driver jvm": _peak(jvm), "heap pools": heap >> 20}
    counts = {n: sum(b.get(n) for b in batches) for n in ("accepted", "changes", "us_operator")}
    return {**counts, "batches": len(batches), "seconds": seconds, "bytes": sum(sent), "peak_mb": peak, "parts": parts}


def _children(process: int) -> list[int]:
    found, left = [], [process]
    while left:
        now = left.pop()
        for task in Path(f"/proc/{now}/task").iterdir():
            below = [int(c) for c in (task / "children").read_text().split()]
            found += below
            left += below
    return found


def _said(process: int, name: str) -> str:
    return next((x.removeprefix(name).strip() for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith(name)), "")


def _peak(process: int) -> int:
    """Of resident memory, in MB (Linux)."""
    return int(_said(process, "VmHWM:").split()[0]) // 1024


if __name__ == "__main__":
    print(json.dumps(_driver(sys.argv[1])))
