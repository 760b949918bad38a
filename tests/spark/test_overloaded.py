"""A machine that is busy with other things makes a job slower, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.spark.cuts import stream, write
from tests.spark.jobs import changes, run_apart, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SLOW = ("nice", "-n", "10")
"""Beside one process of the usual priority, a process of this one gets about a tenth of a processor."""


def job(directory: Path) -> Path:
    directory.mkdir()
    write(directory, stream(11, 240), 6)
    return write_spec(directory, queries="  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n")


@contextmanager
def busy() -> Iterator[None]:
    """Keep every processor of the machine busy with something else."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


@pytest.mark.parametrize("environment", [{}, {"SPARK_HOME": str(Path(pyspark.__file__).parent)}], ids=["known start", "Spark's own script"])
def test_a_job_whose_processes_get_a_tenth_of_the_machine_ends_well(tmp_path: Path, environment: dict[str, str]) -> None:
    """Where Spark's own script starts the JVM, workers import PySpark from its archive, which takes several times longer."""
    alone, slow = job(tmp_path / "alone"), job(tmp_path / "slow")
    assert run_apart(alone, "--finish").returncode == 0
    with busy():
        done = run_apart(slow, "--finish", before=SLOW, **environment)
    assert done.returncode == 0, done.stderr
    assert changes(tmp_path / "slow", "far5").equals(changes(tmp_path / "alone", "far5"))
