"""The end of a JVM is reported by its exit code and by the error that it caused."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.spark import launch, session
from skyband.framework.streaming.spark import process as spark_process
from skyband.framework.streaming.spark.jvm import SparkJvm, Stray, worker_failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ended(code: str, wait: bool = True) -> SparkJvm:
    """A JVM whose process runs ``code``."""
    engine = SparkJvm()
    engine.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    if wait:
        engine.process.wait()
    return engine


@pytest.mark.parametrize(
    ("code", "told", "hint"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL", "SKYBAND_DRIVER_MEMORY"),
        ("import os; os.kill(os.getpid(), 6)", "killed by SIGABRT", "run again: nothing is lost"),
        ("raise SystemExit(143)", "killed by SIGTERM", "run again: nothing is lost"),
        ("raise SystemExit(3)", "it ran out of memory", "SKYBAND_DRIVER_MEMORY"),
        ("raise SystemExit(17)", "it ended with exit code 17", "run again: nothing is lost"),
    ],
)
def test_ends(code: str, told: str, hint: str) -> None:
    died = ended(code).death(ValueError("whatever"))
    assert died is not None and died.hint is not None
    assert (died.code, died.message) == ("SKY-E305", f"Spark died: {told}")
    assert hint in died.hint


def test_a_jvm_that_refused_to_start_did_not_die() -> None:
    assert ended("raise SystemExit(1)").death(SkybandError("SKY-E300", "Spark did not start")) is None


def test_a_jvm_that_lives_or_never_started_did_not_die() -> None:
    assert SparkJvm().death(ConnectionRefusedError()) is None
    living = ended("input()", wait=False)
    assert living.death(ValueError("a mistake of ours")) is None
    living.end()


def test_one_that_does_not_answer_any_more_is_waited_for() -> None:
    engine = ended("import os, sys; sys.stdin.read(); os.kill(os.getpid(), 9)", wait=False)
    assert engine.process is not None and engine.process.stdin is not None
    engine.process.stdin.close()
    wrapped = SkybandError("SKY-E300", "the run failed")
    wrapped.__cause__ = ConnectionResetError()
    died = engine.death(wrapped)
    assert died is not None and died.message.endswith("SIGKILL")


def test_a_jvm_ends_with_its_input_or_is_killed() -> None:
    for code in ("import sys; sys.stdin.read()", "import time; print('up', flush=True); time.sleep(600)"):
        engine = ended(code, wait=False)
        process = engine.process
        assert process is not None
        engine.end(seconds=1)
        assert process.wait(60) in (0, -9)
        assert engine.process is None


def test_a_local_jvm_is_killed_and_its_scratch_directory_removed(tmp_path: Path) -> None:
    engine = ended("import sys, time; sys.stdin.read(); time.sleep(600)", wait=False)
    process, engine.scratch = engine.process, tmp_path / "scratch"
    (engine.scratch / "blocks").mkdir(parents=True)
    assert process is not None
    engine.end(seconds=60)
    assert process.returncode == -9
    assert not engine.scratch.exists() and engine.process is None


def test_what_is_done_meanwhile_is_done_beside_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []
    monkeypatch.setattr(spark_process, "SPARK_JVM", engine := SparkJvm())

    def meanwhile() -> None:
        assert engine.process is not None
        seen.append(engine.process.poll())

    start = spark_process.Start({}, Path("java"), Path("spark"), None, None, (), {}, None, meanwhile)
    process = start.process([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, env=dict(os.environ))
    assert seen == [None] and engine.process is process
    engine.end()
    assert process.returncode == 0


def test_the_jvm_starts_before_pyspark_is_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its process says how it is reached in a file of our choice, and PySpark finds that where it looks itself."""
    monkeypatch.setattr(spark_process, "SPARK_JVM", engine := SparkJvm())
    monkeypatch.setattr(spark_process, "has_gateway", lambda: False)
    said = "import os, sys; open(os.environ['_PYSPARK_DRIVER_CONN_INFO_PATH'], 'w').write(' '.join(sys.argv[1:])); sys.stdin.read()"
    monkeypatch.setattr(launch, "command", lambda asked, *_: [sys.executable, "-c", said, *asked])
    begun: list[bool] = []
    settings = {"spark.master": "local[2]", "spark.secret": "s3cret"}
    start = spark_process.Start(
        settings, Path("java"), Path("spark"), launch.Known([], []), None, ["spark.secret"], {}, None, lambda: begun.append(True)
    )
    start.begin()
    early = engine.process
    assert early is not None and not begun
    looked = tmp_path / "pyspark" / "connection"
    looked.parent.mkdir()
    with start.used_by_pyspark():
        from pyspark import java_gateway

        process = java_gateway.Popen(["spark-submit"], stdin=subprocess.PIPE, env={"_PYSPARK_DRIVER_CONN_INFO_PATH": str(looked)})
        assert process is early and begun == [True]
        deadline = time.monotonic() + 30
        while (not looked.is_file() or not looked.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert looked.read_text() == "spark-submit --conf spark.master=local[2] pyspark-shell"
        told = looked.resolve()
        assert told.parent.stat().st_mode & 0o777 == 0o700
    assert not told.parent.exists()
    engine.end()
    assert early.returncode == 0


@pytest.mark.parametrize("why", ["unknown", "there is one", "another's"])
def test_no_second_jvm_is_started(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_process, "SPARK_JVM", engine := SparkJvm())
    monkeypatch.setattr(spark_process, "has_gateway", lambda: why == "another's")
    monkeypatch.setattr(spark_process, "Popen", lambda *a, **k: pytest.fail("started"))
    engine.process = subprocess.Popen([sys.executable, "-c", ""]) if why == "there is one" else None
    known = None if why == "unknown" else launch.Known([], [])
    spark_process.Start({}, Path("java"), Path("spark"), known, None, (), {}, None, lambda: None).begin()
    engine.end()


def test_where_spark_is_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "print(launch.spark_home())\nprint('pyspark' in sys.modules)"
    code = f"import sys\nfrom skyband.framework.streaming.spark import launch, session\n{asked}"
    monkeypatch.delenv("SPARK_HOME", raising=False)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    from pyspark.find_spark_home import _find_spark_home

    assert said == [_find_spark_home(), "False"]
    monkeypatch.setenv("SPARK_HOME", "/another")
    assert launch.spark_home() == Path("/another")


def test_a_dead_worker_is_distinguished_from_other_failures() -> None:
    died = worker_failed("SparkException: Python worker exited unexpectedly (crashed): EOF", Path("engine.log"))
    assert died is not None and died.code == "SKY-E305" and "run again" in str(died.hint)
    assert worker_failed("Caused by: java.io.IOException: Stream closed", None) is not None
    assert worker_failed("ArithmeticException: divide by zero", None) is None


def test_output_of_libraries_goes_to_the_log_once_there_is_a_jvm(tmp_path: Path) -> None:
    out, engine = io.StringIO(), SparkJvm()
    stray = Stray(out, engine)
    print("before", file=stray)
    engine.log = tmp_path / "engine.log"
    engine.log.touch(0o600)
    print("after", file=stray)
    engine.log = tmp_path / "no directory" / "engine.log"
    print("nowhere", file=stray)
    assert out.getvalue() == "before\n"
    assert (tmp_path / "engine.log").read_text() == "after\n"
    assert (tmp_path / "engine.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.spark
def test_a_running_jvm_takes_no_more_packages(spark: SparkSession) -> None:
    assert session.get_session() is spark
    with pytest.raises(SkybandError, match=r"runs in this process was started for another job, without of\.a:jar:1") as refused:
        session.get_session(packages=("of.a:jar:1",))
    assert refused.value.code == "SKY-E300" and "a process of its own" in (refused.value.hint or "")
