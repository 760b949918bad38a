"""A real standalone cluster on loopback, from PySpark's own jars: a master and workers of a core each, processes of their own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from tests.spark.processes import Process, descendants, kill, process

SECONDS = 60.0


class Cluster:
    """``url`` is the master's. All its processes are in one session each, and gone when ``close`` returns."""

    def __init__(self, directory: Path, workers: int = 2, python_path: str | None = None) -> None:
        self.directory = directory
        self.port = 0
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._python_path = python_path
        directory.mkdir(parents=True)
        try:
            self.start_master()
            for n in range(workers):
                self.start_worker(n)
            self._until(lambda: self.log("master").count("Registering worker") >= workers, "workers")
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The master's."""
        return f"spark://127.0.0.1:{self.port}"

    def log(self, name: str) -> str:
        """What a daemon has said so far."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def start_master(self) -> None:
        """Starts the master, at the port that it had before if it is started again; it knows what it knew before."""
        before = self.log("master").count("Starting Spark master at") if self.port else 0
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self.port))
        self._until(lambda: self.log("master").count("Starting Spark master at") > before, "the master")
        (*_, port) = re.findall(r"Starting Spark master at spark://127\.0\.0\.1:(\d+)", self.log("master"))
        self.port = int(port)

    def start_worker(self, n: int) -> None:
        """Starts a worker."""
        work = self.directory / f"work{n}"
        arguments = ["--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url]
        self._start(f"worker{n}", "org.apache.spark.deploy.worker.Worker", *arguments)

    def kill(self, name: str) -> None:
        """SIGKILL for a daemon and all below it: for a worker, the executor and its Python, as if the machine were gone."""
        daemon = self._daemons.pop(name)
        below = [p for p in (process(daemon.pid), *descendants(daemon.pid)) if p is not None]
        kill(below)
        daemon.wait(SECONDS)

    def pythons(self, name: str) -> list[Process]:
        """The Python processes of a worker's executors."""
        return [p for p, program in descendants(self._daemons[name].pid).items() if program.startswith("python")]

    def close(self) -> None:
        """Kills everything."""
        for name in list(self._daemons):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.kill(name)

    def _start(self, name: str, main: str, *arguments: str) -> None:
        import pyspark

        from skyband.framework.base.java import find_java_home

        home = Path(pyspark.__file__).parent
        options = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self.directory}/recovery"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SKYBAND", "SPARK", "PYSPARK", "PYTHONPATH"))}
        env |= {
            "JAVA_HOME": str(find_java_home()), "SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": options, "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self.directory / "local"), "SPARK_NO_DAEMONIZE": "1",
        }  # fmt: skip
        if self._python_path is not None:
            env["PYTHONPATH"] = self._python_path
        command = [str(home / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with _appending(self.directory / f"{name}.log") as log:
            self._daemons[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=self.directory,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def _until(self, there: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + SECONDS
        while not there():
            dead = [name for name, d in self._daemons.items() if d.poll() is not None]
            assert not dead and time.monotonic() < until, f"{what} did not come: {[self.log(n)[-2000:] for n in dead or self._daemons]}"
            time.sleep(0.1)


def _die_with_parent() -> None:
    """Linux: SIGKILL when the test's process is gone, however that came. Workers' executors see that their worker is gone, and go."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def _appending(path: Path) -> Iterator[IO[bytes]]:
    with open(path, "ab") as log:
        yield log


ROOT = Path(__file__).resolve().parents[2]
"""What executors need on their Python's path."""


WITHOUT = os.path.realpath(sys.executable)
"""A Python of the same version without Skyband: what this environment was made of."""


def environment(cluster: Cluster, **more: str) -> dict[str, str]:
    """That of a command whose engine computes on ``cluster``."""
    env = {k: v for k, v in os.environ.items() if k not in ("SKYBAND_FAILPOINT", "SPARK_LOCAL_IP")}
    return {**env, "SKYBAND_MASTER": cluster.url, "SKYBAND_SHUFFLE_PARTITIONS": "2", "PYSPARK_PYTHON": sys.executable, **more}
