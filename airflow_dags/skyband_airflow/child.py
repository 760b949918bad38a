"""A run of the pipeline's command as a process of its own: started, watched, found again by another try, stopped. Standard library only.

It writes to a file instead of into a pipe, and belongs to nobody: it goes on if Airflow's worker dies, and the next try finds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

IN_ORDER: Final = 3.0
"""Seconds that a stopped run has to end in order: Airflow kills the task itself 5 seconds after its signal."""
AT_ONCE: Final = 1.0
"""Seconds after its second signal, which ends it at once."""
_STEP: Final = 0.2

Handle = dict[str, Any]
"""``host``, ``pid``, ``started`` (the kernel's count, so that another process with this number is not taken for it) and ``directory``."""


def start(words: Sequence[str], env: Mapping[str, str]) -> Handle:
    """Starts the command, which is to write its outcome to the file named by a last argument ``--outcome``. Raises OSError."""
    directory = Path(tempfile.mkdtemp(prefix="skyband-run-"))
    with open(directory / "log", "wb") as log:
        child = subprocess.Popen(
            [*words, "--outcome", str(directory / "outcome.json")], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(env),
            start_new_session=True,
        )  # fmt: skip
    return {"host": socket.gethostname(), "pid": child.pid, "started": _started(child.pid), "folder": str(directory)}


def alive(handle: Handle) -> bool:
    """Whether the process is there, on this machine, and has not ended."""
    if handle["host"] != socket.gethostname():
        return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(handle["pid"], os.WNOHANG)
    started = _started(handle["pid"])
    return started is not None and started == handle["started"]


def outcome(handle: Handle) -> dict[str, Any] | None:
    """What the run wrote at its end; None if it has not ended, was killed, or is another machine's."""
    try:
        found: dict[str, Any] = json.loads((Path(handle["folder"]) / "outcome.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def follow(handle: Handle, say: Callable[[str], None]) -> None:
    """Passes every line on as it comes, until the process has ended."""
    with open(Path(handle["folder"]) / "log", encoding="utf-8", errors="replace") as log:
        for line in _lines(log, lambda: alive(handle)):
            say(line)


def _lines(log: Any, going: Callable[[], bool]) -> Iterator[str]:
    part = ""
    while True:
        last = not going()
        part += log.read()
        *whole, part = part.split("\n")
        yield from whole
        if last:
            break
        clock.sleep(_STEP)
    if part:
        yield part


def stop(handle: Handle) -> None:
    """Ends the process and its engine, in order if it does so in time: asked, asked again, killed with its group."""
    for number, seconds in ((signal.SIGTERM, IN_ORDER), (signal.SIGTERM, AT_ONCE)):
        until = clock.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError):
            if alive(handle):
                os.kill(handle["pid"], number)
        while alive(handle) and clock.monotonic() < until:
            clock.sleep(_STEP / 4)
    if alive(handle):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(handle["pid"], signal.SIGKILL)


def forget(handle: Handle) -> None:
    """Removes the run's directory."""
    shutil.rmtree(handle["folder"], ignore_errors=True)


def _started(pid: int) -> str | None:
    """When a process that has not ended was started: the kernel's count where it tells, else what ``ps`` says. None if there is none."""
    if os.path.isdir("/proc/self"):
        try:
            state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if state in "ZX" else rest[18]
    said = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return None if not said or said.startswith("Z") else said.partition(" ")[2].strip()
