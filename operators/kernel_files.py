"""Files of compiled kernels: one per kernel, digest, types of arguments and processor, below the user's private cache directory.

A file is read only if this user (or root) owns it and nobody else may write to it, and its checksum is that of its content: a kernel is
code, and reading it unpickles it. Files are written under another name and then renamed, so that processes may write the same one.

``used-KERNEL`` says that a process of this user loaded a kernel that came with the package, and when (its time, to a day).
``compiling-RUN-PID`` names the kernel that a process of a run compiles now, and ``compiled-RUN`` has a line for each that its processes
compiled, for the reports of the run. ``RUN`` is the number of the process that began it: its workers have it in ``RUN_VARIABLE``.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SUFFIX: Final = ".kernel"
USED: Final = "used-"
RUNNING: Final = "compiling-"
FINISHED: Final = "compiled-"
RUN_VARIABLE: Final = "SKYBAND_COMPILES_FOR"
"""The environment variable with the number of the process whose run a worker belongs to."""
LOCK: Final = ".lock-"
_MAGIC: Final = b"skyband kernel 1\n"
_CHECKSUM: Final = 32
_UNUSED: Final = 60 * 86400
"""Seconds after which a kernel that no process has loaded is removed."""
_DAY: Final = 86400


class Compiled(NamedTuple):
    """A kernel that a process has compiled, or is compiling: its name, and for how long."""

    kernel: str
    seconds: float


class KernelFiles:
    """The files of one directory. Without ``private`` the directory is only read, and trusted as the code beside it is."""

    def __init__(self, directory: Path, private: bool = True) -> None:
        self.directory = directory
        self._private = private
        self._usable = usable(directory) if private else directory.is_dir()
        self._pruned = False

    @property
    def is_usable(self) -> bool:
        """Return True if files of the directory may be read."""
        return self._usable

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it is missing, damaged, or not private to this user."""
        if not self._usable:
            return None
        try:
            handle = os.open(self.directory / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or (self._private and not _ours(status)):
                    return None
                data = file.read()
        except OSError:
            return None
        head, checksum, content = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + _CHECKSUM], data[len(_MAGIC) + _CHECKSUM :]
        if head != _MAGIC or hashlib.sha256(content).digest() != checksum:
            return None
        if self._private and time.time() - status.st_atime > _DAY:
            with suppress(OSError):
                os.utime(self.directory / name, ns=(time.time_ns(), status.st_mtime_ns))
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file. A directory that refuses it is none of the caller's concern: the kernel is compiled again next time."""
        if not (self._usable and self._private):
            return
        with suppress(OSError):
            self._prune()
            handle, temporary = tempfile.mkstemp(prefix=".kernel-", dir=self.directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(content).digest() + content)
                os.replace(temporary, self.directory / name)
            except OSError:
                os.unlink(temporary)

    def note_use(self, name: str) -> None:
        """Note that this user's processes load the kernel ``name`` of another directory."""
        if not (self._usable and self._private):
            return
        note = self.directory / f"{USED}{name.removesuffix(SUFFIX)}"
        with suppress(OSError):
            if not note.exists() or time.time() - note.stat().st_mtime > _DAY:
                note.touch(mode=0o600)

    def used(self, since: float) -> list[str]:
        """Return the names of the kernels of another directory that were loaded after ``since`` (seconds since 1970), in order."""
        noted = [path.name for path, written in _entries(self.directory) if path.name.startswith(USED) and written >= since]
        return sorted(f"{name.removeprefix(USED)}{SUFFIX}" for name in noted)

    def lock(self, name: str) -> IO[bytes] | None:
        """Wait until no other process compiles a kernel, and keep others from it until ``unlock``.

        Return None where that is not possible: then several processes compile it. A process that ends releases its locks.
        """
        if not (self._usable and self._private) or fcntl is None:
            return None
        try:
            file = (self.directory / f"{LOCK}{name}").open("wb")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            return None
        return file

    def unlock(self, name: str, lock: IO[bytes]) -> None:
        """Release a lock: its kernel is written, or was found."""
        with suppress(OSError):
            (self.directory / f"{LOCK}{name}").unlink()
        lock.close()

    def begin(self, kernel: str) -> None:
        """Note that this process compiles ``kernel``."""
        if self._usable and self._private:
            with suppress(OSError):
                (self.directory / f"{RUNNING}{run()}-{os.getpid()}").write_text(kernel)

    def end(self, kernels: int = 0, seconds: float = 0.0) -> None:
        """Remove the note of ``begin``. In a run that reports it, record that ``kernels`` were compiled in the last ``seconds``."""
        if self._usable and self._private:
            with suppress(OSError):
                (self.directory / f"{RUNNING}{run()}-{os.getpid()}").unlink()
            if kernels and RUN_VARIABLE in os.environ:
                now = time.time()
                # A short line at the end of a file is written in one piece, whatever other processes write.
                with suppress(OSError), (self.directory / f"{FINISHED}{run()}").open("ab", buffering=0) as file:
                    file.write(b"%d %.6f %.6f\n" % (kernels, now - seconds, now))

    def _prune(self) -> None:
        """Remove kernels that no process has loaded for two months, and notes and temporary files of processes that were killed."""
        if self._pruned:
            return
        self._pruned = True
        now = time.time()
        for entry in os.scandir(self.directory):
            status = entry.stat(follow_symlinks=False)
            unused = now - max(status.st_atime, status.st_mtime)
            kernel = entry.name.startswith(USED) or (entry.name.endswith(SUFFIX) and not entry.name.startswith("."))
            if unused > (_UNUSED if kernel else _DAY):
                with suppress(OSError):
                    os.unlink(entry.path)


