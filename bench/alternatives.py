"""Alternatives to Skyband on the same rows: Spark SQL in ``foreachBatch``, DuckDB, Polars, Flink SQL; top-k, pairs, skyline.

The loops compute the answer again after every batch. Batches are a third of the window, a thirtieth, and one row, which is what it takes
to see every change. ``delay``: a row that has just missed a batch waits for that batch and then for its own: twice a batch's time.
``missed``: changes of single events that came and went between two answers. ``same``: whether every answer equals Skyband's as of that
instant. All systems are running when the clock starts, and the window is full.

SKYBAND_BENCH_ROWS: rows in the window (18,000); fewer than 6,000 take fewer batches, too: to see that all of it runs.
``claims.py`` has what each way cannot say.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from bench.against import flink, ours
from bench.against.claims import SAYS
from bench.against.duck import Duck
from bench.against.payments import QUERIES, Batches, answer, batches, rows, unranked, write
from bench.against.polars_loop import Polars
from bench.against.spark_sql import SparkSql
from bench.pipeline import tree_cpu

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "alternatives"
WINDOW = int(os.environ.get("SKYBAND_BENCH_ROWS", "18000"))
DROP = 50
"""Windows of rows that Skyband processes in one run."""
BATCHES = {WINDOW // 3: 8, WINDOW // 30: 16, 1: 24}
"""Rows in a batch -> how many batches of them the loops take. The first is left out."""
ON_SPARK, WARM_SPARK = (8, 4) if WINDOW >= 6_000 else (3, 1)
"""Batches of the job on Spark SQL, and how many of the first are left out: Spark has run before, and compiles what is new."""
CONTINUOUS, WARM_CONTINUOUS = (16, 10) if WINDOW >= 6_000 else (3, 1)
"""The same of Skyband's continuous job, which starts Spark."""

Stamp = tuple[float, float]
"""Seconds and CPU seconds of all processes, so far."""


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.streaming.spark.session import get_session

    shutil.rmtree(WORK, ignore_errors=True)
    table = rows(DROP * WINDOW, WINDOW)
    (WORK / "drop").mkdir(parents=True)
    for i in range(DROP):
        write(table.slice(i * WINDOW, WINDOW), WORK / "drop" / f"{i:03}.parquet", i)
    cut = {size: batches(table, WINDOW, size, most, WORK / f"in-{size}") for size, most in BATCHES.items()}
    on_spark = {size: batches(table, WINDOW, size, ON_SPARK, WORK / f"spark-{size}") for size in BATCHES}
    for_long = {size: batches(table, WINDOW, size, CONTINUOUS, WORK / f"long-{size}") for size in BATCHES if size > 1}
    spark = get_session("skyband-bench", quick=False)
    every = {}
    for query in QUERIES:
        every[query] = exact = yield from _everything(spark, query)
        for size in BATCHES:
            for name, way in (("DuckDB", Duck), ("Polars", Polars)):
                out = WORK / f"{query}-{name}-{size}"
                one = way(query, out)
                stamps = _stamped(cut[size], one.batch)
                yield _row(name, query, cut[size], stamps) | _compared(query, out, cut[size], exact)
            yield _spark(spark, query, on_spark[size], exact)
            if size in for_long:
                yield _continuous(query, for_long[size])
    yield from flink.run(WORK, table, WINDOW, every)
    yield from ({"operator": "any", "params": {"way": way}, "says": says} for way, says in SAYS.items())


def _everything(spark: Any, query: str) -> Iterator[Any]:
    """Skyband over all rows in one run; returns what its tables say."""
    ours.everything(spark, query, WORK / "in-1", WORK / f"{query}-warm")  # starts workers, compiles kernels
    cpu = tree_cpu()
    accepted, seconds, sink = ours.everything(spark, query, WORK / "drop", WORK / f"{query}-drop")
    assert accepted == DROP * WINDOW, f"{accepted} rows accepted"
    cpu, exact = tree_cpu() - cpu, ours.Exact.of(query, sink)
    yield {
        "operator": query, "params": {"way": "Skyband, one run", "rows": accepted}, "rows_per_second": accepted / seconds,
        "cpu_us_per_row": 1e6 * cpu / accepted, "changes": len(exact.changed_at), "missed": 0,
    }  # fmt: skip
    return exact


def _spark(spark: Any, query: str, cut: Batches, exact: ours.Exact) -> dict[str, Any]:
    out = WORK / f"{query}-Spark-{cut.size}"
    stamps: list[Stamp] = []
    SparkSql(spark, query, out).run(cut.directory, lambda: stamps.append(_now()))
    return _row("Spark SQL", query, cut, stamps, WARM_SPARK) | _compared(query, out, cut, exact)


def _continuous(query: str, cut: Batches) -> dict[str, Any]:
    """Its changes are compared with those of the one run, which took more rows at a time."""
    directory = WORK / f"{query}-continuous-{cut.size}"
    with ours.continuous(query, directory) as take:
        stamps = _stamped(cut, take)
    in_batches, in_one_run = (ours.changes(sink, cut.ends[0], cut.ends[-1]) for sink in (directory / "out", WORK / f"{query}-drop" / "out"))
    row = _row("Skyband, continuous", query, cut, stamps, WARM_CONTINUOUS)
    return row | {"changes": len(in_one_run), "missed": len(in_one_run) - len(in_batches), "same": in_batches.equals(in_one_run)}


def _stamped(cut: Batches, batch: Callable[[Path], None]) -> list[Stamp]:
    stamps = []
    for path in cut.files:
        batch(path)
        stamps.append(_now())
    return stamps


def _now() -> Stamp:
    return time.perf_counter(), tree_cpu()


def _row(way: str, query: str, cut: Batches, stamps: list[Stamp], warm: int = 1) -> dict[str, Any]:
    """The figures of batches, from when each of them was done: the first filled the window, and ``warm`` more do not count."""
    counted = stamps[warm:]
    middle = statistics.median(b[0] - a[0] for a, b in itertools.pairwise(counted))
    cpu = (counted[-1][1] - counted[0][1]) / (len(counted) - 1)
    return {
        "operator": query, "params": {"way": way, "batch": cut.size}, "rows_per_second": cut.size / middle, "delay": 2 * middle,
        "cpu_us_per_row": 1e6 * cpu / cut.size,
    }  # fmt: skip


def _compared(query: str, out: Path, cut: Batches, exact: ours.Exact) -> dict[str, Any]:
    """The answers of all batches (versions of ``out``) against Skyband's of those instants, and the changes they do not show."""
    said = [answer(query, DeltaTable(out, version=v).to_pyarrow_table()) for v in range(len(cut.ends))]
    items = [unranked(query, s) for s in said]
    seen = sum(len(a ^ b) for a, b in itertools.pairwise(items))
    in_one_run = exact.changes(cut.ends[0], cut.ends[-1])
    same = all(s == exact.answer(at) for s, at in zip(said, cut.ends, strict=True))
    return {"changes": in_one_run, "missed": in_one_run - seen, "same": same}
