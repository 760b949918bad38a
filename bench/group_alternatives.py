"""Groups in Skyband and in Flink SQL (window aggregation with Top-N over hopping windows), on the same payments.

Of every market the ten payers with the largest total of the last hour. Skyband changes with every payment and expiry; Flink answers at the
end of each hop. Where hops end, the answers are compared. ``delay`` as in ``alternatives``: twice a hop's time at the highest rate.
"""

from __future__ import annotations

import csv
import itertools
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from bench.against import flink
from bench.against.payments import HOUR, START, rows, write
from bench.pipeline import tree_cpu

WORK = Path(__file__).resolve().parents[1] / "build" / "bench" / "group_alternatives"
WINDOW = int(os.environ.get("SKYBAND_BENCH_ROWS", "18000"))
DROP = 50
"""Windows of rows."""
HOPS = {30: 300, 3: 60}
"""Hops an hour -> hops to measure over."""
FORM = "topk_groups"
SPEC = """\
job: payers
source:
  format: parquet
  path: "{directory}/in"
  schema: {{id: bigint, paid_at: timestamp, market: bigint, amount: double, fee: double, wait: double}}
  id: [id]
  event_time: {{column: paid_at}}
  partition_by: [market]
transform:
  - derive: {{payer: id % 1000}}
window: {{time: 1 hour}}
queries:
  answer: {{type: topk_groups, group: payer, score: sum(amount), k: 10}}
sink: {{path: "{directory}/out"}}
run: {{max_bytes: 32m}}
"""
Answers = dict[int, frozenset[tuple[int, int]]]
"""(market, payer) of the answers, by instant in microseconds."""


def run() -> Iterator[dict[str, Any]]:
    shutil.rmtree(WORK, ignore_errors=True)
    table = rows(DROP * WINDOW, WINDOW)
    skyband(table.slice(0, 2 * WINDOW), 2, WORK / "warm")
    measured, sink = skyband(table, DROP, WORK / "skyband")
    yield measured
    yield from of_flink(table, sink)


def skyband(table: pa.Table, files: int, directory: Path) -> tuple[dict[str, Any], Path]:
    """One run over all rows, with its figures; and its tables."""
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.streaming.spark.session import get_session
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    (directory / "in").mkdir(parents=True)
    size = len(table) // files
    for i in range(files):
        write(table.slice(i * size, size), directory / "in" / f"{i:03}.parquet", i)
    (directory / "job.yaml").write_text(SPEC.format(directory=directory), encoding="utf-8")
    spark, plan = get_session("skyband-bench", quick=False), load_plan(str(directory / "job.yaml"))
    batches: list[Batch] = []
    start, cpu = time.perf_counter(), tree_cpu()
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=True)
    seconds, cpu = time.perf_counter() - start, tree_cpu() - cpu
    assert sum(b.get("accepted") for b in batches) == len(table)
    sink = directory / "out"
    points = len(DeltaTable(sink / "answer_trajectory").to_pyarrow_table(columns=["valid_from"]))
    return {
        "operator": FORM, "params": {"way": "Skyband, one run", "rows": len(table)}, "rows_per_second": len(table) / seconds,
        "cpu_us_per_row": 1e6 * cpu / len(table), "changes": _changes(sink, 0, 2**62), "points": points,
    }, sink  # fmt: skip


def of_flink(table: pa.Table, sink: Path) -> Iterator[dict[str, Any]]:
    """The figures of Flink, from runs over the rows that fill a window and over more; or one row that says why there are none."""
    missing = flink._installed()
    if missing:
        yield {"operator": FORM, "params": {"way": "Flink SQL"}, "left_out": missing}
        return
    sizes = {n: (WINDOW, WINDOW + hops * (WINDOW // n)) for n, hops in HOPS.items()}
    files = {size: flink._write(table.slice(0, size), WORK / f"flink-{size}.csv") for sized in sizes.values() for size in sized}
    jobs = [(FORM, 1200, str(files[WINDOW]), str(WORK / "flink-warm"))]
    jobs += [(FORM, 3600 // n, str(files[size]), str(WORK / f"flink-{n}-{size}")) for n, sized in sizes.items() for size in sized]
    stamps = flink._stamps(jobs)
    last = next(stamps)
    for n, (_, size) in sizes.items():
        (start, cpu0, _), (middle, cpu1, said1), (end, cpu2, said2) = last, next(stamps), next(stamps)
        last = (end, cpu2, said2)
        params = {"way": "Flink SQL", "hop": WINDOW // n}
        if {said1, said2} != {"done"}:
            yield {"operator": FORM, "params": params, "left_out": said1 if said1 != "done" else said2}
            continue
        seconds, cpu, more = (end - middle) - (middle - start), (cpu2 - cpu1) - (cpu1 - cpu0), size - WINDOW
        yield {
            "operator": FORM, "params": params, "rows_per_second": more / seconds, "cpu_us_per_row": 1e6 * cpu / more,
            "delay": 2 * (WINDOW // n) * seconds / more,
        } | compared(WORK / f"flink-{n}-{size}", sink, n)  # fmt: skip


def compared(out: Path, sink: Path, n: int) -> dict[str, Any]:
    """Flink's answers at the ends of whole windows against Skyband's of the instant before, and the changes that they do not show."""
    said: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for path in out.glob("part-*"):
        with path.open(newline="") as file:
            for end, market, payer in csv.reader(file):
                said[int(datetime.fromisoformat(end).replace(tzinfo=UTC).timestamp()) * flink.SECOND].add((int(market), int(payer)))
    ends = [START + HOUR + i * (HOUR // n) for i in range(HOPS[n] + 1)]
    ours = _answers(sink, [end - 1 for end in ends])
    seen = sum(len(a ^ b) for a, b in itertools.pairwise(said[end] for end in ends))
    there = _changes(sink, ends[0] - 1, ends[-1] - 1)
    same = all(said[end] == ours[end - 1] for end in ends)
    return {"changes": there, "missed": there - seen, "same": same}


def _answers(sink: Path, instants: list[int]) -> Answers:
    table = DeltaTable(sink / "answer").to_pyarrow_table()
    start, end = (table[c].cast(pa.int64()).fill_null(2**62).to_numpy() for c in ("valid_from", "valid_to"))
    items = np.stack([table["market"].to_numpy(), table["payer"].to_numpy()], axis=1)
    return {at: frozenset(map(tuple, items[(start <= at) & (at < end)].tolist())) for at in instants}


def _changes(sink: Path, after: int, until: int) -> int:
    at = DeltaTable(sink / "answer_changes").to_pyarrow_table(columns=["changed_at"])["changed_at"].cast(pa.int64()).to_numpy()
    return int(np.count_nonzero((at > after) & (at <= until)))
