"""A run of the command as a tree of processes: the driver, its JVM, the JVM's Python workers. Read from ``/proc`` (Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
VICTIMS = ("driver", "jvm", "worker", "group")


class Process(NamedTuple):
    """A process by its number and when it was ``born`` (clock ticks): numbers are given again, on a busy machine within minutes."""

    pid: int
    born: int


def process(pid: int) -> Process | None:
    """The process with this number; None if there is none, or a dead one that nobody has asked for yet."""
    found = _look(pid)
    return found[0] if found is not None else None


def descendants(root: int) -> dict[Process, str]:
    """The processes below ``root`` with the last part of their program's name, parents before children."""
    children: dict[int, list[tuple[Process, str]]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (found := _look(int(entry.name))) is not None:
            one, parent, name = found
            children.setdefault(parent, []).append((one, name))
    below: dict[Process, str] = {}
    todo = [root]
    while todo:
        for one, name in children.get(todo.pop(), []):
            below[one] = name
            todo.append(one.pid)
    return below


def _look(pid: int) -> tuple[Process, int, str] | None:
    """(the process, its parent's number, its program's name)."""
    try:
        name, _, rest = (PROC / str(pid) / "stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    return None if fields[0] == "Z" else (Process(pid, int(fields[19])), int(fields[1]), name)


def alive(one: Process) -> bool:
    """Whether this very process is still there."""
    return process(one.pid) == one


def kill(processes: Sequence[Process]) -> None:
    """SIGKILL for those that are still there."""
    for one in processes:
        if alive(one):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)


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

    @property
    def family(self) -> list[Process]:
        """The driver, if it is still there, and all below it."""
        own = process(self.process.pid)
        return [*([own] if own is not None else []), *descendants(self.process.pid)]

    def victims(self, kind: str) -> tuple[str, list[Process]]:
        """(the kind of victim there is, its candidates): the one asked for, or the one above it while that has not been born."""
        family, below = self.family, descendants(self.process.pid)
        engines = [p for p, name in below.items() if name == "java"]
        workers = [p for p, name in below.items() if name.startswith("python")]
        if kind == "worker" and workers:
            return kind, workers
        if kind in ("worker", "jvm") and engines:
            return "jvm", engines
        return ("group", family) if kind == "group" else ("driver", family[:1])

    def output(self, seconds: float) -> list[str]:
        """All that an ended run has said."""
        self._reader.join(seconds)
        return self.said
