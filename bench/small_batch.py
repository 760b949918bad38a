"""The fixed cost of a batch of one small file, compared with Spark batches that do nothing, in one session.

``reads``: Spark lists and reads the same file and discards the rows. The job and these take turns.
Times are medians in milliseconds without the first batches, which start workers and compile; CPU is that of all processes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.pipeline import ROOT, tree_cpu

WORK = ROOT / "build" / "bench" / "small_batch"
FILES = int(os.environ.get("BENCH_FILES", "60"))
WARM = int(os.environ.get("BENCH_WARM", "15"))
ROUNDS = 2


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.streaming.spark.session import get_session
    from skyband.jobs.authoring.demo_data import write_landing
    from skyband.jobs.spec import load_plan

    shutil.rmtree(WORK, ignore_errors=True)
    write_landing(WORK / "all")
    landing = WORK / "landing"
    landing.mkdir()
    for path in sorted((WORK / "all").iterdir())[:FILES]:
        shutil.copy2(path, landing)
    os.environ |= {"LANDING": str(landing), "WAREHOUSE": str(WORK / "tables")}
    demo = load_plan(str(ROOT / "specs" / "flights.yaml"))
    demo = replace(demo, source=replace(demo.source, max_files_per_batch=1))
    spark = get_session("skyband-bench", quick=False)
    ways: dict[str, Callable[[], dict[str, list[float]]]] = {
        "reads": lambda: _spark_alone(spark, landing),
        "job": lambda: _job(spark, demo),
    }
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            before = tree_cpu()
            for part, values in way().items():
                found[name].setdefault(part, []).extend(values)
            cpu[name].append(1000 * (tree_cpu() - before) / FILES)
    total = {name: statistics.median(parts["total"]) for name, parts in found.items()}
    for name, measured in found.items():
        yield {
            "operator": "small batch",
            "params": {"what": name, "files": FILES},
            "total_ms": total[name],
            "cpu_ms": min(cpu[name]),
            "of_reads": total[name] / total["reads"],
            "ms": {part: statistics.median(values) for part, values in measured.items()},
        }


_PARTS = {
    "total": "triggerExecution",
    "list files": "latestOffset",
    "plan": "queryPlanning",
    "log offsets": "walCommit",
    "log commit": "commitOffsets",
    "batch": "addBatch",
}


def _times(progress: dict[int, dict[str, int]]) -> dict[str, list[float]]:
    """The parts of the batches' times, by Spark's own figures."""
    seen = [parts for number, parts in sorted(progress.items()) if number >= WARM and parts.get("addBatch")]
    return {name: [float(parts.get(key, 0)) for parts in seen] for name, key in _PARTS.items()}


def _spark_alone(spark: Any, landing: Path) -> dict[str, list[float]]:
    directory = WORK / "reads"
    shutil.rmtree(directory, ignore_errors=True)
    schema = spark.read.csv(str(next(landing.iterdir())), header=True).schema
    rows = spark.readStream.schema(schema).option("header", True).option("maxFilesPerTrigger", 1).csv(str(landing))
    progress: dict[int, dict[str, int]] = {}

    def note() -> None:
        progress.update({p["batchId"]: p["durationMs"] for p in query.recentProgress})

    def take(frame: Any, number: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(directory)).trigger(availableNow=True).start()
    while query.isActive:
        time.sleep(0.5)
        note()
    query.awaitTermination()
    note()
    return _times(progress)


def _job(spark: Any, plan: Any) -> dict[str, list[float]]:
    """The demo job, a file a batch, with the job's own figures of its parts."""
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for

    shutil.rmtree(plan.sink, ignore_errors=True)
    batches: list[Batch] = []
    progress: dict[int, dict[str, int]] = {}

    def note(batch: Batch) -> None:
        batches.append(batch)
        # Spark keeps 100; to ask takes it longer than a table's commit.
        for query in spark.streams.active if batch.number % 20 == 19 else ():
            progress.update({p["batchId"]: p["durationMs"] for p in query.recentProgress})

    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), note).run(once=True)
    seen = [b for b in batches[WARM:] if b.get("rows_in")]
    host = {f"host {name}": [b.get(f"us_{name}") / 1000 for b in seen] for name in ("load", "decode", "order", "operator", "state")}
    return _times(progress) | {"job and tables": [b.seconds * 1000 for b in seen]} | host
