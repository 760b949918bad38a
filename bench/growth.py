"""Growth on disk: the files and bytes of a job's tables and checkpoint over 2,000 batches of one small file each.

One run with ``--once`` and two queries over a full directory; ``SKYBAND_GROWTH_BATCHES`` makes it shorter. A row is a point in time: files
and KB in all and by owner, seconds per batch (median of the last 50), and milliseconds to open ``runs`` and read it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "growth"
BATCHES = 2000
MARKS = (100, 200, 300, 500, 1000, 1500, 2000)
ROWS = 20
START = 1_577_836_800

SPEC = """\
job: growth
source:
  format: csv
  path: "{work}/in"
  options: {{header: true}}
  schema: {{id: bigint, ts: timestamp, grp: string, x: double, y: double}}
  id: [id]
  event_time: {{column: ts, watermark: 1 minute}}
  partition_by: [grp]
quality:
  rows:
    - {{name: sane, expect: "x < 0.99"}}
window: {{count: 200, time: 2 hours}}
scoring:
  far: {{expression: "abs(a.x - b.x) + abs(a.y - b.y)", direction: max}}
  high: {{expression: x + y, direction: max}}
queries:
  pairs: {{type: topk_pairs, scoring: far, k: 5}}
  best: {{type: topk, scoring: high, k: 5}}
sink: {{path: "{work}/out"}}
run: {{trigger: once, max_files: 1, buckets: 4}}
"""


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.streaming.spark.session import get_session
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    batches = int(os.environ.get("SKYBAND_GROWTH_BATCHES", BATCHES))
    shutil.rmtree(WORK, ignore_errors=True)
    landing(batches)
    spec = WORK / "spec.yaml"
    spec.write_text(SPEC.format(work=WORK))
    plan = load_plan(str(spec))
    rows: list[dict[str, Any]] = []
    ends = [time.perf_counter()]

    def note(batch: Batch) -> None:
        ends.append(time.perf_counter())
        if batch.number + 1 in MARKS:
            rows.append(row(batch.number + 1, ends))
            print(rows[-1], flush=True)
            ends[-1] = time.perf_counter()

    spark = get_session("skyband-bench", quick=False)
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), note).run(once=True)
    rows.append(row(batches, ends) | {"params": {"batches": batches, "at": "end"}})
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), note).run(once=True)
    rows.append(row(batches, ends) | {"params": {"batches": batches, "at": "after another run"}})
    yield from rows


def landing(batches: int) -> None:
    """A file a batch, 20 rows of four keys over a minute; about one row in a hundred is rejected."""
    directory = WORK / "in"
    directory.mkdir(parents=True)
    for n in range(batches):
        lines = ["id,ts,grp,x,y"]
        for i in range(ROWS):
            number = n * ROWS + i
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START + n * 60 + i * 3))
            lines.append(f"{number},{at},{'abcd'[i % 4]},{number * 7919 % 10007 / 10007},{number * 104729 % 9973 / 9973}")
        path = directory / f"{n:06}.csv"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (START + n, START + n))


def row(batches: int, ends: list[float]) -> dict[str, Any]:
    """What is there now."""
    from skyband.framework.storage import delta_read

    out = WORK / "out"
    sizes = {p.name: size(p) for p in sorted(out.iterdir()) if p.name != "_skyband"}
    checkpoint = out / "_skyband" / "checkpoint"
    sizes |= {f"checkpoint/{p.name}": size(p) for p in sorted(checkpoint.iterdir()) if p.is_dir()}
    started = time.perf_counter()
    delta_read.read(delta_read.open_table(out, "runs"))
    spent = time.perf_counter() - started
    gaps = [b - a for a, b in itertools.pairwise(ends)]
    return {
        "params": {"batches": batches},
        "files": sum(f for f, _ in sizes.values()),
        "kb": sum(b for _, b in sizes.values()) // 1024,
        "seconds_a_batch": statistics.median(gaps[-50:]) if gaps else 0.0,
        "open_runs_ms": 1000 * spent,
        "by": {name: f"{f}/{b // 1024}" for name, (f, b) in sizes.items()},
    }


def size(directory: Path) -> tuple[int, int]:
    """(files, bytes) below a directory."""
    found = [(1, s) for p in directory.rglob("*") if (s := _bytes(p)) is not None]
    return len(found), sum(s for _, s in found)


def _bytes(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except FileNotFoundError:
        return None
