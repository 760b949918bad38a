"""End to end: the demo job against the same pipeline with an operator that does nothing.

``demo`` and ``idle`` process the whole year in one run into fresh tables, by turns in one warm session; the median of each counts.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.idle import Idle

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "pipeline"
REPEATS = 3


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.streaming.spark.session import get_session
    from skyband.jobs.authoring.demo_data import write_landing
    from skyband.jobs.spec import load_plan

    landing = WORK / "landing"
    write_landing(landing)
    os.environ |= {"LANDING": str(landing), "WAREHOUSE": str(WORK / "tables")}
    demo = load_plan(str(ROOT / "specs" / "flights.yaml"))
    idle = replace(
        demo, operators=tuple(replace(o, operator=Idle(o.operator.columns, o.operator.window, o.operator.roles)) for o in demo.operators)
    )
    spark = get_session("skyband-bench", quick=False)
    _once(spark, demo)  # starts workers, compiles kernels
    made: dict[str, list[dict[str, float]]] = {"demo": [], "idle": []}
    for _ in range(REPEATS):
        for name, plan in (("idle", idle), ("demo", demo)):
            made[name].append(_once(spark, plan))
    middle = {name: sorted(runs, key=lambda r: r["seconds"])[REPEATS // 2] for name, runs in made.items()}
    for name in ("demo", "idle"):
        m = middle[name]
        yield {
            "operator": "topk_pairs" if name == "demo" else "idle",
            "params": {"job": "flights", "rows": int(m["rows"])},
            "cpu_ns_per_event": 1e9 * m["cpu"] / m["rows"],
            "wall_ns_per_event": 1e9 * m["seconds"] / m["rows"],
            "peers": {"idle": 1e9 * middle["idle"]["cpu"] / m["rows"]} if name == "demo" else {},
            "rows_per_second": m["rows"] / m["seconds"],
            "of_idle": middle["idle"]["seconds"] / m["seconds"],
        }


def _once(spark: Any, plan: Any) -> dict[str, float]:
    """Run a plan over all rows into fresh tables; return rows, seconds, and CPU seconds of driver, JVM and workers."""
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for

    shutil.rmtree(plan.sink, ignore_errors=True)
    rows = 0

    def count(batch: Batch) -> None:
        nonlocal rows
        rows += batch.get("rows_in")

    cpu, start = tree_cpu(), time.perf_counter()
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), count).run(once=True, finish=True)
    return {"rows": rows, "seconds": time.perf_counter() - start, "cpu": tree_cpu() - cpu}


def tree_cpu() -> float:
    """Return the CPU seconds of this process and all it started (Linux; elsewhere, of this process and its ended children)."""
    if not Path("/proc/self/stat").exists():
        return sum(os.times()[:4])
    parent: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = path.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        pid = int(path.parent.name)
        parent[pid] = int(after_name[1])
        ticks[pid] = sum(int(t) for t in after_name[11:15])
    mine = {os.getpid()}
    while True:
        more = {p for p, q in parent.items() if q in mine} - mine
        if not more:
            return sum(ticks.get(p, 0) for p in mine) / os.sysconf("SC_CLK_TCK")
        mine |= more
