"""One global stream on two cores: jobs whose search for pairs is shared by two shards, against the same jobs with one.

From Parquet files through Spark to Delta tables, by the clock, by turns in one warm session; the median of each counts. Windows hold
100,000 rows, and a batch half as many; the time counts from when the window is full.

- ``closest``: top-k pairs that a zone map helps to find; ``products``: those whose score has no useful bounds, so that every partner in the
  window is scored; ``vectors``: those by the distance of vectors of 32 numbers
- ``skewed``: ``vectors`` with a thousand keys, one of which has half of the rows
- ``matches``: the most similar earlier sets of every set; ``sets``: top-k similar sets

Nothing else should run on the machine. ``JOBS=vectors,matches`` in the environment measures only these.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.similar_sets import synthetic

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan

WORK: Final = Path(__file__).resolve().parents[1] / "build" / "bench" / "shards"
WINDOW: Final = 100_000
ROWS: Final = 250_000
BATCH: Final = 50_000
REPEATS: Final = int(os.environ.get("REPEATS", "3"))
COLUMNS: Final = ("operator", "params", "wall_ns_per_event", "peers", "times", "rows_per_second")

SPEC: Final = """\
job: shards_{name}
source:
  format: parquet
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, {columns}}}
  id: [id]
  unique: assumed
  event_time: {{column: ts, watermark: 0 seconds}}
{lines}
sink: {{path: "{directory}/out"}}
run: {{max_files: 1}}
"""
SCORED: Final = """\
window: {{count: 100000}}
scoring: {{s: {{expression: "{score}", direction: min}}}}
queries: {{best: {{type: topk_pairs, scoring: s, k: 20}}}}"""
COMPARED: Final = """\
window: {{count: 100000}}
tokens: {{words: {{column: items}}}}
queries: {{best: {{type: {type}, tokens: words, k: {k}}}}}"""
VECTORS: Final = "vectors: {v: 32}\n" + SCORED.format(score="l2(a.v, b.v)")
JOBS: Final = {
    "closest": ("x: double, y: double, z: double", SCORED.format(score="abs(a.x - b.x) + abs(a.y - b.y) + abs(a.z - b.z)")),
    "products": ("x: double, y: double, z: double", SCORED.format(score="abs(a.x - b.x) * abs(a.y - b.y) * abs(a.z - b.z)")),
    "vectors": ("v: 'array<float>'", VECTORS),
    "skewed": ("v: 'array<float>', grp: int", f"  partition_by: [grp]\n{VECTORS}"),
    "matches": ("items: array<bigint>", COMPARED.format(type="matches", k=10)),
    "sets": ("items: array<bigint>", COMPARED.format(type="topk_similar_sets", k=20)),
}


def run() -> Iterator[dict[str, Any]]:
    """Measure every job with one shard, then with two."""
    from skyband.framework.streaming.spark.session import get_session
    from skyband.jobs.spec import load_plan

    spark = get_session("skyband-bench", quick=False)
    for name in os.environ.get("JOBS", ",".join(JOBS)).split(","):
        directory = WORK / name
        shutil.rmtree(directory, ignore_errors=True)
        _write(directory / "in", name)
        spec = directory / "spec.yaml"
        columns, lines = JOBS[name]
        spec.write_text(SPEC.format(name=name, directory=directory, columns=columns, lines=lines))
        plan = load_plan(str(spec))
        made: dict[int, list[float]] = {1: [], 2: []}
        _seconds(spark, replace(plan, shards=2))  # starts workers, compiles kernels
        for _ in range(REPEATS):
            for shards, runs in made.items():
                runs.append(_seconds(spark, replace(plan, shards=shards)))
        one, two = (median(made[p]) for p in (1, 2))
        rows = ROWS - WINDOW
        yield {
            "operator": name,
            "params": {"n": WINDOW, "shards": 2},
            "wall_ns_per_event": 1e9 * two / rows,
            "peers": {"one_shard": 1e9 * one / rows},
            "times": one / two,
            "rows_per_second": rows / two,
        }


def _seconds(spark: Any, plan: Plan) -> float:
    """Run a job into fresh tables; return the seconds from the end of the batch that filled the window to the end of the last rows."""
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for

    shutil.rmtree(plan.sink, ignore_errors=True)
    ends: list[float] = []

    def note(batch: Batch) -> None:
        if batch.get("rows_in"):
            ends.append(time.perf_counter())

    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), note).run(once=True, finish=True)
    assert len(ends) == ROWS // BATCH
    return ends[-1] - ends[WINDOW // BATCH - 1]


def _write(directory: Path, name: str) -> None:
    """Write the rows of a job, a file a batch."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {"id": np.arange(ROWS), "ts": pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us", "UTC"))}
    if name in ("sets", "matches"):
        columns["items"] = pa.array([s.tolist() if hasattr(s, "tolist") else list(s) for s in synthetic(ROWS)], pa.list_(pa.int64()))
    elif name in ("vectors", "skewed"):
        columns["grp"] = np.where(rng.random(ROWS) < 0.5, 0, rng.integers(1, 1000, ROWS)).astype(np.int32)
        columns["v"] = pa.FixedSizeListArray.from_arrays(rng.random(32 * ROWS, np.float32), 32).cast(pa.list_(pa.float32()))
    else:
        columns |= {c: rng.random(ROWS) for c in "xyz"}
    table = pa.table(columns)
    for start in range(0, ROWS, BATCH):
        pq.write_table(table.slice(start, BATCH), directory / f"{start:07}.parquet")
        os.utime(directory / f"{start:07}.parquet", (start + 1, start + 1))
