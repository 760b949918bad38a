"""A continuous run for an hour: how the cost of a batch and the memory change from beginning to end.

``python -m bench hour``; SKYBAND_BENCH_SECONDS makes it shorter. Spark generates a batch of 900 rows every two
seconds. A row of the output is a tenth of the time: batches, processor milliseconds per batch of all processes (including upkeep and
results, once a minute), the median wall time of a batch, and the memory of each kind of process in megabytes.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.pipeline import ROOT, tree_cpu
from tests.spark.processes import descendants

WORK = ROOT / "build" / "bench" / "hour"
SECONDS = int(os.environ.get("SKYBAND_BENCH_SECONDS", "3600"))
TENTHS = 10
SPEC = """\
job: hour
source:
  format: rate
  options: {{rows: "900", keys: "8", per_second: "450", seed: "7", start: "2024-01-01T00:00:00Z"}}
  schema: {{n: {{type: bigint, from: $n}}, at: {{type: timestamp, from: $time}}, key: {{type: string, from: $key}}, x: double}}
  id: [n]
  event_time: {{column: at, watermark: 1 second}}
  partition_by: [key]
window: {{count: 1000}}
scoring:
  high: {{expression: x, direction: max}}
  far: {{expression: "abs(a.x - b.x)", direction: min}}
queries:
  best: {{type: topk, scoring: high, k: 10}}
  alike: {{type: topk_pairs, scoring: far, k: 10}}
sink: {{path: "{directory}/out"}}
run: {{trigger: 2 seconds, buckets: 2}}
"""


def run() -> Iterator[dict[str, Any]]:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    spec = WORK / "job.yaml"
    spec.write_text(SPEC.format(directory=WORK))
    command = [sys.executable, "-m", "skyband.jobs.cli", "run", str(spec), "--quiet"]
    with (WORK / "run.log").open("w") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _until_batch(job, 15)
        for tenth in range(TENTHS):
            cpu, first = tree_cpu(), _batches()
            time.sleep(SECONDS / TENTHS)
            assert job.poll() is None, (WORK / "run.log").read_text()
            last = _batches()
            yield {
                "operator": "continuous",
                "params": {"tenth": tenth + 1, "batches": len(last) - len(first)},
                "cpu_ms": 1000 * (tree_cpu() - cpu) / (len(last) - len(first)),
                "batch_ms": statistics.median(last[len(first) :]),
                "peak_mb": _memory(job.pid),
            }
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(120)


def _until_batch(job: subprocess.Popen[bytes], number: int) -> None:
    """The first batches start workers and compile."""
    while job.poll() is None and len(_batches()) < number:
        time.sleep(2)
    assert job.poll() is None, (WORK / "run.log").read_text()


def _batches() -> list[float]:
    """What each batch so far took, in milliseconds."""
    from skyband.framework.storage import delta_read

    if not delta_read.exists(WORK / "out", "runs"):
        return []
    rows = delta_read.read(delta_read.open_table(WORK / "out", "runs"), ["batch_id", "batch_ms"]).sort_by("batch_id")
    return [float(ms) for ms in rows["batch_ms"].to_pylist()]


def _memory(driver: int) -> dict[str, int]:
    """By kind of process the largest resident memory now, in MB (Linux)."""
    found = {"driver": _resident(driver)}
    for process, program in descendants(driver).items():
        kind = "jvm" if program.startswith("java") else "worker"
        found[kind] = max(found.get(kind, 0), _resident(process.pid))
    return found


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)
