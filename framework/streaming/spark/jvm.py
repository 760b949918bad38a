"""Spark's process (one JVM a process of ours, as Spark has it): how it ended, and how to end it. Imports no Spark."""

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
MEMORY: Final = "give Spark more memory (SKYBAND_DRIVER_MEMORY) or the machine fewer other things to hold"
HEAP_FULL: Final = 3
"""What the JVM ends with when its heap is full (``-XX:+ExitOnOutOfMemoryError``)."""
_LOST_TOUCH: Final = ("Py4JNetworkError", "ConnectionError", "EOFError")
"""Classes, or bases of them, of what is raised when Spark does not answer."""
_SHUT_DOWN: Final = ("SparkContext was shut down", "stopped SparkContext", "Answer from Java side is empty", "Java gateway process exited")
_WORKER_DIED: Final = ("Python worker exited unexpectedly", "IOException: Stream closed")
"""A worker, or the daemon that Spark asks for workers."""
_LATE: Final = "Python worker failed to connect back"


class SparkJvm:
    """The process's engine; ``log`` is where it writes, ``scratch`` the directory of what ends with it, if it may be killed: it is on this
    machine alone, and all that has to last lasts already. ``packages``: those it was started with; it takes no more of them."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.log: Path | None = None
        self.scratch: Path | None = None
        self.packages: frozenset[str] = frozenset()
        self._asked: tuple[BaseException, SkybandError | None] | None = None

    def pids(self) -> list[int]:
        """Spark's process id, if there is a JVM."""
        return [] if self.process is None or self.process.poll() is not None else [self.process.pid]

    def death(self, error: BaseException) -> SkybandError | None:
        """SKY-E305 if ``error`` came because Spark died; None if it lives, there is none, or it refused to start.

        Waits for a JVM that is about to end: up to 15 s if the error says that it does not answer, 1 s if it does not say why. Asked
        again about the same error, it says the same.
        """
        if self._asked is None or self._asked[0] is not error:
            self._asked = error, self._death(error)
        return self._asked[1]

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
        how, hint = _told(code)
        log = f"; Spark's log is {self.log}" if self.log else ""
        return SkybandError("SKY-E305", f"Spark died: {how}", hint=f"{hint}{log}")

    def end(self, seconds: float = 10.0) -> None:
        """Ends Spark: it goes by itself when its input ends, within a second as a rule; is killed after ``seconds``, or at once if
        it may be."""
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
"""The process's own."""


def worker_failed(said: str, log: Path | None) -> SkybandError | None:
    """Return SKY-E305 if Spark reports that a Python worker is gone or did not connect in time, else None."""
    if _LATE in said:
        hint = f"give the machine less to do at once, then {AGAIN}; the log is {log}"
        return SkybandError("SKY-E305", "a Python worker did not connect to Spark within ten seconds: the machine is overloaded", hint=hint)
    if not any(words in said for words in _WORKER_DIED):
        return None
    hint = f"{AGAIN}; if it was for lack of memory, {MEMORY}; the log is {log}"
    return SkybandError("SKY-E305", "a Python worker of Spark's died in the middle of a batch", hint=hint)


class Stray(io.TextIOBase):
    """A stderr for what libraries print: while there is a JVM it goes to Spark's log, before that to ``out``."""

    def __init__(self, out: TextIO, engine: SparkJvm) -> None:
        self._out, self._engine = out, engine

    def write(self, text: str) -> int:
        """Never raises: it is called by threads that nobody waits for."""
        with contextlib.suppress(OSError, ValueError):
            if self._engine.log is None:
                self._out.write(text)
            else:
                with open(os.open(self._engine.log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "a", encoding="utf-8") as log:
                    log.write(redacted(text))
        return len(text)

    def flush(self) -> None:
        """Passes it on."""
        with contextlib.suppress(OSError, ValueError):
            self._out.flush()

    def fileno(self) -> int:
        """That of ``out``, for who asks."""
        return self._out.fileno()


def _seconds_to_die(error: BaseException) -> float:
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        if {c.__name__ for c in type(at).__mro__} & set(_LOST_TOUCH) or any(said in str(at) for said in _SHUT_DOWN):
            return 15.0
        at = at.__cause__ or at.__context__
    # A mistake that Skyband found itself does not come of a death; Spark and py4j may hide that one in anything.
    return 0.0 if isinstance(error, SkybandError) and len(seen) == 1 else 1.0


_DEATHS: Final = {HEAP_FULL, 52, *(128 + s for s in signal.Signals)}
"""Exit codes of a JVM that did not mean to end: heap full (the JVM's, Spark's), by a signal."""


def _told(code: int) -> tuple[str, str]:
    """(how it ended, what to do)."""
    if code in (HEAP_FULL, 52):
        return "it ran out of memory", f"{MEMORY}, then {AGAIN}"
    number = -code if code < 0 else code - 128
    if code < 0 or code > 128:
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            memory = f"; if nobody did that, the machine may have been out of memory: {MEMORY}" if number == signal.SIGKILL else ""
            return f"killed by {name}", AGAIN + memory
    return f"it ended with exit code {code}", AGAIN
