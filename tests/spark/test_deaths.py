"""Deaths and signals, of the driver, Spark and its workers: told in a line, with Spark gone, and the next run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from skyband.framework.streaming.spark.session import DAEMON
from tests.spark.cuts import stream, write
from tests.spark.jobs import changes, run_apart, table, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.slow]

WAIT_SECONDS = 240
PROC = Path("/proc")
AGAIN = ("starting ", "job small: ", "kernels are being compiled", "batch ", "done: ", "Spark's log is ")
"""What every run says of itself."""


def job(directory: Path) -> Path:
    directory.mkdir()
    write(directory, stream(11, 240), 6)
    return write_spec(directory, queries="  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n", max_files=1)


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("deaths") / "alone"
    done = run_apart(job(directory), "--finish")
    assert done.returncode == 0, done.stderr
    return directory


def processes(session: int) -> dict[int, list[str]]:
    """The living processes of a session with their command lines. A started run is a session of its own."""
    found = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, of_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                command = (entry / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if int(of_session) == session and state != "Z":
                found[int(entry.name)] = command
    return found


class Run:
    """A started ``skyband run``; ``lines`` is what it has said so far."""

    def __init__(self, spec: Path, *arguments: str, **env: str) -> None:
        whole = dict(os.environ, SKYBAND_MASTER="local[2]", SKYBAND_SHUFFLE_PARTITIONS="2") | env
        command = [sys.executable, "-m", "skyband.jobs.cli", "run", str(spec), *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=whole, start_new_session=True)
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()

    def said(self, start: str) -> None:
        """Waits for a line that begins so."""
        with self._news:
            assert self._news.wait_for(lambda: any(x.startswith(start) for x in self.lines), WAIT_SECONDS), self.lines

    def await_processes(self, wanted: Callable[[list[str]], bool]) -> list[int]:
        """Waits until there are processes with such command lines; their ids."""
        while self.process.poll() is None:
            if found := [p for p, command in processes(self.process.pid).items() if wanted(command)]:
                return found
        raise AssertionError(f"it ended: {self.lines}")

    def engine(self) -> int:
        """Spark's process, as soon as there is one."""
        # Before it there are a shell and a small JVM that put its command line together.
        (pid,) = self.await_processes(
            lambda c: c[0].endswith("java") and "pyspark-shell" in c and "org.apache.spark.launcher.Main" not in c
        )
        return pid

    def ended(self) -> int:
        """Waits for the end; the exit code. Spark has ended before, its workers follow it."""
        code = self.process.wait(WAIT_SECONDS)
        if code >= 0:
            assert [c for c in processes(self.process.pid).values() if c[0].endswith("java")] == []
        self._reader.join(WAIT_SECONDS)
        until = time.monotonic() + WAIT_SECONDS
        while code >= 0 and processes(self.process.pid):
            assert time.monotonic() < until, processes(self.process.pid)
        return code

    def rest(self) -> list[str]:
        """What it said beside a line a batch and the sum."""
        return [x for x in self.lines if not x.startswith(AGAIN) and "rows of this run (" not in x]


