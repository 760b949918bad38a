"""How Spark's process comes to be: where it is known how, before PySpark is imported, which takes as long; else as PySpark has it."""

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
from typing import Any, NamedTuple

from skyband.framework.spark_adapter.driver import CONNECTION_FILE, has_gateway, jvm_started_by
from skyband.framework.streaming.spark import cluster, launch
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.streaming.spark.scratch import scratch_directory


@dataclass(slots=True)
class Start:
    """How Spark is to be started. ``known``: without Spark's script; ``make``: the archive of classes to make at Spark's end;
    ``secrets``: settings that no command line shows (Spark sets all of them once more in Spark); ``env``: variables of its own;
    ``directory``: where Spark's process stands, None for where this one does; ``meanwhile``: to be done while it starts."""

    settings: Mapping[str, Any]
    java: Path
    spark_home: Path
    known: launch.Known | None
    make: Path | None
    secrets: Collection[str]
    env: Mapping[str, str]
    directory: Path | None
    meanwhile: Callable[[], None] = field(compare=False)
    _early: Path | None = field(default=None, init=False, compare=False)

    def begin(self) -> None:
        """Starts the process if it is known how and there is none, as PySpark would: it ignores Ctrl-C, and ends when its input does.

        One that was started before it was sure what would be asked for is taken if it is just this one, and else ended.
        """
        self._early = self._started_ahead()
        if self._early is not None or not self._may_begin():
            return
        # The directory is this user's alone: what Spark says in it is how to command it.
        self._early = Path(tempfile.mkdtemp(dir=scratch_directory()))
        env = {**os.environ, "SPARK_CONNECT_MODE": "0", CONNECTION_FILE: str(self._early / "told")}
        self._open(self._asked(), {"stdin": PIPE, "env": env, "preexec_fn": _ignore_sigint})

    def ahead(self) -> None:
        """As ``begin``, for one that is not asked for yet."""
        global _ahead
        self.begin()
        if self._early is not None:
            _ahead = _Ahead(self, self._early)

    def _started_ahead(self) -> Path | None:
        """The directory of the process that has been started ahead, if it is the one that is to be started."""
        global _ahead
        if _ahead is None:
            return None
        other, directory = _ahead
        _ahead = None
        if other == self and SPARK_JVM.pids():
            return directory
        SPARK_JVM.end()
        # That took the directory with it.
        scratch_directory()
        return None

    def _may_begin(self) -> bool:
        return self.known is not None and SPARK_JVM.process is None and not has_gateway()

    def _asked(self) -> list[str]:
        return ["spark-submit", *(part for name, value in self.settings.items() for part in ("--conf", f"{name}={value}")), "pyspark-shell"]

    def process(self, command: list[str], **kwargs: Any) -> Popen[bytes]:
        """Spark's process, known from its first moment: Spark tells of it only once it has answered."""
        if self._early is None:
            self._open(command, kwargs)
        else:
            # PySpark waits for a file of its own choice.
            os.symlink(self._early / "told", kwargs["env"][CONNECTION_FILE])
        self.meanwhile()
        assert SPARK_JVM.process is not None
        return SPARK_JVM.process

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Spark starts its engine this way inside."""
        try:
            with jvm_started_by(self.process):
                yield
        finally:
            if self._early is not None:
                shutil.rmtree(self._early, ignore_errors=True)

    def _open(self, command: list[str], kwargs: Mapping[str, Any]) -> None:
        command, env = cluster.without(command, self.secrets), {**kwargs["env"], **self.env}
        if self.known is not None:
            command = launch.command(command, self.settings, self.java, self.spark_home, self.known, self.make)
            env = launch.environment(env, self.spark_home)
        SPARK_JVM.process = Popen(command, **{**kwargs, "env": env}, cwd=self.directory)


class _Ahead(NamedTuple):
    """A process that has been started before it was asked for, and the directory in which it says how it is reached."""

    start: Start
    directory: Path


_ahead: _Ahead | None = None


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
