"""Start the JVM: before PySpark is imported if the command line is known, else when PySpark asks for it."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from skyband.framework.spark_adapter.driver import CONNECTION_FILE, has_gateway, jvm_started_by
from skyband.framework.streaming.spark import cluster, launch
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.streaming.spark.scratch import scratch_directory
from skyband.operators.kernel_files import RUN_VARIABLE, run


@dataclass(slots=True)
class Start:
    """A JVM to start.

    ``known``: results of an earlier start, which replace Spark's script; ``make``: the archive of classes to write when the JVM ends;
    ``secrets``: settings that must not be on a command line (PySpark passes all settings once more later); ``env``: additional
    environment variables; ``directory``: the JVM's working directory, None for this process's; ``meanwhile``: called while it starts.
    """

    settings: Mapping[str, Any]
    java: Path
    spark_home: Path
    known: launch.Known | None
    make: Path | None
    secrets: Collection[str]
    env: Mapping[str, str]
    directory: Path | None
    meanwhile: Callable[[], None]
    _early: Path | None = field(default=None, init=False)

    def begin(self) -> None:
        """Start the process, as PySpark would, if its command is known and none runs. It ignores Ctrl-C, and ends with its input."""
        if self.known is None or SPARK_JVM.process is not None or has_gateway():
            return
        # The directory is private to this user: the JVM writes its secret to it.
        self._early = Path(tempfile.mkdtemp(dir=scratch_directory()))
        env = {**os.environ, "SPARK_CONNECT_MODE": "0", CONNECTION_FILE: str(self._early / "connection")}
        self._open(self._script(), {"stdin": PIPE, "env": env, "preexec_fn": _ignore_sigint})

    def _script(self) -> list[str]:
        return ["spark-submit", *(part for name, value in self.settings.items() for part in ("--conf", f"{name}={value}")), "pyspark-shell"]

    def process(self, command: list[str], **kwargs: Any) -> Popen[bytes]:
        """Return the process in place of ``Popen``, and register it at once: PySpark knows it only after it has answered."""
        if self._early is None:
            self._open(command, kwargs)
        else:
            # PySpark waits for a file whose name it chooses.
            os.symlink(self._early / "connection", kwargs["env"][CONNECTION_FILE])
        self.meanwhile()
        assert SPARK_JVM.process is not None
        return SPARK_JVM.process

    @contextmanager
    def used_by_pyspark(self) -> Iterator[None]:
        """Have PySpark use this JVM inside the block."""
        try:
            with jvm_started_by(self.process):
                yield
        finally:
            if self._early is not None:
                shutil.rmtree(self._early, ignore_errors=True)

    def _open(self, command: list[str], kwargs: Mapping[str, Any]) -> None:
        command, env = cluster.without(command, self.secrets), {**kwargs["env"], RUN_VARIABLE: run(), **self.env}
        if self.known is not None:
            command = launch.command(command, self.settings, self.java, self.spark_home, self.known, self.make)
            env = launch.environment(env, self.spark_home)
        SPARK_JVM.process = Popen(command, **{**kwargs, "env": env}, cwd=self.directory)


@cache
def end_with_process() -> None:
    """End Spark when this process ends: for a program or a notebook that calls ``Job.run``.

    It ends before the interpreter shuts down, because Spark's threads would print errors then.
    """
    atexit.register(_end)


def _end() -> None:
    with suppress(Exception):
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
    SPARK_JVM.end()


def _ignore_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
