"""Start-up: the time and cost of short runs. The first run of a job, a run with a new file, and a run without new files.

``script``: Spark's script starts the JVM; ``java``: ``java`` starts it with arguments recorded earlier; ``archive``: likewise, with
classes from the archive of ``skyband warm`` (rebuilt here). A row is a run: seconds from start to end, and processor seconds of all its
processes.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skyband.jobs.setup.warm import text, write
from skyband.operators.jit import cache_directory

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench" / "start"


def run() -> Iterator[dict[str, Any]]:
    """Measure each run; a run with ``nothing new`` never starts Spark."""
    subprocess.run([sys.executable, "-m", "skyband.jobs.cli", "warm", "--quiet"], check=True, capture_output=True)
    ways = {"script": {"SPARK_SUBMIT_OPTS": "-Dskyband.bench=start"}, "java": {"SKYBAND_CACHE": str(_without_archive())}, "archive": {}}
    for way, environment in ways.items():
        directory = WORK / way
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "in").mkdir(parents=True)
        (directory / "job.yaml").write_text(text(everything=False))
        for number, what in enumerate(("first", "a new file", "nothing new")):
            if number < 2:
                write(directory / "in" / f"{number}.csv", 2 * number)
            yield {"params": {"way": way, "run": what}, **_measured(directory / "job.yaml", {**environment, "WARM": str(directory)})}


def _without_archive() -> Path:
    """Return a copy of this machine's cache without the archive."""
    directory = WORK / "cache"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(cache_directory(), directory, ignore=shutil.ignore_patterns("*.jsa"))
    directory.chmod(0o700)
    return directory


def _measured(spec: Path, environment: dict[str, str]) -> dict[str, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "skyband.jobs.cli", "run", str(spec), "--once", "--quiet"]
    subprocess.run(command, check=True, env={**os.environ, **environment}, capture_output=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": seconds, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}
