"""Write Spark's log: a file below the sink, readable by its owner alone, with secret values redacted.

The output of the JVM and its Python workers goes through a pipe to a thread of the driver, which redacts each line
(``errors.redacted``) and appends it to the file. Once the driver has ended, that output is lost.
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
from skyband.framework.spark_adapter.failures import set_log_file
from skyband.framework.storage.outputs import output_file, require_outside_sinks

KEPT: Final = 5
"""The number of logs kept below a sink, including the current one."""
LOG_VARIABLE: Final = "SKYBAND_LOG"
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
_log: _Log | None = None
"""The log of this process's JVM."""


@contextmanager
def spark_log(home: Path | None) -> Iterator[Path]:
    """Redirect file descriptors 1 and 2 to the log inside the block; processes started there inherit them.

    The log is ``$SKYBAND_LOG``; else a new file in ``home/logs``, of which the newest ``KEPT`` remain; else, without ``home`` or if it
    cannot be written, a file in a new private directory. A process has one log: later calls use the first call's. Raise SkybandError
    SKY-E203 if ``$SKYBAND_LOG`` is not a regular file of this user.
    """
    global _log
    _fill()
    if _log is None:
        _log = _opened(home)
        set_log_file(_log.path)
    read, write = os.pipe()
    # Start reading first: writers to a pipe that nobody reads would block.
    _pump(read, _log)
    with _redirected_to(write):
        yield _log.path


@contextmanager
def _redirected_to(write: int) -> Iterator[None]:
    """Replace file descriptors 1 and 2 by ``write`` inside the block, and close it at the end."""
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
    """Write all buffered output, and remove an empty log that is not below a sink. Called when the process ends."""
    while _at_end:
        _at_end.pop()()


def _fill() -> None:
    """Open closed standard descriptors (as a service may have) on /dev/null, so that no other file gets their numbers."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


class _Pump(threading.Thread):
    """A thread that reads the pipe ``source`` until its last writer has closed it, and appends the redacted lines to ``log``."""

    def __init__(self, source: int, log: int) -> None:
        super().__init__(name="engine-log", daemon=True)
        self.source = source
        self.log = log
        self.idle = threading.Lock()
        self.ended = False

    def run(self) -> None:
        """Read the pipe to its end, even if the log cannot be written (a full disk): the writers must not block."""
        left = b""
        while True:
            select.select([self.source], [], [])
            with self.idle:
                chunk = os.read(self.source, _CHUNK)
                whole, left = _split_redacted(left + chunk, not chunk)
                self._write(whole)
                if not chunk:
                    self.ended = True
                    os.close(self.source)
                    return

    def drain(self) -> None:
        """Wait until the content of the pipe has been written, for at most one second."""
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


def _split_redacted(data: bytes, end: bool) -> tuple[bytes, bytes]:
    """Return (the redacted bytes to write, the rest of an incomplete line). A line over 1 MB is cut outside of redacted values."""
    at = len(data) if end else data.rfind(b"\n") + 1
    if at or len(data) <= _LINE:
        return _redacted(data[:at]), data[at:]
    text = _redacted(data)
    keep = min(len(text), 4 * longest_concealed())
    return text[: len(text) - keep], text[len(text) - keep :]


def _redacted(data: bytes) -> bytes:
    return redacted(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _opened(home: Path | None) -> _Log:
    named = os.environ.get(LOG_VARIABLE)
    if named:
        return _named(Path(named).absolute())
    if home is not None:
        # The code that needs the sink reports that it cannot be written.
        with suppress(OSError):
            return _below(home)
    made = _created(Path(tempfile.mkdtemp(prefix="skyband-")))
    _at_end.append(lambda: _tidy(made))
    return made


def _tidy(log: _Log) -> None:
    """Remove an empty log and its private directory."""
    with suppress(OSError):
        if os.fstat(log.fd).st_size == 0:
            log.path.unlink()
            log.path.parent.rmdir()


def _named(path: Path) -> _Log:
    """Open the file that the user names, which must be a regular file, and make it readable by this user alone."""
    require_outside_sinks(path, LOG_VARIABLE)
    try:
        # O_NONBLOCK: do not wait for the reader of a named pipe.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise _refused(path, e.strerror or str(e)) from e
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.geteuid():
        os.close(fd)
        raise _refused(path, "not a regular file of this user with a single link")
    os.fchmod(fd, 0o600)
    return _Log(path, fd)


def own_log(places: Sequence[str | None]) -> None:
    """Raise SkybandError SKY-E201 or SKY-E202 if ``$SKYBAND_LOG`` names a file of the job's source or sink (``places``; ``outputs``)."""
    named = os.environ.get(LOG_VARIABLE)
    if named:
        output_file(Path(named).absolute(), LOG_VARIABLE, places)


def _refused(path: Path, why: str) -> SkybandError:
    hint = f"let {LOG_VARIABLE} name a file of your own that is no link, or unset it to have the log below the sink"
    return SkybandError("SKY-E203", f"Spark's log {path} cannot be written: {why}", hint=hint)


def _below(home: Path) -> _Log:
    """Create a log in ``home/logs``, which must be a directory of this user and no link, and remove the oldest logs."""
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
    """Return the line of a JVM error that says what happened, without the stack trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(("at ", "File ", "Traceback"))]
    named = [line for line in lines if "Error" in line or "Exception" in line]
    said = named[-1] if named else lines[0] if lines else "unknown"
    # The id of Spark's query and the SQLSTATE do not help the reader.
    said = re.sub(r"^\[STREAM_FAILED\].*? terminated with exception: | SQLSTATE: \w+$", "", said)
    return re.sub(r"^(Caused by: )?([a-zA-Z_$]+\.)+", "", said)[:500]
