"""How long a short run takes, and what it costs: the first one of a job, one with a new file, one with nothing new.

``script``: Spark is started by Spark's script; ``java``: by ``java`` with what is known of earlier starts; ``archive``: that, with its
classes from the archive that ``skyband warm`` makes (made here anew). A row is a run: seconds from start to end, and seconds
of processor time of all its processes.
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
    """A row a run; ``nothing new`` starts no engine, in whatever way."""
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
    """A cache like the machine's own, but for the archive."""
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
