"""Start, watch and stop a run of Skyband's command as an independent process. Standard library only.

The process logs to a file instead of a pipe. It continues if Airflow's worker dies, and the next try finds it again.
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
"""Seconds that a stopped run gets to end in order: Airflow kills the task itself 5 seconds after its signal."""
AT_ONCE: Final = 1.0
"""Seconds to wait after the second signal, which ends a run at once."""
_STEP: Final = 0.2

Handle = dict[str, Any]
"""``host``, ``pid``, ``started`` (the start time, to recognize a reused pid) and ``folder`` (the directory of its log and outcome)."""


def start(words: Sequence[str], env: Mapping[str, str]) -> Handle:
    """Start the command with ``--outcome`` as its last argument, and return its handle. Raises OSError."""
    directory = Path(tempfile.mkdtemp(prefix="skyband-run-"))
    with open(directory / "log", "wb") as log:
        child = subprocess.Popen(
            [*words, "--outcome", str(directory / "outcome.json")], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(env),
            start_new_session=True,
        )  # fmt: skip
    return {"host": socket.gethostname(), "pid": child.pid, "started": _started(child.pid), "folder": str(directory)}


def alive(handle: Handle) -> bool:
    """Return True if the process runs on this machine."""
    if handle["host"] != socket.gethostname():
        return False
    with contextlib.suppress(ChildProcessError):
        os.waitpid(handle["pid"], os.WNOHANG)
    started = _started(handle["pid"])
    return started is not None and started == handle["started"]


def outcome(handle: Handle) -> dict[str, Any] | None:
    """Return the outcome of a run; None if it has not ended, was killed, or ran on another machine."""
    try:
        found: dict[str, Any] = json.loads((Path(handle["folder"]) / "outcome.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def follow(handle: Handle, say: Callable[[str], None]) -> None:
    """Pass every log line to ``say`` until the process ends."""
    with open(Path(handle["folder"]) / "log", encoding="utf-8", errors="replace") as log:
        for line in _lines(log, lambda: alive(handle)):
            say(line)


def _lines(log: Any, running: Callable[[], bool]) -> Iterator[str]:
    part = ""
    while True:
        last = not running()
        part += log.read()
        *whole, part = part.split("\n")
        yield from whole
        if last:
            break
        clock.sleep(_STEP)
    if part:
        yield part


def stop(handle: Handle) -> None:
    """Stop the process and its Spark: two signals with time to end in order, then SIGKILL for its process group."""
    if not alive(handle):
        return
    for number, seconds in ((signal.SIGTERM, IN_ORDER), (signal.SIGTERM, AT_ONCE)):
        until = clock.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError):
            if alive(handle):
                os.kill(handle["pid"], number)
        while alive(handle) and clock.monotonic() < until:
            clock.sleep(_STEP / 4)
    # Also if the process has ended: its JVM may not have.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(handle["pid"], signal.SIGKILL)


def remove(handle: Handle) -> None:
    """Remove the directory of a run."""
    shutil.rmtree(handle["folder"], ignore_errors=True)


def _started(pid: int) -> str | None:
    """Return the start time of a running process, from /proc or else from ``ps``; None if there is no such process."""
    if os.path.isdir("/proc/self"):
        try:
            state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if state in "ZX" else rest[18]
    shown = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return None if not shown or shown.startswith("Z") else shown.partition(" ")[2].strip()
