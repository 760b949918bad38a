"""Spark's own log: below the sink, its owner's alone, without the values of the spec's environment variables.

What the JVM and its Python workers write to their file descriptors 1 and 2 goes through a pipe to a thread of the driver, which takes
concealed values out line by line (``errors.redacted``) and appends to the file. Where the driver is gone, those writes fail and are let go.
"""

from __future__ import annotations

import atexit
import os
import re
import select
import stat
import sys
import tempfile
import threading
import time as clock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError, redacted
from skyband.framework.base.redaction import longest_concealed
from skyband.framework.storage.outputs import output_file, require_outside_sinks

KEPT: Final = 5
"""Logs that are kept below a sink, with that of the run."""
PLACE: Final = "SKYBAND_LOG"
"""The environment variable that names another file for the log."""

_OLD: Final = re.compile(r"engine-\d{8}T\d{6}Z-\d+\.log")
_CHUNK: Final = 1 << 16
_LINE: Final = 1 << 20
_DRAIN_SECONDS: Final = 1.0
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Log:
    path: Path
    fd: int


_at_end: list[Callable[[], None]] = []
_waiting: list[int] = []
"""Pipes of what was started before there was a log."""
_log: _Log | None = None
"""One for the life of the process, as its JVM is."""


def log_file() -> Path | None:
    """Where Spark's log is, or None before a JVM has been started."""
    return None if _log is None else _log.path


@contextmanager
def spark_log(home: Path | None) -> Iterator[Path]:
    """File descriptors 1 and 2 lead into the log inside: what is started there inherits them for good.

    The log is ``$SKYBAND_LOG``, else a new file in ``home/logs`` (the newest ``KEPT`` stay), else, without ``home`` or where it cannot be
    written, in a new directory of this user's alone. A process has one log: later calls lead into the first one's. Raises SkybandError
    SKY-E203 if ``$SKYBAND_LOG`` is no plain file of the user's own.
    """
    global _log
    _fill()
    if _log is None:
        _log = _opened(home)
    while _waiting:
        _pump(_waiting.pop(), _log)
    read, write = os.pipe()
    # Before anything is started: a pipe that nobody reads would hold up its writers.
    _pump(read, _log)
    with _leading(write):
        yield _log.path


@contextmanager
def log_buffered() -> Iterator[None]:
    """As ``spark_log``, before it is known where the log is: what is written waits in a pipe for the first ``spark_log``."""
    _fill()
    read, write = os.pipe()
    _waiting.append(read)
    with _leading(write):
        yield


