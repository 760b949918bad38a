"""``skyband warm``: the job that it runs has everything, and what it leaves is what later starts use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.jobs.setup.warm import PARTS, compile_modules, text, write
from skyband.jobs.spec import load_plan

CLASSES_OF = """\
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.streaming.spark.session import get_session
assert get_session("warmed", master="local[1]").range(3).count() == 3
print([line.split()[-1] for line in open(f"/proc/{SPARK_JVM.pids()[0]}/maps") if line.rstrip().endswith(".jsa")])
"""


def test_the_job_has_every_query_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARM", str(tmp_path))
    spec = tmp_path / "warm.yaml"
    spec.write_text(text(everything=True))
    assert {q.type for q in load_plan(str(spec)).queries} == set(QUERY_TYPES.all())
    spec.write_text(text(everything=False))
    assert {q.type for q in load_plan(str(spec)).queries} == {"topk", "topk_pairs"}


def test_its_rows_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.csv" for n in range(3)]
    for number, file in enumerate(files):
        write(file, number)
    stamps = [line.split(",")[1] for file in files for line in file.read_text().splitlines()[1:]]
    assert stamps == sorted(stamps) and len(set(stamps)) == len(stamps)
    assert sorted(files, key=lambda f: f.stat().st_mtime) == files


def test_compiled_modules_are_left_even_where_python_is_told_to_write_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for part in PARTS:
        (tmp_path / part / "inner").mkdir(parents=True)
        (tmp_path / part / "inner" / "module.py").write_text("THERE = 1\n")
    (tmp_path / "setup.py").write_text("no part of it")
    compile_modules(tmp_path)
    made = {p.parent.parent.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("module.*.pyc")}
    assert (
        made == {f"{part}/inner" for part in PARTS} == {p.parent.parent.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.pyc")}
    )


@pytest.mark.spark
@pytest.mark.slow
def test_later_starts_take_their_classes_from_the_archive(tmp_path: Path) -> None:
    """Where Linux tells what a process has mapped."""
    environment = {**os.environ, "SKYBAND_CACHE": str(tmp_path), "SKYBAND_MASTER": "local[2]"}
    warm = [sys.executable, "-m", "skyband.jobs.cli", "warm"]
    done = subprocess.run(warm, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert [line for line in said if "WARNING" not in line] == [
        "fetching Spark's packages", "compiling the operators", "archiving Spark's classes",
    ]  # fmt: skip
    (archive,) = (tmp_path / "engine").glob("classes-*.jsa")
    assert archive.stat().st_mode & 0o077 == 0
    later = subprocess.run([sys.executable, "-c", CLASSES_OF], capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert str(archive) in later.stdout, later.stderr