@contextmanager
def started(spec: Path, *arguments: str, **env: str) -> Iterator[Run]:
    run = Run(spec, *arguments, **env)
    try:
        yield run
    finally:
        for pid in processes(run.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.ended()


def goes_on(spec: Path, left_alone: Path) -> None:
    """The next run ends well, and the changes are those of one that was left alone."""
    again = run_apart(spec, "--finish")
    assert again.returncode == 0, again.stderr
    assert changes(spec.parent, "far5").equals(changes(left_alone, "far5"))


def test_an_engine_that_dies_is_told_in_one_line(tmp_path: Path, left_alone: Path) -> None:
    spec = job(tmp_path / "job")
    for point in ("engine.started", "state.after:2", "sink.between:5"):
        with started(spec, "--finish", SKYBAND_FAILPOINT=f"{point}@ENGINE") as run:
            assert run.ended() == 3, (point, run.lines)
        assert run.rest()[0] == "SKY-E305 Spark died: killed by SIGKILL", point
        assert run.rest()[1].startswith("  hint: run again: nothing is lost") and len(run.rest()) == 2, point
    goes_on(spec, left_alone)


@pytest.mark.parametrize(("how", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM")])
def test_an_engine_that_dies_while_it_starts(tmp_path: Path, how: signal.Signals, name: str) -> None:
    with started(job(tmp_path / "job"), "--finish") as run:
        os.kill(run.engine(), how)
        assert run.ended() == 3, run.lines
    assert run.rest()[0] == f"SKY-E305 Spark died: killed by {name}" and len(run.rest()) == 2


def test_an_engine_that_is_asked_to_end(tmp_path: Path, left_alone: Path) -> None:
    spec = job(tmp_path / "job")
    with started(spec, "--finish") as run:
        run.said("batch 1:")
        os.kill(run.engine(), signal.SIGTERM)
        assert run.ended() == 3, run.lines
    assert run.rest()[0] == "SKY-E305 Spark died: killed by SIGTERM" and len(run.rest()) == 2
    goes_on(spec, left_alone)


def test_workers_that_die(tmp_path: Path, left_alone: Path) -> None:
    spec = job(tmp_path / "job")
    with started(spec, "--finish") as run:
        run.said("batch 1:")
        found = run.await_processes(lambda c: DAEMON in c)
        if Path("/proc/self/environ").exists():
            # Those forked ahead are those that the job then has.
            pools = [e for pid in found if (e := _environment(pid, unless=found)) is not None]
            assert sum(b"SKYBAND_STEP=host" in e for e in pools) == 1
            assert sum(b"SPARK_SIMPLIFIED_TRACEBACK=1" in e for e in pools) == 1
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        code = run.ended()
    # Spark starts others if none was at work.
    assert (code, run.rest()) == (0, []) or (code == 3 and run.rest()[0].startswith("SKY-E305 a Python worker of Spark died")), run.lines
    assert len(run.rest()) in (0, 2)
    goes_on(spec, left_alone)


def _environment(pid: int, unless: list[int]) -> list[bytes] | None:
    """A process's environment; None if it was forked by one of ``unless``."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    parent = int(stat.rpartition(")")[2].split()[1])
    return None if parent in unless else Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


SIGNALLED = [
    ("run.locked@TERM", 143),
    ("engine.started@INT", 130),
    ("state.after:2@TERM", 143),
    ("sink.between:5@INT", 130),
    ("finish.ordered@TERM", 143),
    ("derive.between@INT", 130),
    ("checks.before@TERM", 143),
]


def without_unusable(lines: list[str]) -> list[str]:
    """The lines without the warning that the query cannot use some of the rows: how many there are depends on where a run ends."""
    return [line for line in lines if not line.startswith("WARNING: query far5 cannot use ")]


def test_a_signal_ends_a_run_in_order(tmp_path: Path, left_alone: Path) -> None:
    """One signalled run after the other, each going on where the one before was stopped."""
    spec = job(tmp_path / "job")
    for point, code in SIGNALLED:
        with started(spec, "--finish", "--outcome", str(tmp_path / "out.json"), SKYBAND_FAILPOINT=point) as run:
            assert run.ended() == code, (point, run.lines)
        outcome = json.loads((tmp_path / "out.json").read_text())
        assert (outcome["status"], outcome["exit_code"], outcome["job"] is None) == ("stopped", code, point.startswith("run.locked"))
        # Batches in which nothing happened have no line.
        assert outcome["batches"]["count"] >= sum(x.startswith("batch ") for x in run.lines)
        if outcome["batches"]["count"]:
            assert outcome["batches"]["last"] in table(spec.parent, "runs")["batch_id"].to_pylist()
        assert without_unusable(run.rest()) == [f"stopped by {'SIGTERM' if code == 143 else 'SIGINT'}: run again to go on"], point
    goes_on(spec, left_alone)


def test_a_signal_while_the_engine_starts_and_compiles(tmp_path: Path) -> None:
    spec = job(tmp_path / "job")
    for moment, group in (("engine", False), ("engine", True), ("workers", False), ("workers", True)):
        # An empty cache: the first batch compiles kernels for a while.
        with started(spec, "--finish", SKYBAND_CACHE=str(tmp_path / f"cache-{moment}-{group}")) as run:
            run.engine() if moment == "engine" else run.await_processes(lambda c: DAEMON in c)
            os.kill(-run.process.pid if group else run.process.pid, signal.SIGTERM)
            assert run.ended() == 143, (moment, group, run.lines)
        assert run.rest() == ["stopped by SIGTERM: run again to go on"]


@pytest.mark.parametrize(("how", "group"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_continuous_run_that_is_asked_to_stop_ends_well(tmp_path: Path, left_alone: Path, how: signal.Signals, group: bool) -> None:
    spec = job(tmp_path / "job")
    with started(spec, "--continuous") as run:
        run.said("batch 2:")
        # A terminal's Ctrl-C goes to the whole group.
        os.kill(-run.process.pid if group else run.process.pid, how)
        assert run.ended() == 0, run.lines
    assert without_unusable(run.rest()) == []
    goes_on(spec, left_alone)


def test_no_run_starts_beside_the_engine_of_a_dead_one(tmp_path: Path, left_alone: Path) -> None:
    spec = job(tmp_path / "job")
    with started(spec, "--finish") as first:
        first.said("batch 1:")
        engine = first.engine()
        # Held, Spark cannot go when it sees that its driver is gone.
        os.kill(engine, signal.SIGSTOP)
        os.kill(first.process.pid, signal.SIGKILL)
        with started(spec, "--finish", SKYBAND_ENGINE_WAIT="1") as second:
            assert second.ended() == 3
        assert f"still writing to this sink (process {engine})" in second.rest()[1] and second.rest()[1].startswith("SKY-E302")
        with started(spec, "--finish") as third:
            third.said("waiting for Spark of an earlier run")
            assert set(processes(third.process.pid)) == {third.process.pid}
            os.kill(engine, signal.SIGCONT)
            assert third.ended() == 0, third.lines
    goes_on(spec, left_alone)