def usable(directory: Path) -> bool:
    """Create a directory of mode 0700; return True if it belongs to this user and nobody else can write to it.

    A directory of this user that others can read is made private.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if not (stat.S_ISDIR(status.st_mode) and _ours(status, root=False)):
            return False
        if stat.S_IMODE(status.st_mode) & 0o077 and hasattr(os, "getuid"):
            directory.chmod(0o700)
        return os.access(directory, os.W_OK | os.X_OK)
    except OSError:
        return False


def _ours(status: os.stat_result, root: bool = True) -> bool:
    if not hasattr(os, "getuid"):
        return True
    owners = (os.getuid(), 0) if root else (os.getuid(),)
    return status.st_uid in owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def run() -> str:
    """Return the number of the process that began this process's run: its own, unless it is a worker."""
    found = os.environ.get(RUN_VARIABLE, "")
    return found if found.isascii() and found.isdigit() else str(os.getpid())


def begin_record() -> None:
    """Have this process, and the workers that it starts, record what they compile."""
    os.environ[RUN_VARIABLE] = run()


def stop_recording() -> None:
    """Undo ``begin_record`` for this process and those that it starts from now on."""
    if os.environ.get(RUN_VARIABLE) == str(os.getpid()):
        del os.environ[RUN_VARIABLE]


def end_record(directory: Path) -> None:
    """Remove the record of this run in ``directory``."""
    with suppress(OSError):
        (directory / f"{FINISHED}{run()}").unlink()


class Span(NamedTuple):
    """Kernels that one process compiled one after the other, from ``began`` to ``ended`` (seconds since 1970)."""

    kernels: int
    began: float
    ended: float


def compiled_since(directory: Path, instant: float) -> list[Span]:
    """Return what the processes of this run have compiled since ``instant`` (seconds since 1970). O(lines of the run's record)."""
    spans = []
    with suppress(OSError):
        for line in (directory / f"{FINISHED}{run()}").read_bytes().splitlines():
            with suppress(ValueError):
                kernels, began, ended = line.split()
                span = Span(int(kernels), float(began), float(ended))
                if instant <= span.began <= span.ended:
                    spans.append(span)
    return spans


def running(directory: Path, instant: float) -> list[Compiled]:
    """Return the kernels that processes of this run began to compile since ``instant``, and for how many seconds so far."""
    found = []
    for path, written in _entries(directory):
        if path.name.startswith(f"{RUNNING}{run()}-") and written >= instant:
            with suppress(OSError, UnicodeDecodeError):
                found.append(Compiled(path.read_text(), max(time.time() - written, 0.0)))
    return found


def _entries(directory: Path) -> Iterator[tuple[Path, float]]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            yield Path(entry.path), entry.stat(follow_symlinks=False).st_mtime


def versions(*libraries: str) -> str:
    """Name the directory of kernels for this Python and these versions of libraries.

    Releases of one minor version of Python have one name: they share their bytecode and their binary interface.
    """
    python = (sys.platform, importlib.machinery.EXTENSION_SUFFIXES[0], importlib.util.MAGIC_NUMBER)
    text = repr((sys.implementation.cache_tag, python, *libraries, _options()))
    return f"{sys.implementation.cache_tag}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


_HARMLESS: Final = frozenset(
    {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_DEBUG_CACHE", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"}
)
"""Numba's settings that change no code, or name the processor, which each file's name has."""


def _options() -> list[tuple[str, str]]:
    """Numba's settings in the environment that may change code."""
    return sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name not in _HARMLESS)
