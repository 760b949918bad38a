"""Kafka as a source compared with files, and the cost of a Kafka sink, by turns in one warm session.

The same top-k job reads the same rows as CSV files, as CSV records and as JSON records, into fresh tables. Then small batches (a file of
200 rows each) run with and without a Kafka sink. The broker is a single node on this machine; its processor time does not count.
SKYBAND_BENCH_ROWS makes it smaller.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.pipeline import WORK, tree_cpu
from tests.spark.broker import Broker, broker

ROWS = int(os.environ.get("SKYBAND_BENCH_ROWS", "1000000"))
REPEATS = 2
FILES = 20
SMALL = 20
"""Small batches, of 200 rows."""
HOME = WORK / "kafka"
SPEC = """\
job: {job}
source:
  {source}
  schema: {{id: bigint, ts: timestamp, grp: string, x: double}}
  id: [id]
  event_time: {{column: ts, watermark: 1 day}}
  partition_by: [grp]
window: {{count: 1000}}
scoring: {{x: {{expression: x, direction: max}}}}
queries:
  best: {{type: topk, scoring: x, k: 10}}
sink: {{path: "{home}/out-{job}"{sink}}}
run: {{buckets: 2{run}}}
"""
OF_FILES = 'format: csv\n  path: "{home}/{directory}"'
OF_TOPIC = "format: kafka\n  options: {{servers: '{servers}', topic: {value}, value: {value}}}"


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.sources.kafka.client import JAR
    from skyband.framework.streaming.spark.session import get_session

    shutil.rmtree(HOME, ignore_errors=True)
    _files("in", ROWS, FILES)
    _files("small", 200 * SMALL, SMALL)
    with broker(HOME / "broker") as running:
        spark = get_session("skyband-bench", packages=(JAR,), quick=False)
        _fill(spark, running)
        topics = {f"{v} records": OF_TOPIC.format(servers=running.servers, value=v) for v in ("csv", "json")}
        yield from _measured(spark, running, {"csv files": OF_FILES.format(home=HOME, directory="in"), **topics}, {}, "")
        small = OF_FILES.format(home=HOME, directory="small")
        sent = {"changes sent": f", kafka: {{servers: '{running.servers}'}}"}
        yield from _measured(spark, running, {"no changes sent": small, "changes sent": small}, sent, ", max_files: 1")


def _measured(spark: Any, running: Broker, sources: dict[str, str], sinks: dict[str, str], more: str) -> Iterator[dict[str, Any]]:
    made: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for repeat in range(REPEATS + 1):
        for name, source in sources.items():
            # A job of its own each time: the first starts workers, compiles kernels.
            found = _once(spark, running, f"{name.replace(' ', '-')}-{repeat}", source, sinks.get(name, ""), more)
            if repeat:
                made[name].append(found)
    first = next(iter(made.values()))
    for name, runs in made.items():
        cpu, seconds = (median(r[of] for r in runs) for of in ("cpu", "seconds"))
        rows, batches = runs[0]["rows"], runs[0]["batches"]
        yield {
            "operator": "topk",
            "params": {"source": name, "rows": int(rows), "batches": int(batches)},
            "cpu_ns_per_event": 1e9 * cpu / rows,
            "wall_ns_per_event": 1e9 * seconds / rows,
            "peers": {},
            "rows_per_second": rows / seconds,
            "of_first": cpu / median(r["cpu"] for r in first),
            "cpu_ms_per_batch": 1e3 * cpu / batches,
        }


def _once(spark: Any, running: Broker, job: str, source: str, sink: str, more: str) -> dict[str, float]:
    """One run over everything with a finish into fresh tables."""
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    spec = HOME / f"{job}.yaml"
    spec.write_text(SPEC.format(job=job, source=source, sink=sink, home=HOME, run=more))
    plan = load_plan(str(spec))
    batches: list[Batch] = []
    cpu, start = tree_cpu() - _cpu_of(running), time.perf_counter()
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=True)
    seconds = time.perf_counter() - start
    used = tree_cpu() - _cpu_of(running) - cpu
    return {"rows": sum(b.get("accepted") for b in batches), "batches": len(batches), "seconds": seconds, "cpu": used}


def _cpu_of(running: Broker) -> float:
    assert running.process is not None
    after_name = Path(f"/proc/{running.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(t) for t in after_name[11:13]) / os.sysconf("SC_CLK_TCK")


def _files(directory: str, rows: int, files: int) -> None:
    (HOME / directory).mkdir(parents=True)
    rng = np.random.default_rng(1)
    each = -(-rows // files)
    for i in range(files):
        first, n = i * each, min(each, rows - i * each)
        at = (1_600_000_000_000_000 + 1_000 * np.arange(first, first + n)).astype("datetime64[us]")
        stamps = np.char.add(np.datetime_as_string(at, unit="us"), "Z")
        group = pa.array(rng.integers(0, 8, n)).cast(pa.string())
        made = pa.table({"id": np.arange(first, first + n), "ts": pa.array(stamps), "grp": group, "x": rng.random(n)})
        path = HOME / directory / f"{i:03}.csv"
        pyarrow.csv.write_csv(made, path)
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))


def _fill(spark: Any, running: Broker) -> None:
    """The rows of the files as records, in their order in each of two partitions."""
    for value, text in (("csv", "concat_ws(',', id, ts, grp, x)"), ("json", "to_json(struct(id, ts, grp, x))")):
        running.topic(value, 2)
        rows = spark.read.csv(f"{HOME}/in", header=True, schema="id bigint, ts string, grp string, x double")
        records = rows.repartition(2, "grp").sortWithinPartitions("id").selectExpr("grp as key", f"{text} as value")
        records.write.format("kafka").option("kafka.bootstrap.servers", running.servers).option("topic", value).save()
