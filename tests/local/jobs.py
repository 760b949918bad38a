"""Jobs that the local engine runs, in this process or another: what ``tests/spark/jobs.py`` does by Spark, without a JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.framework.streaming.local.engine import LocalEngine
from tests.spark import jobs

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

LOCAL = ("--engine", "local")


def local_engine() -> LocalEngine:
    """The local engine, which must not need Spark."""
    return LocalEngine(jobs.no_spark)


def run(spec: Path, finish: bool = True) -> list[Batch]:
    """Runs the job in this process; its batches."""
    return jobs.run(None, spec, finish)


def run_apart(spec: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run ``skyband run`` in a process of its own, which may be made to kill itself at a fail point."""
    return jobs.run_apart(spec, *LOCAL, *arguments, **more)


def start_apart(spec: Path, *arguments: str) -> subprocess.Popen[str]:
    """Starts ``skyband run`` and does not wait."""
    return jobs.start_apart(spec, *LOCAL, *arguments)