@contextmanager
def _leading(write: int) -> Iterator[None]:
    """File descriptors 1 and 2 are ``write`` inside, which is closed at the end."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {fd: os.dup(fd) for fd in (1, 2)}
    try:
        for fd in saved:
            os.dup2(write, fd)
        yield
    finally:
        for fd, own in saved.items():
            os.dup2(own, fd)
            os.close(own)
        os.close(write)


def _pump(read: int, log: _Log) -> None:
    pump = _Pump(read, log.fd)
    pump.start()
    _at_end.append(pump.drain)


@atexit.register
def close_log() -> None:
    """What is still on its way is written; a log of no sink in which nothing stands goes. For the end of the process."""
    while _at_end:
        _at_end.pop()()


def _fill() -> None:
    """Standard descriptors that are closed (a service's may be) lead nowhere from now on: nothing else must get their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


class _Pump(threading.Thread):
    """Reads the pipe ``source`` to its end, which comes when its last writer is gone, and appends what may be shown to ``log``."""

    def __init__(self, source: int, log: int) -> None:
        super().__init__(name="engine-log", daemon=True)
        self.source = source
        self.log = log
        self.idle = threading.Lock()
        self.ended = False

    def run(self) -> None:
        """Whatever becomes of the file (a full disk), the pipe is read on: its writers must not wait."""
        left = b""
        while True:
            select.select([self.source], [], [])
            with self.idle:
                chunk = os.read(self.source, _CHUNK)
                whole, left = _cut(left + chunk, not chunk)
                self._write(whole)
                if not chunk:
                    self.ended = True
                    os.close(self.source)
                    return

    def drain(self) -> None:
        """Waits until what is in the pipe has been written, for a second at most."""
        until = clock.monotonic() + _DRAIN_SECONDS
        while clock.monotonic() < until:
            with self.idle:
                if self.ended or not select.select([self.source], [], [], 0)[0]:
                    return
            self.join(0.01)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            while data:
                data = data[os.write(self.log, data) :]


def _cut(data: bytes, end: bool) -> tuple[bytes, bytes]:
    """(what can be written, redacted; what must wait for its line's end). A line that never ends is cut where no value stands."""
    at = len(data) if end else data.rfind(b"\n") + 1
    if at or len(data) <= _LINE:
        return _shown(data[:at]), data[at:]
    text = _shown(data)
    keep = min(len(text), 4 * longest_concealed())
    return text[: len(text) - keep], text[len(text) - keep :]


def _shown(data: bytes) -> bytes:
    return redacted(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _opened(home: Path | None) -> _Log:
    named = os.environ.get(PLACE)
    if named:
        return _named(Path(named).absolute())
    if home is not None:
        # A sink that cannot be written is told of by what needs it.
        with suppress(OSError):
            return _below(home)
    made = _created(Path(tempfile.mkdtemp(prefix="skyband-")))
    _at_end.append(lambda: _tidy(made))
    return made


def _tidy(log: _Log) -> None:
    """A log of no sink in which nothing stands is not left behind."""
    with suppress(OSError):
        if os.fstat(log.fd).st_size == 0:
            log.path.unlink()
            log.path.parent.rmdir()


def _named(path: Path) -> _Log:
    """The file the user names: there already or not, but plain, and this user's alone from now on."""
    require_outside_sinks(path, PLACE)
    try:
        # Not to wait for the reader of a pipe.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise _refused(path, e.strerror or str(e)) from e
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.geteuid():
        os.close(fd)
        raise _refused(path, "not a plain file of this user's with one name")
    os.fchmod(fd, 0o600)
    return _Log(path, fd)


def own_log(places: Sequence[str | None]) -> None:
    """Raise SkybandError SKY-E201 or SKY-E202 if ``$SKYBAND_LOG`` names a file of the job's source or sink (``places``; ``outputs``)."""
    named = os.environ.get(PLACE)
    if named:
        output_file(Path(named).absolute(), PLACE, places)


def _refused(path: Path, why: str) -> SkybandError:
    hint = f"{PLACE} names a file of your own, never a link; without it the log lies below the sink"
    return SkybandError("SKY-E203", f"Spark's log {path} cannot be written: {why}", hint=hint)


def _below(home: Path) -> _Log:
    """A new log in ``home/logs``, which must be a directory of this user's and no link; older ones than the newest go."""
    directory = home / "logs"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(at, 0o700)
        old = sorted(name for name in os.listdir(at) if _OLD.fullmatch(name))
        for name in old[: max(0, len(old) - KEPT + 1)]:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=at)
        return _created(directory, at)
    finally:
        os.close(at)


def _created(directory: Path, at: int | None = None) -> _Log:
    name = f"engine-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.log"
    path = directory / name
    return _Log(path, os.open(path if at is None else name, _NEW, 0o600, dir_fd=at))


def first_cause(text: str) -> str:
    """The line of a JVM error that says what happened, without its stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(("at ", "File ", "Traceback"))]
    named = [line for line in lines if "Error" in line or "Exception" in line]
    said = named[-1] if named else lines[0] if lines else "unknown"
    # What query of Spark's it was, and its code for other programs, say nothing to the reader.
    said = re.sub(r"^\[STREAM_FAILED\].*? terminated with exception: | SQLSTATE: \w+$", "", said)
    return re.sub(r"^(Caused by: )?([a-zA-Z_$]+\.)+", "", said)[:500]
