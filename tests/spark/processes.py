"""A run of the command as a tree of processes: the driver, its JVM, the JVM's Python workers. Read from ``/proc`` (Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
VICTIMS = ("driver", "jvm", "worker", "group")


def descendants(root: int) -> dict[int, str]:
    """The processes below ``root`` with the last part of their program's name, parents before children."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                state, parent = rest.split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append((int(entry.name), name))
    found: dict[int, str] = {}
    todo = [root]
    while todo:
        for process, name in children.get(todo.pop(), []):
            found[process] = name
            todo.append(process)
    return found


def alive(process: int) -> bool:
    """Whether there is such a process and it is not a dead one that nobody has asked for yet."""
    try:
        return (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(processes: list[int]) -> None:
    """SIGKILL for those that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@dataclass
class Run:
    """A started command whose error output is read as it comes; ``lines`` holds it with the second each line came at."""

    process: subprocess.Popen[str]
    started: float = field(default_factory=time.monotonic)
    lines: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._news = threading.Condition()
        self._silent = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append((time.monotonic() - self.started, line.rstrip("\n")))
                self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()

    @property
    def said(self) -> list[str]:
        """The lines so far."""
        return [line for _, line in self.lines]

    @property
    def batches(self) -> list[float]:
        """When each batch was done, in seconds since the start."""
        return [at for at, line in list(self.lines) if line.startswith("batch ")]

    def wait_for_batches(self, number: int, seconds: float) -> bool:
        """Waits until so many batches are done; False if the run ends before."""
        with self._news:
            self._news.wait_for(lambda: len(self.batches) >= number or self._silent, seconds)
        return len(self.batches) >= number

    def ended(self, seconds: float) -> bool:
        """Whether the driver has ended, waiting so long for it."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def victims(self, kind: str) -> tuple[str, list[int]]:
        """(the kind of victim there is, its candidates): the one asked for, or the one above it while that has not been born."""
        below = descendants(self.process.pid)
        engines = [p for p, name in below.items() if name == "java"]
        workers = [p for p, name in below.items() if name.startswith("python")]
        if kind == "worker" and workers:
            return kind, workers
        if kind in ("worker", "jvm") and engines:
            return "jvm", engines
        return ("group", [self.process.pid, *below]) if kind == "group" else ("driver", [self.process.pid])

    def output(self, seconds: float) -> list[str]:
        """All that an ended run has said."""
        self._reader.join(seconds)
        return self.said
