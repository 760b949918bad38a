"""The command by itself: its engine is started before the spec is read where the last run says so, and is the only one of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cuts import stream, write
from tests.spark.jobs import changes, write_spec

pytestmark = pytest.mark.spark

SEEN = """\
import os, sys
import skyband.framework.streaming.spark.process as process
opened = process.Start._open
def noted(self, *how):
    opened(self, *how)
    when = "after" if "skyband.framework.spec.load" in sys.modules else "before"
    with open(os.environ["SEEN"], "a") as seen:
        print(when, process.SPARK_JVM.process.pid, file=seen)
process.Start._open = noted
from skyband.jobs.cli import main
main()
"""


def run(spec: Path, *words: str) -> tuple[int, list[str], str]:
    """(exit code, when each engine was started: before or after the spec was read, what is said); none of them is left."""
    seen = spec.with_name("seen")
    seen.write_text("")
    command = [sys.executable, "-c", SEEN, "run", str(spec), "--quiet", *words]
    env = {**os.environ, "SKYBAND_MASTER": "local[2]", "SEEN": str(seen)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    told = [line.split() for line in seen.read_text().splitlines()]
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for _, pid in told)
    return done.returncode, [when for when, _ in told], done.stderr


def test_runs_of_a_directory(tmp_path: Path) -> None:
    spec, rows = write_spec(tmp_path), stream(5, 60)
    write(tmp_path, rows, 3, slice(0, 1))
    assert run(spec)[:2] == (0, ["after"])
    assert run(spec)[:2] == (0, [])
    write(tmp_path, rows, 3, slice(1, 2))
    assert run(spec)[:2] == (0, ["before"])

    # Something came that is no row: Spark is ended, and is not expected again.
    (tmp_path / "in" / ".hidden").write_text("")
    assert run(spec)[:2] == (0, ["before"])
    assert run(spec)[:2] == (0, [])

    # A mistake in the spec is told as ever.
    write(tmp_path, rows, 3, slice(2, 3))
    right = spec.read_text()
    spec.write_text(right.replace("queries:", "querries:"))
    code, started, said = run(spec)
    assert (code, started) == (2, ["before"]) and "querries" in said and "Traceback" not in said

    # Another engine than was expected takes its place.
    spec.write_text(right.replace("job: small", "job: other").replace(str(tmp_path / "out"), str(tmp_path / "other")))
    assert run(spec, "--finish")[:2] == (0, ["before", "after"])
    (tmp_path / "copy").mkdir()
    spec.write_text(right)
    assert run(spec, "--finish")[:2] == (0, ["after"])
    (tmp_path / "other").rename(tmp_path / "copy" / "out")
    assert changes(tmp_path, "far5").num_rows and changes(tmp_path, "far5").equals(changes(tmp_path / "copy", "far5"))
