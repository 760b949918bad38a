"""One global stream on two cores: jobs whose search for pairs is shared by two shards, against the same jobs with one.

From Parquet files through Spark to Delta tables, by the clock, by turns in one warm session; the median of each counts. Windows hold
100,000 rows, and a batch half as many.

- ``closest``: top-k pairs that a zone map helps to find; ``products``: those whose score has no useful bounds, so that every partner in the
  window is scored; ``vectors``: those by the distance of vectors of 16 numbers
- ``skewed``: ``vectors`` with a thousand keys, one of which has half of the rows
- ``matches``: the most similar earlier sets of every set; ``sets``: top-k similar sets

Nothing else should run on the machine. ``JOBS=vectors,matches`` in the environment measures only these.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.pipeline import _once
from bench.similar_sets import synthetic

WORK: Final = Path(__file__).resolve().parents[1] / "build" / "bench" / "shards"
WINDOW: Final = 100_000
ROWS: Final = 300_000
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
VECTORS: Final = "vectors: {v: 16}\n" + SCORED.format(score="l2(a.v, b.v)")
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
        made: dict[int, list[dict[str, float]]] = {1: [], 2: []}
        _once(spark, replace(plan, shards=2))  # starts workers, compiles kernels
        for _ in range(REPEATS):
            for shards, runs in made.items():
                runs.append(_once(spark, replace(plan, shards=shards)))
        one, two = (sorted(made[p], key=lambda r: r["seconds"])[REPEATS // 2] for p in (1, 2))
        yield {
            "operator": name,
            "params": {"n": WINDOW, "rows": ROWS, "shards": 2},
            "cpu_ns_per_event": 1e9 * two["cpu"] / ROWS,
            "wall_ns_per_event": 1e9 * two["seconds"] / ROWS,
            "peers": {"one_shard": 1e9 * one["seconds"] / ROWS},
            "times": one["seconds"] / two["seconds"],
            "rows_per_second": ROWS / two["seconds"],
        }


def _write(directory: Path, name: str) -> None:
    """Write the rows of a job, a file a batch."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {"id": np.arange(ROWS), "ts": pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us", "UTC"))}
    if name in ("sets", "matches"):
        columns["items"] = pa.array([s.tolist() if hasattr(s, "tolist") else list(s) for s in synthetic(ROWS)], pa.list_(pa.int64()))
    elif name in ("vectors", "skewed"):
        columns["grp"] = np.where(rng.random(ROWS) < 0.5, 0, rng.integers(1, 1000, ROWS)).astype(np.int32)
        columns["v"] = pa.FixedSizeListArray.from_arrays(rng.random(16 * ROWS, np.float32), 16).cast(pa.list_(pa.float32()))
    else:
        columns |= {c: rng.random(ROWS) for c in "xyz"}
    table = pa.table(columns)
    for start in range(0, ROWS, BATCH):
        pq.write_table(table.slice(start, BATCH), directory / f"{start:07}.parquet")
        os.utime(directory / f"{start:07}.parquet", (start + 1, start + 1))
