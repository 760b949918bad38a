"""Spark's JVM (one per process): why it ended, and how to end it. Does not import Spark."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final, TextIO

from skyband.framework.base.errors import SkybandError, redacted

AGAIN: Final = "run again: nothing is lost"
MEMORY: Final = "give Spark more memory (SKYBAND_DRIVER_MEMORY) or run fewer other processes on the machine"
HEAP_FULL: Final = 3
"""The JVM's exit code when its heap is full (``-XX:+ExitOnOutOfMemoryError``)."""
_NO_ANSWER: Final = ("Py4JNetworkError", "ConnectionError", "EOFError")
"""Classes, or base classes, of the exceptions that are raised when Spark does not answer."""
_SHUT_DOWN: Final = ("SparkContext was shut down", "stopped SparkContext", "Answer from Java side is empty", "Java gateway process exited")
_WORKER_DIED: Final = ("Python worker exited unexpectedly", "IOException: Stream closed")
"""Messages about a dead worker, or about the dead daemon that forks workers."""
_LATE: Final = "Python worker failed to connect back"


class SparkJvm:
    """The JVM of this process.

    ``log``: the file of its log. ``scratch``: its temporary directory, if it may be killed, because it runs on this machine alone and all
    durable data is written; else None. ``packages``: those it was started with; a running JVM takes no more.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.log: Path | None = None
        self.scratch: Path | None = None
        self.packages: frozenset[str] = frozenset()
        self._diagnosed: tuple[BaseException, SkybandError | None] | None = None

    def pids(self) -> list[int]:
        """Return the JVM's process id, or [] if none runs."""
        return [] if self.process is None or self.process.poll() is not None else [self.process.pid]

    def death(self, error: BaseException) -> SkybandError | None:
        """Return SKY-E305 if the JVM's death caused ``error``; None if it lives, never started, or refused to start.

        Waits for a JVM that is about to end: up to 15 s if the error says that it does not answer, 1 s if it gives no reason. The answer
        for one error stays the same.
        """
        if self._diagnosed is None or self._diagnosed[0] is not error:
            self._diagnosed = error, self._death(error)
        return self._diagnosed[1]

    def _death(self, error: BaseException) -> SkybandError | None:
        if self.process is None:
            return None
        code = self.process.poll()
        seconds = _seconds_to_die(error)
        if code is None and seconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.process.wait(seconds)
        if code is None or (code not in _DEATHS and code > 0 and isinstance(error, SkybandError)):
            return None
        how, hint = _ending(code)
        log = f"; Spark's log is {self.log}" if self.log else ""
        return SkybandError("SKY-E305", f"Spark died: {how}", hint=f"{hint}{log}")

    def end(self, seconds: float = 10.0) -> None:
        """End the JVM. It usually exits within a second when its input ends; it is killed after ``seconds``, or at once if it may be."""
        if self.process is None:
            return
        if self.scratch is not None:
            self.process.kill()
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGKILL)
        self.process = None
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


SPARK_JVM: Final = SparkJvm()
"""The JVM of this process."""


def worker_failed(said: str, log: Path | None) -> SkybandError | None:
    """Return SKY-E305 if Spark reports that a Python worker is gone or did not connect in time, else None."""
    if _LATE in said:
        hint = f"run fewer processes on the machine at once, then {AGAIN}; the log is {log}"
        return SkybandError("SKY-E305", "a Python worker did not connect to Spark within ten seconds: the machine is overloaded", hint=hint)
    if not any(words in said for words in _WORKER_DIED):
        return None
    hint = f"{AGAIN}; if it was for lack of memory, {MEMORY}; the log is {log}"
    return SkybandError("SKY-E305", "a Python worker of Spark died during a batch", hint=hint)


class Stray(io.TextIOBase):
    """A stderr for the output of libraries: Spark's log once there is one, before that ``out``."""

    def __init__(self, out: TextIO, jvm: SparkJvm) -> None:
        self._out, self._target = out, jvm

    def write(self, text: str) -> int:
        """Write ``text``. Never raise: threads that nobody waits for call this."""
        with contextlib.suppress(OSError, ValueError):
            if self._target.log is None:
                self._out.write(text)
            else:
                with open(os.open(self._target.log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "a", encoding="utf-8") as log:
                    log.write(redacted(text))
        return len(text)

    def flush(self) -> None:
        """Flush ``out``."""
        with contextlib.suppress(OSError, ValueError):
            self._out.flush()

    def fileno(self) -> int:
        """Return the descriptor of ``out``."""
        return self._out.fileno()


def _seconds_to_die(error: BaseException) -> float:
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        if {c.__name__ for c in type(at).__mro__} & set(_NO_ANSWER) or any(said in str(at) for said in _SHUT_DOWN):
            return 15.0
        at = at.__cause__ or at.__context__
    # An error that Skyband raised itself has another cause; Spark and py4j may wrap the death in any exception.
    return 0.0 if isinstance(error, SkybandError) and len(seen) == 1 else 1.0


_DEATHS: Final = {HEAP_FULL, 52, *(128 + s for s in signal.Signals)}
"""Exit codes of an unintended end: heap full (the JVM's code, Spark's code), or a signal."""


def _ending(code: int) -> tuple[str, str]:
    """Return how the JVM ended, and what to do."""
    if code in (HEAP_FULL, 52):
        return "it ran out of memory", f"{MEMORY}, then {AGAIN}"
    number = -code if code < 0 else code - 128
    if code < 0 or code > 128:
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            memory = f"; if no user did that, the machine may have been out of memory: {MEMORY}" if number == signal.SIGKILL else ""
            return f"killed by {name}", AGAIN + memory
    return f"it ended with exit code {code}", AGAIN
